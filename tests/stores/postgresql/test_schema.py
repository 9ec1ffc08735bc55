"""Tables that are migrated while others use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable, StoreUnusable
from oncue.stores.postgresql import schema
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.store import PgStore
from tests.contract.desk import Desk
from tests.stores.postgres import own_url

ADD = "ALTER TABLE oncue.jobs ADD COLUMN later bigint;\n"
BREAK = "UPDATE oncue.meta SET value = '2' WHERE name = 'least';\n"


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
    assert old.store.describe().schema == 2
    assert old.complete(before) is None
    with closing(PgStore(address, old.clock, shards=4)) as again:  # an old node that restarts
        assert Desk(again, old.clock).claimed_ids() == ["b"]
    with closing(PgDatabase(address)) as db:
        assert schema.missing(db)[1] == "", "an old program has nothing to do to newer tables"


def test_tables_that_an_older_program_cannot_use_are_refused_to_it(
    old: Desk, address: PgAddress
) -> None:
    migrate_further(address, BREAK)
    with pytest.raises(StoreUnusable, match="schema is version 2, but this oncue knows only up to"):
        PgStore(address, old.clock, shards=4)
    with closing(PgDatabase(address)) as db, pytest.raises(StoreUnusable, match="Upgrade oncue"):
        schema.migrate(db)


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
    assert old.store.describe().schema == 1
    migrate_further(address, ADD)
    assert old.store.describe().schema == 2
