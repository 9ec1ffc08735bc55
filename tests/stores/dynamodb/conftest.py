"""A client of DynamoDB Local, and a table of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.clients import dynamodb_client
from tests.stores.dynamodb.shelf import create


@pytest.fixture(scope="session")
def client(dynamodb: str) -> Any:
    return dynamodb_client(dynamodb)


@pytest.fixture
def table(client: Any) -> Iterator[str]:
    """Keys `pk` and `sk`, a sparse index `look` of keys only by `lpk` and `lsk`."""
    name = f"test-{uuid.uuid4()}"
    create(client, name)
    yield name
    client.delete_table(TableName=name)
