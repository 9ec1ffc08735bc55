"""A message of Celery that was captured and waits as a job: the payload is the whole message.

It is published as it was captured. The body is what a serializer made of the arguments: bytes that
nobody here reads.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.sinks.captured import CapturedMessages


class CeleryMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    body: bytes
    content_type: str
    content_encoding: str
    exchange: str
    routing_key: str
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    """The others that its publisher is given: correlation_id, reply_to, priority, expiration …"""
    declare: list[str] = []
    """The names of the queues that have to be there when it is published."""


MESSAGES = CapturedMessages(CeleryMessage, "a captured message of Celery")
