"""How a server and the schema of a store are, for `oncue doctor`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.tx import Params

LONG_SECONDS = 300
_COMMENT = re.compile(r"--.*")
_TABLE = re.compile(r"^CREATE TABLE (\w+)\.(\w+) \(([^;]*);", re.MULTILINE)
_KEY = re.compile(r"(?:CONSTRAINT (\w+) )?PRIMARY KEY (\([^)]*\)(?: WITH \([^)]*\))?)")
_KEY_COLUMN = re.compile(r"^\s*(\w+) .*PRIMARY KEY", re.MULTILINE)
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON (\w+)\.(\w+)[^;]*;", re.MULTILINE)
_DROPPED = re.compile(r"^DROP (?:TABLE|INDEX) (?:IF EXISTS )?\w+\.(\w+)", re.MULTILINE)


class PgServer(NamedTuple):
    number: int
    """140_000 for version 14."""
    version: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    """Of the connections of this role to this database."""
    synchronous_standbys: str
    is_standby: bool
    role: str
    is_read_only: bool
    """Of transactions that this role begins."""


class RoleRights(NamedTuple):
    role: str
    lacking: list[str]
    """Such as "INSERT on jobs"."""
    may_migrate: bool


class DeadRows(NamedTuple):
    """Of the table of jobs, as the server estimates them."""

    dead: int
    live: int
    vacuumed_seconds_ago: int | None
    is_vacuumed: bool
    """Whether autovacuum is on."""


class LackingIndex(NamedTuple):
    name: str
    is_there: bool
    """But not valid."""
    remedy: str
    """SQL."""


class LongTransaction(NamedTuple):
    pid: str
    """Or the name of one that was prepared."""
    role: str | None
    application: str | None
    state: str | None
    seconds: int


class Blocker(NamedTuple):
    """A transaction for which others wait, or may have to."""

    transaction: LongTransaction
    tables: list[str]
    """Of the store, that it has locked against reading or writing."""
    blocks: bool
    """False: it has only written, stands idle, and nobody waits now."""


class IdleSlot(NamedTuple):
    name: str
    kind: str
    holds_rows: bool
    """Back from vacuum."""
    kept_bytes: int | None
    """Of the write-ahead log; None: not known."""


class PgConnections(NamedTuple):
    allowed: int
    used: int


def _rows(db: PgDatabase, name: str, params: Params = None) -> list[Any]:
    return db.once(lambda tx: tx.rows("health", name, params))


def server(db: PgDatabase) -> PgServer:
    [row] = _rows(db, "server")
    return PgServer(*row)


def rights(db: PgDatabase) -> RoleRights:
    """What the role of this store may do with its tables."""
    schema = {"schema": db.address.schema}
    [(role, uses, creates)] = _rows(db, "role", schema)
    lacking = [] if uses else [f"USAGE on schema {db.address.schema}"]
    owns = True
    for table, *allowed, is_owned in _rows(db, "rights", schema):
        verbs = zip(("SELECT", "INSERT", "UPDATE", "DELETE"), allowed, strict=True)
        if missing := [verb for verb, allows in verbs if not allows]:
            lacking.append(f"{', '.join(missing)} on {table}")
        owns = owns and is_owned
    lacking += [f"USAGE on sequence {name}" for [name] in _rows(db, "sequences", schema)]
    return RoleRights(role, lacking, creates and owns)


def dead_rows(db: PgDatabase) -> DeadRows:
    [row] = _rows(db, "dead_rows", {"schema": db.address.schema})
    return DeadRows(*row)


def lacking_indexes(db: PgDatabase) -> list[LackingIndex]:
    """Those that the migrations create and the schema lacks, or has, but not valid."""
    schema = db.address.schema
    found = {
        (table, "" if is_primary else index): (index, is_valid)
        for table, index, is_primary, is_valid in _rows(db, "indexes", {"schema": schema})
    }
    lacking = []
    for (table, index), create in wanted_indexes(db).items():
        name, is_valid = found.get((table, index), (index or f"the primary key of {table}", None))
        if is_valid is None:
            lacking.append(LackingIndex(name, False, create))
        elif not is_valid:
            rebuild = f"REINDEX INDEX CONCURRENTLY {schema}.{name};"
            lacking.append(LackingIndex(name, True, rebuild))
    return lacking


def wanted_indexes(db: PgDatabase) -> dict[tuple[str, str], str]:
    """By table and name ("" for the primary key), the SQL that creates it while others work."""
    wanted: dict[tuple[str, str], str] = {}
    for migration in db.statements.migrations:
        text = _COMMENT.sub("", migration)
        for gone in _DROPPED.findall(text):
            wanted = {place: sql for place, sql in wanted.items() if gone not in place}
        for schema, table, columns in _TABLE.findall(text):
            if key := _primary_key(f"{schema}.{table}", columns):
                wanted[table, ""] = key
        for create in _INDEX.finditer(text):
            sql = " ".join(create[0].split())
            wanted[create[3], create[1]] = sql.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)
    return wanted


def _primary_key(table: str, columns: str) -> str | None:
    """What makes the primary key with which a table of these columns is created."""
    key, column = _KEY.search(columns), _KEY_COLUMN.search(columns)
    if key is None and column is None:
        return None
    name = (key and key[1]) or f"{table.partition('.')[2]}_pkey"
    of = key[2] if key else f"({column and column[1]})"
    return (
        f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {table} {of}; "
        f"ALTER TABLE {table} ADD PRIMARY KEY USING INDEX {name};"
    )


def connections(db: PgDatabase) -> PgConnections:
    [row] = _rows(db, "connections")
    return PgConnections(*row)


def long_transactions(db: PgDatabase, seconds: int) -> list[LongTransaction]:
    """Those that are open for longer and hold back vacuum: rows that were deleted since stay."""
    return [LongTransaction(*row) for row in _rows(db, "long_transactions", {"seconds": seconds})]


def blockers(db: PgDatabase) -> list[Blocker]:
    found = _rows(db, "blockers", {"schema": db.address.schema})
    return [Blocker(LongTransaction(*row[:-2]), *row[-2:]) for row in found]


def sees_all(db: PgDatabase) -> bool:
    """Whether the transactions of other roles are shown to this one."""
    return bool(_rows(db, "sees_all")[0][0])


def idle_slots(db: PgDatabase) -> list[IdleSlot]:
    """Replication slots that nobody reads, and that keep rows or the write-ahead log."""
    return [IdleSlot(*row) for row in _rows(db, "idle_slots")]
