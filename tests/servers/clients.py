"""Clients of the servers, for tests."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from oncue.stores.dynamodb.address import LEAN


def dynamodb_client(endpoint: str) -> Any:
    """A client that repeats nothing by itself, so that a test sees every failure."""
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64, **LEAN),
    )
