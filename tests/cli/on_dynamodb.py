"""The program on a table of the session's DynamoDB Local."""

from __future__ import annotations

from uuid import uuid4

from tests.servers import dynamodb_endpoint
from tests.stores.dynamo import new_table

CREDENTIALS: dict[str, str | None] = {
    "AWS_ACCESS_KEY_ID": "any",
    "AWS_SECRET_ACCESS_KEY": "very-secret",
    "AWS_DEFAULT_REGION": "eu-central-1",
}


def url_of(table: str) -> str:
    return f"dynamodb://{table}?endpoint={dynamodb_endpoint()}"


def unused_url() -> str:
    """Of a table that does not exist."""
    return url_of(f"oncue-{uuid4().hex}")


def new_url() -> str:
    """Of a new and empty store."""
    return url_of(new_table().name)
