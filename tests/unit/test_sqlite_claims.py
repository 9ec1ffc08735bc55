"""What SQLite keeps of claims: in files that were there before, and of jobs that are gone. How much
a claim changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.fencing import Settlement, words
from oncue.core.job import NewJob
from oncue.core.lease import Touch
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue, RetryPolicy
from oncue.core.retry import after_lapse
from oncue.ports.sink import Refusal
from oncue.stores.sqlite import SqliteStore, connection, lines
from oncue.stores.sqlite.statements import migrations
from oncue.usecases.queues import put_queue
from tests.contract.desk import FLEETING, LEASE, Desk, Q, lapses_by, settlement
from tests.contract.pruning import forget
from tests.unit.statements import Statements

NOW = FakeClock().now()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def desk(path: Path) -> Iterator[Desk]:
    clock = FakeClock()
    with closing(SqliteStore(path, clock)) as store:
        yield Desk(store, clock)


def remembered(path: Path) -> list[str]:
    """The claims of each row."""
    with closing(sqlite3.connect(path)) as file:
        return [row[0] for row in file.execute("SELECT claims FROM settled ORDER BY seq")]


def complete(desk: Desk, number: int, lease_seconds: float = LEASE) -> None:
    desk.set(replace(FLEETING, lease_seconds=lease_seconds))
    desk.add_many(number, queue=FLEETING.name)
    writes = [settlement(claimed, Verb.COMPLETE) for claimed in desk.claim(FLEETING, limit=number)]
    assert len(writes) == number
    assert desk.store.settle(writes, desk.now).refused == {}


def test_a_claim_that_is_live_in_an_old_file_counts_as_fetched_with_others(path: Path) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.executescript(migrations()[0])
        old.executescript(f"PRAGMA application_id = {connection.APPLICATION_ID}")
        old.executescript("PRAGMA user_version = 1")
        old.execute(
            "INSERT INTO jobs (id, queue, state, due_at, payload, created_at, updated_at, epoch,"
            " attempt, worker, claimed_at, lease_until, strikes)"
            " VALUES ('a', 'q', 'dispatched', ?1, x'7b7d', ?1, ?1, 1, 3, 'ada', ?1, ?1, 2)",
            (NOW,),
        )
        old.commit()
    with closing(SqliteStore(path, FakeClock())) as store:
        [lapse] = lapses_by(store, NOW)
        assert (lapse.id, lapse.alone) == ("a", False)
        assert store.reclaim([(lapse, after_lapse(lapse, Q, NOW))], NOW) == {}
        job = store.get("a")
        assert job is not None
        assert (job.state, job.attempt, job.attempt_base) == ("scheduled", 3, 1)


def test_a_call_that_settles_a_thousand_is_one_row(desk: Desk, path: Path) -> None:
    complete(desk, 1000)
    [claims] = remembered(path)
    assert len(claims.split()) == 1000


@pytest.mark.parametrize("number", [1, 5])
@pytest.mark.parametrize("sought", [1, 20])
def test_a_late_write_reads_no_claims_but_those_with_its_mark(
    desk: Desk, path: Path, number: int, sought: int
) -> None:
    """With hundreds of thousands of claims, to read all of them took a tenth of a second."""
    complete(desk, number)
    late = [Settlement(f"gone-{n}", 1, Verb.COMPLETE) for n in range(sought)]
    word = words([late[0].id], late[0], "succeeded")
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE settled SET claims = ?", (word,))
        file.commit()
    assert sorted(desk.store.settle(late, desk.now).refused) == list(range(sought))


def test_many_late_writes_are_recognised_together(desk: Desk) -> None:
    desk.set(FLEETING)
    desk.add_many(60, queue=FLEETING.name)
    writes = [settlement(claimed, Verb.COMPLETE) for claimed in desk.claim(FLEETING)]
    for part in (writes[:1], writes[1:30], writes[30:]):
        assert desk.store.settle(part, desk.now).refused == {}
    assert desk.store.settle(writes, desk.now).refused == {}


def test_what_is_kept_is_not_remembered_twice(desk: Desk, path: Path) -> None:
    desk.complete(desk.take())
    assert remembered(path) == []


def test_the_next_call_removes_what_is_over(desk: Desk, path: Path) -> None:
    complete(desk, 2, lease_seconds=10)
    complete(desk, 3, lease_seconds=30)
    desk.clock.advance(10)
    complete(desk, 1)
    assert [len(claims.split()) for claims in remembered(path)] == [3, 1]


def test_the_pruner_removes_what_is_over_where_nothing_more_is_settled(
    desk: Desk, path: Path
) -> None:
    complete(desk, 2)
    desk.clock.advance(LEASE)
    forget(desk.store, desk.now)
    assert remembered(path) == []


def test_heartbeats_of_many_jobs_take_as_many_statements_as_that_of_one(path: Path) -> None:
    clock = FakeClock()
    with closing(SqliteStore(path, clock)) as store:
        desk = Desk(store, clock)
        desk.add_many(20)
        beats = [Touch(one.id, one.epoch, renew=True) for one in desk.claim(limit=20)]
        store.touch(beats, desk.now)
        statements = Statements(store)
        store.touch(beats[:1], desk.now)
        for_one = len(statements.all)
        store.touch(beats, desk.now)
        assert len(statements.all) == 2 * for_one


def test_a_claim_brings_back_no_more_put_off_jobs_than_may_be_needed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BACK_TOGETHER", 2)
    clock = FakeClock()
    queue = Queue("q", sink="log:", retry=RetryPolicy(1.0, 1.0, 1.0))
    with closing(SqliteStore(path, clock)) as store:
        put_queue(store, queue)
        now = clock.now()
        ranked = [(priority, n) for priority in (9, 8, 7) for n in range(4)]
        store.insert([NewJob(f"{p}-{n}", "q", now, b"", p, now) for p, n in ranked], now)
        claim = store.claim_range(queue, "d", 12, now, lease_seconds=60)
        busy = {job.id: Refusal("busy", permanent=False) for job in claim.jobs}
        assert store.settle_range(claim, [], busy, now)
        clock.advance(5)
        now = clock.now()
        store.insert([NewJob("due", "q", now, b"", 0, now)], now)
        claim = store.claim_range(queue, "d", 1, now, lease_seconds=60)
        assert [job.id for job in claim.jobs] in [[f"9-{n}"] for n in range(4)]
        put_off = store.stats("q").put_off
        assert put_off is not None
        assert put_off >= 12 - 2 * 2
