"""Two nodes on the same data are two store objects, on every store."""

from __future__ import annotations

from typing import Protocol, cast

from oncue.ports.store import Store
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.memory import MemoryStore
from oncue.stores.postgresql.store import PgStore
from oncue.stores.sqlite import SqliteStore
from tests.stores.dynamo import another_dynamo
from tests.stores.postgres import another_postgres


class Wrapper(Protocol):
    """A store around another one."""

    def another_node(self) -> Store:
        """The same around another node."""


def another_node(store: Store) -> Store:
    """A second store object on the data of the first."""
    if isinstance(store, SqliteStore):
        return SqliteStore(store.db.path, store.clock)
    if isinstance(store, DynamoStore):
        return another_dynamo(store)
    if isinstance(store, PgStore):
        return another_postgres(store)
    if isinstance(store, MemoryStore):
        other = object.__new__(type(store))
        other.__dict__ = store.__dict__
        return other
    return cast(Wrapper, store).another_node()
