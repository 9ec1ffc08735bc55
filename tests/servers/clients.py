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


def dynamodb_client(endpoint: str) -> Any:
    return client("dynamodb", endpoint)


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
