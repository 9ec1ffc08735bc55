"""Servers that tests talk to. Each runs once for a whole session and ends with it."""

from __future__ import annotations

from tests.servers.brokers import rabbitmq_url, redis_url
from tests.servers.emulators import dynamodb_endpoint, dynoxide_endpoint, ministack_endpoint

__all__ = [
    "dynamodb_endpoint",
    "dynoxide_endpoint",
    "ministack_endpoint",
    "rabbitmq_url",
    "redis_url",
]
