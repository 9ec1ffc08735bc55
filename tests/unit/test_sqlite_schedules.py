"""A hundred thousand schedules in SQLite: found by an index, and no nonsense among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreError
from oncue.core.recurrence import begun
from oncue.core.schedule import Schedule, check_schedule
from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.statements import load
from tests.contract.recurring import put_schedule
from tests.unit.queued import Queued
from tests.unit.test_sqlite_plans import plan_of

MANY = 100_000
NOW = FakeClock().now()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A store with a hundred thousand schedules, a minute apart."""
    store = SqliteStore(tmp_path_factory.mktemp("schedules") / "jobs.db", FakeClock())
    wanted = check_schedule(Schedule("s", cron="0 9 * * *", timezone="Europe/Paris"))
    assert put_schedule(store, None, begun(wanted, NOW), NOW) is not None
    columns = (
        "cron, every_ms, timezone, queue, payload, owner, event_type, resource_id, catch_up, "
        "overlap, paused, anchor_at, zone_digest, created_at, updated_at"
    )
    store.db.write(
        lambda tx: tx.execute(
            f"""
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY - 1})
            INSERT INTO schedules (name, next_at, wake_at, {columns})
            SELECT 's' || n, {NOW} + n * 60000, {NOW} + n * 60000, {columns}
            FROM n, schedules WHERE schedules.name = 's'
            """
        ).fetchall()
    )
    yield store
    store.close()


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("waking", "schedules_waking (wake_at>? AND wake_at<?)"),
        ("schedule", "schedules_name (name=?)"),
        ("schedules", "schedules_name (name>?)"),
        ("advance", "INTEGER PRIMARY KEY (rowid=?)"),
        ("remove_schedule", "INTEGER PRIMARY KEY (rowid=?)"),
        ("schedules_by_zone", "schedules_zone (timezone=? AND zone_digest=?)"),
        ("zone_digests", "COVERING INDEX schedules_zone"),
        ("outcomes", "PRIMARY KEY (schedule=?)"),
        ("withdraw", "jobs_id (id=?)"),
    ],
)
def test_a_statement_about_schedules_uses_its_index(
    store: SqliteStore, statement: str, index: str
) -> None:
    plan = plan_of(store, load("schedules")[statement])
    assert any(index in line for line in plan), plan
    sorted_rows = [line for line in plan if "TEMP B-TREE" in line]
    assert sorted_rows == [] or statement == "outcomes", "of which there are a hundred"


def test_the_due_ones_among_many_come_in_the_order_in_which_they_wake(store: SqliteStore) -> None:
    due = store.waking(NOW + 5 * 60_000, 10)
    assert [one.name for one in due] == ["s1", "s2", "s3", "s4", "s5"]


@pytest.mark.parametrize(
    "nonsense",
    [
        *("name = NULL", "name = 's2'", "queue = NULL", "payload = 'text'", "paused = 2"),
        *(
            "every_ms = 60000",
            "cron = NULL",
            "zone_digest = ''",
            "catch_up = 'twice'",
            "overlap = 'replace'",
        ),
        *("event_type = 'FILE'", "next_at = NULL", "wake_at = NULL", "recorded = -1"),
        "last_at = next_at",  # nothing is made twice
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused_by_the_table(
    store: SqliteStore, nonsense: str
) -> None:
    with pytest.raises(StoreError, match="constraint failed|cannot store"):
        store.db.write(
            lambda tx: tx.execute(f"UPDATE schedules SET {nonsense} WHERE name = 's1'").get
        )


def test_an_outcome_that_makes_no_sense_is_refused_by_the_table(store: SqliteStore) -> None:
    statement = load("schedules")["record_outcome"]
    for fate, until, count in (("lost", 5, 1), ("missed", 4, 1), ("missed", 5, 0)):
        row = ("s1", 0, 0, fate, 5, until, 5, count, None)
        with pytest.raises(StoreError, match="constraint failed"):
            Queued(store, partial(store.db.writer.connection.execute, statement, row)).result()
