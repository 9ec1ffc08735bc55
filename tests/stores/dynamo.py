"""DynamoDB stores for tests, each with a table of its own: on the session's DynamoDB Local, unless
the environment names another emulator."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from oncue.ports.clock import Clock
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.known import DEFAULT_SHARDS
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.servers.clients import dynamodb_client
from tests.servers.emulators import chosen, endpoint_of
from tests.stores.dialects import speak_dynoxide
from tests.stores.dynamodb.policy import Permitted
from tests.stores.dynamodb.ttl import HeldTtl


@cache
def client() -> Any:
    client = dynamodb_client(endpoint_of(chosen()))
    return speak_dynoxide(client) if chosen() == "dynoxide" else client


def new_name() -> str:
    return f"oncue-{uuid4().hex}"


def new_table(connect: Any = client) -> Table:
    """Nothing in it is removed by the server: its clock is not that of a test."""
    name = new_name()
    creation.create(Table(name, lambda: HeldTtl(connect())))
    return Table(name, connect)


class OwnTable(DynamoStore):
    """A store whose table goes with it, and those of which it knows."""

    def __init__(self, table: Table, clock: Clock, *, shards: int = DEFAULT_SHARDS) -> None:
        super().__init__(table, clock, shards=shards)
        self.dropped = [table.name]

    def close(self) -> None:
        super().close()
        while self.dropped:
            client().delete_table(TableName=self.dropped.pop())


def open_dynamo(clock: Clock, shards: int) -> DynamoStore:
    """It may do what the policies in the documents allow, and nothing else."""
    table = Table(new_table().name, lambda: Permitted(client()))
    return OwnTable(table, clock, shards=shards)


def another_dynamo(store: DynamoStore) -> DynamoStore:
    shards = store._memory.default_shards
    table = type(store.table)(store.table.name, store.table._connect)
    return DynamoStore(table, store.clock, shards=shards)
