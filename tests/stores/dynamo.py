"""DynamoDB stores for tests, each with a table of its own: on the session's DynamoDB Local, unless
the environment names another emulator."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from oncue.ports.clock import Clock
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from tests.servers.clients import dynamodb_client
from tests.servers.emulators import chosen, chosen_endpoint
from tests.stores.dialects import speak_dynoxide


@cache
def client() -> Any:
    client = dynamodb_client(chosen_endpoint())
    return speak_dynoxide(client) if chosen() == "dynoxide" else client


def new_table(connect: Any = client) -> Table:
    table = Table(f"oncue-{uuid4().hex}", connect)
    creation.create(table)
    return table


class OwnTable(DynamoStore):
    """A store whose table goes with it."""

    def close(self) -> None:
        client().delete_table(TableName=self.table.name)
        super().close()


def open_dynamo(clock: Clock, shards: int) -> DynamoStore:
    return OwnTable(new_table(), clock, shards=shards)


def another_dynamo(store: DynamoStore) -> DynamoStore:
    shards = store._memory.default_shards
    return DynamoStore(Table(store.table.name, client), store.clock, shards=shards)
