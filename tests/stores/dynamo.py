"""DynamoDB stores for tests, on the session's DynamoDB Local: each has a table of its own."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from oncue.ports.clock import Clock
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.servers import dynamodb_endpoint
from tests.servers.clients import dynamodb_client
from tests.stores.dynamodb.ttl import HeldTtl


@cache
def client() -> Any:
    return dynamodb_client(dynamodb_endpoint())


def new_name() -> str:
    return f"oncue-{uuid4().hex}"


def new_table(connect: Any = client) -> Table:
    """Nothing in it is removed by the server: its clock is not that of a test."""
    name = new_name()
    creation.create(Table(name, lambda: HeldTtl(connect())))
    return Table(name, connect)


class OwnTable(DynamoStore):
    """A store whose table goes with it, and those of which it knows."""

    def __init__(self, table: Table, clock: Clock, *, shards: int) -> None:
        super().__init__(table, clock, shards=shards)
        self.also_dropped: list[str] = []

    is_open = True

    def close(self) -> None:
        super().close()
        if self.is_open:
            for name in (self.table.name, *self.also_dropped):
                client().delete_table(TableName=name)
        self.is_open = False


def open_dynamo(clock: Clock, shards: int) -> DynamoStore:
    return OwnTable(new_table(), clock, shards=shards)


def another_dynamo(store: DynamoStore) -> DynamoStore:
    shards = store._memory.default_shards
    table = type(store.table)(store.table.name, store.table._connect)
    return DynamoStore(table, store.clock, shards=shards)
