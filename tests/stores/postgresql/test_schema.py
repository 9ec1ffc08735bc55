"""Tables that are migrated while others use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import EventIdTaken, StoreUnavailable, StoreUnusable
from oncue.stores.postgresql import schema
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.store import PgStore
from tests.contract.board import Board, cron_at
from tests.contract.desk import Desk, together
from tests.stores.postgres import own_url

ADD = "ALTER TABLE oncue.jobs ADD COLUMN later bigint;\n"
LATER = 4  # the version that has one step more than this one
BREAK = f"UPDATE oncue.meta SET value = '{LATER}' WHERE name = 'least';\n"


@pytest.fixture
def address() -> PgAddress:
    """Of a schema that no other test uses afterwards."""
    return PgAddress.read(own_url())


@pytest.fixture
def old(address: PgAddress) -> Iterator[Desk]:
    """A node of this version."""
    clock = FakeClock()
    with closing(PgStore(address, clock, shards=4)) as store:
        yield Desk(store, clock)


def migrate_further(address: PgAddress, step: str) -> None:
    """As a later version does, which has one step more."""
    with closing(PgDatabase(address)) as db:
        text = step.replace("oncue.", f"{address.schema}.")
        db.statements.migrations = (*db.statements.migrations, text)
        schema.migrate(db)


def test_nodes_of_two_versions_work_side_by_side(old: Desk, address: PgAddress) -> None:
    before = old.take("a")
    old.add("b")
    migrate_further(address, ADD)
    assert old.store.describe().schema == LATER
    assert old.complete(before) is None
    with closing(PgStore(address, old.clock, shards=4)) as again:  # an old node that restarts
        assert Desk(again, old.clock).claimed_ids() == ["b"]
    with closing(PgDatabase(address)) as db:
        missing = schema.missing(db)
        assert missing.sql == "", "an old program has nothing to do to newer tables"
        assert missing.version == LATER


def test_ids_of_events_of_the_first_version_stay_theirs(address: PgAddress) -> None:
    """Also of those that a program of that version stores beside others."""
    with closing(PgDatabase(address)) as db:
        known = db.statements.migrations
        db.statements.migrations = known[:1]
        schema.migrate(db)
        with db.connect() as connection:
            connection.execute(insert_event(address, "before").encode())
            db.statements.migrations = known
            schema.migrate(db)
            connection.execute(insert_event(address, "beside").encode())
    clock = FakeClock()
    with closing(PgStore(address, clock, shards=4)) as store:
        board = Board(store, clock)
        for event_id in ("before", "beside"):
            with pytest.raises(EventIdTaken):
                board.post(cron_at(0, event_id=event_id))


def insert_event(address: PgAddress, event_id: str) -> str:
    return (
        f"INSERT INTO {address.schema}.events (id, type, resource, stamp, received_at) "
        f"VALUES ('{event_id}', 'TABLE', '{event_id}', 0, 0)"
    )


def test_tables_that_an_older_program_cannot_use_are_refused_to_it(
    old: Desk, address: PgAddress
) -> None:
    migrate_further(address, BREAK)
    with pytest.raises(StoreUnusable, match=f"version {LATER}, but this oncue knows only up to"):
        PgStore(address, old.clock, shards=4)
    with closing(PgDatabase(address)) as db, pytest.raises(StoreUnusable, match="Upgrade oncue"):
        schema.migrate(db)


def test_processes_that_create_the_tables_at_once_wait_for_each_other(address: PgAddress) -> None:
    """Also where the role's transactions are not read committed."""
    strict = "options=-c%20default_transaction_isolation%3Dserializable"
    separator = "&" if "?" in address.conninfo else "?"
    strict_address = address._replace(conninfo=f"{address.conninfo}{separator}{strict}")

    def create(_: int) -> None:
        with closing(PgDatabase(strict_address)) as db:
            schema.migrate(db)

    together(4, create)
    with closing(PgDatabase(address)) as db:
        assert not schema.is_missing(db)


def test_a_migration_does_not_wait_long_for_a_table(
    old: Desk, address: PgAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else all others would wait behind it."""
    monkeypatch.setattr(schema, "LOCK_MS", 50)
    with closing(PgDatabase(address)) as db, db.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(f"SELECT 1 FROM {address.schema}.jobs LIMIT 1".encode())
        with pytest.raises(StoreUnavailable, match="has locked a table of the store"):
            migrate_further(address, ADD)
        connection.execute("ROLLBACK")
    assert old.store.describe().schema == LATER - 1
    migrate_further(address, ADD)
    assert old.store.describe().schema == LATER


@pytest.mark.parametrize(
    ("gone", "told"), [("TABLE {}.operations", "that are gone: operations"), ("SCHEMA {}", "empty")]
)
def test_tables_that_are_gone_are_noticed(
    old: Desk, address: PgAddress, gone: str, told: str
) -> None:
    """Restoring a part of a backup is one way to lose some."""
    with closing(PgDatabase(address)) as db, db.connect() as connection:
        connection.execute(f"DROP {gone.format(address.schema)} CASCADE".encode())
        with pytest.raises(StoreUnusable, match=told):
            old.store.describe()
        if gone.startswith("TABLE"):
            with pytest.raises(StoreUnusable, match="does not make single tables again"):
                schema.migrate(db)
        else:
            schema.migrate(db)
            assert old.store.describe().schema == LATER - 1
