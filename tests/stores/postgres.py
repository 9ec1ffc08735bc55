"""PostgreSQL stores for tests, each with a schema of its own on the session's server. A schema that
a store has left is emptied and used again: that is a hundred times quicker than to make one."""

from __future__ import annotations

import os
from uuid import uuid4

import psycopg

from oncue.ports.clock import Clock
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.store import PgStore
from tests.servers.postgres import postgres_url

VERSION = "TEST_POSTGRES_OF_ONCUE"
"""The variable that names the version on which the tests of stores run."""
_free: list[str] = []
_TABLES = (
    *("jobs", "operations", "queues", "ranges", "access_tokens", "nodes", "rules", "dependencies"),
    *("events", "accepted", "decisions", "schedules", "outcomes"),
)


def url_of(schema: str) -> str:
    return f"{postgres_url(os.environ.get(VERSION, '18'))}?schema={schema}"


def _schema() -> str:
    """One that is empty."""
    if not _free:
        return f"t{uuid4().hex}"
    schema = _free.pop()
    with psycopg.connect(url_of(schema).partition("?")[0], autocommit=True) as connection:
        deletes = "".join(f"DELETE FROM {schema}.{table};" for table in _TABLES)
        kept = f"DELETE FROM {schema}.meta WHERE name NOT IN ('schema', 'secret');"
        connection.execute(f"{deletes}{kept}UPDATE {schema}.revision SET settings = 0".encode())
    return schema


class OwnSchema(PgStore):
    """A store that leaves its schema to the next one."""

    def close(self) -> None:
        super().close()
        if self.db.address.schema not in _free:
            _free.append(self.db.address.schema)


def open_postgres(clock: Clock, shards: int) -> PgStore:
    return OwnSchema(PgAddress.read(url_of(_schema())), clock, shards=shards)


def another_postgres(store: PgStore) -> PgStore:
    return PgStore(store.db.address, store.clock, shards=store.shards)
