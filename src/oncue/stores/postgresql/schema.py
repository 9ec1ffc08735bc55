"""The tables of the store: created and migrated under a lock, by any number of processes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from oncue.core.errors import StoreUnusable
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.trouble import translate

LEAST_VERSION = 140_000
LOCK_MS = 5_000
_LOCK = 0x6F6E637565  # "oncue": the advisory lock under which a schema is changed
# The catalogues, and not `to_regclass`: that remembers what was not there before the lock.
_HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
_TABLES = (
    "SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'p')"
)
_CREATED = re.compile(r"^CREATE TABLE \w+\.(\w+)", re.MULTILINE)
# Made by the server, so that the SQL is all there is to run. The uuids are random: 244 bits.
_SECRET = (
    "INSERT INTO {}.meta (name, value) VALUES ('secret', "
    "sha256(convert_to(concat(gen_random_uuid(), gen_random_uuid()), 'UTF8'))) "
    "ON CONFLICT DO NOTHING;\n"
)


def stored_schema(db: PgDatabase, connection: psycopg.Connection[Any]) -> int | None:
    """The version of the schema in the database; None: it has none. One that this program cannot
    use is refused, and so is one that lacks tables. A later one may be used as long as its steps
    only add to what there was: nodes of two versions then work side by side."""
    tables = {name for [name] in connection.execute(_TABLES, [db.address.schema])}
    if "meta" not in tables:
        return None
    numbers = f"SELECT name, value FROM {db.address.schema}.meta WHERE name IN ('schema', 'least')"
    rows = connection.execute(numbers.encode()).fetchall()
    found = {name: int(value) for name, value in rows}
    if not found:
        return None
    known = wanted_schema(db)
    if found["least"] > known:
        raise StoreUnusable(
            f"{db.place}: its schema is version {found['schema']}, but this oncue knows only up to "
            f"{known}. Upgrade oncue, or use the version that made it."
        )
    if lost := _created(db.statements.migrations[: found["schema"]]) - tables:
        raise StoreUnusable(
            f"{db.place}: schema {db.address.schema} had tables that are gone: "
            f"{', '.join(sorted(lost))}. Restore a backup of the database; 'oncue migrate' does "
            "not make single tables again."
        )
    return found["schema"]


def _created(migrations: Iterable[str]) -> set[str]:
    """The tables that these steps create."""
    return {name for step in migrations for name in _CREATED.findall(step)}


def is_missing(db: PgDatabase) -> bool:
    """Whether there are no tables of a store at all."""
    with _translated(db), db.connect() as connection:
        return stored_schema(db, connection) is None


def wanted_schema(db: PgDatabase) -> int:
    return len(db.statements.migrations)


def steps(db: PgDatabase, connection: psycopg.Connection[Any]) -> list[str]:
    """The SQL that is missing, in order."""
    schema, version = db.address.schema, stored_schema(db, connection)
    missing = list(db.statements.migrations[version or 0 :])
    if not missing:
        return []
    # A role may create tables in a schema that is there without the right to create another.
    begin = (
        []
        if connection.execute(_HAS_SCHEMA, [schema]).fetchall()
        else [f"CREATE SCHEMA {schema};\n"]
    )
    number = wanted_schema(db)
    mark = (
        f"INSERT INTO {schema}.meta (name, value) VALUES ('schema', '{number}') "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value;\n"
    )
    return [*begin, *missing, mark, *([_SECRET.format(schema)] if version is None else [])]


class Missing(NamedTuple):
    """The migrations that a store lacks before it can be used."""

    text: str
    sql: str
    """Empty: it lacks none."""
    version: int
    """Of the schema, once they are applied. A later one than `wanted_schema` is used as it is."""


def missing(db: PgDatabase) -> Missing:
    with _translated(db), db.connect() as connection:
        version, number = stored_schema(db, connection), wanted_schema(db)
        sql = "\n".join(steps(db, connection))
    if version is None:
        text = f"create the tables of version {number} in schema {db.address.schema}"
        return Missing(text, sql, number)
    text = f"migrate schema {db.address.schema} from version {version} to {number}"
    return Missing(text, sql, max(version, number))


def migrate(db: PgDatabase) -> None:
    """Create what is missing, in one transaction, under a lock."""
    with _translated(db), db.connect() as connection:
        _migrate(db, connection)


def _migrate(db: PgDatabase, connection: psycopg.Connection[Any]) -> None:
    # Otherwise it would not see what another process has created while it waited for the lock.
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        # A session that waits for a table keeps all later ones waiting behind it.
        connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}".encode())
        for text in steps(db, connection):
            connection.execute(text.encode(), prepare=False)


@contextmanager
def _translated(db: PgDatabase) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, db.place) from error


def prepare(db: PgDatabase) -> bytes:
    """See that the tables are there, and create or migrate them if the store may. The secret."""
    with _translated(db), db.connect() as connection:
        if connection.info.server_version < LEAST_VERSION:
            raise StoreUnusable(f"{db.place}: oncue needs PostgreSQL 14 or later.")
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            raise StoreUnusable(
                f"{db.place}: the encoding of the database is {encoding}, and oncue needs UTF8. "
                "Create another: createdb --encoding=UTF8 --template=template0 NAME"
            )
        if (stored_schema(db, connection) or 0) < wanted_schema(db):
            if not db.address.migrate:
                raise StoreUnusable(
                    f"{db.place}: the tables of the store are missing or of an earlier version, "
                    "and migrate=no says that they are not changed here. Run 'oncue migrate' with "
                    "a role that may, or the SQL that 'oncue migrate --dry-run' prints."
                )
            _migrate(db, connection)
        row = connection.execute(
            f"SELECT value FROM {db.address.schema}.meta WHERE name = 'secret'".encode()
        ).fetchone()
        assert row is not None, "the secret is made with the table"
        return bytes(row[0])
