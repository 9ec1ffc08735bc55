"""PostgreSQL stores for tests, each with a schema of its own on the session's server. A schema that
a store has left is emptied and used again: that is a hundred times quicker than to make one."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from uuid import uuid4

import psycopg

from oncue.ports.clock import Clock
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.store import PgStore
from tests.servers.pgbouncer import pgbouncer_url
from tests.servers.postgres import debian_postgres, postgres_url

VERSION = "TEST_POSTGRES_OF_ONCUE"
"""The variable that names the version on which all tests of stores run. Without it, every fourth of
them runs on Debian's 15 where that is, some of the contract suite on 18 behind pgbouncer, and the
others on 18."""
POOLED = "pgbouncer"
"""In place of a version: 18, behind a pooler."""
_free: dict[str, list[str]] = defaultdict(list)
"""By server."""
_TABLES = (
    *("jobs", "operations", "queues", "ranges", "access_tokens", "nodes", "rules", "dependencies"),
    *("events", "accepted", "decisions", "schedules", "outcomes"),
)


def versions() -> list[str]:
    """Those that are installed."""
    return ["18"] if debian_postgres() is None else ["18", "15"]


def _server() -> str:
    """The one of the test that runs now."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    draw = zlib.crc32(test.encode())
    version = versions()[-1] if draw % 4 == 0 else "18"
    if draw % 16 == 1 and test.startswith("tests/contract/"):
        version = POOLED
    version = os.environ.get(VERSION, version)
    return pgbouncer_url() if version == POOLED else postgres_url(version)


def url_of(schema: str) -> str:
    return f"{_server()}?schema={schema}"


def _schema() -> str:
    """One that is empty."""
    server = _server()
    if not _free[server]:
        return f"t{uuid4().hex}"
    schema = _free[server].pop()
    with psycopg.connect(server, autocommit=True) as connection:
        deletes = "".join(f"DELETE FROM {schema}.{table};" for table in _TABLES)
        kept = f"DELETE FROM {schema}.meta WHERE name NOT IN ('schema', 'least', 'secret');"
        connection.execute(f"{deletes}{kept}UPDATE {schema}.revision SET settings = 0".encode())
    return schema


class OwnSchema(PgStore):
    """A store that leaves its schema to the next one."""

    def close(self) -> None:
        super().close()
        free = _free[self.db.address.conninfo]
        if self.db.address.schema not in free:
            free.append(self.db.address.schema)


def own_url() -> str:
    """Of a store that does not exist yet; nobody uses its schema again."""
    return url_of(f"t{uuid4().hex}")


def open_postgres(clock: Clock, shards: int) -> PgStore:
    return OwnSchema(PgAddress.read(url_of(_schema())), clock, shards=shards)


def another_postgres(store: PgStore) -> PgStore:
    return PgStore(store.db.address, store.clock, shards=store.shards)
