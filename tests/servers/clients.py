"""Clients of the servers, for tests."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from oncue.boto import LEAN
from oncue.boto.shapes import speed_up

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
}
"""Of emulators, as variables of the environment."""


CREATE_ATTEMPTS = 20


def dynamodb_client(endpoint: str) -> Any:
    made = client("dynamodb", endpoint)
    made.meta.events.register("needs-retry.dynamodb.CreateTable", _pause_before_another_try)
    return made


def _pause_before_another_try(response: Any, attempts: int, **_: Any) -> float | None:
    """Seconds, or None: DynamoDB Local sometimes fails to create a table while it is busy, which
    is no concern of a test."""
    failed = response is not None and response[0].status_code == 500
    return 0.2 if failed and attempts < CREATE_ATTEMPTS else None


def client(service: str, endpoint: str) -> Any:
    """A client that repeats nothing by itself, so that a test sees every failure."""
    make: Any = boto3.client
    made = make(
        service,
        endpoint_url=endpoint,
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64, **LEAN),
    )
    return speed_up(made, service)
