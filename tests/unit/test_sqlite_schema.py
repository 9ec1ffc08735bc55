"""The schema forbids nonsense by itself, and SQL makes no move that the lifecycle does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreError
from oncue.core.fencing import Settlement
from oncue.core.lifecycle import FINAL, TRANSITIONS, State, Verb
from oncue.core.queue import Queue
from oncue.stores.sqlite import SqliteStore
from tests.contract.changing import CANCEL, REVIVE, STOP, Amendment, amend
from tests.contract.desk import DELIVERY, Desk, lapse_of, settlement
from tests.contract.pruning import prune
from tests.unit.queued import Queued


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    yield store
    store.close()


@pytest.fixture
def desk(store: SqliteStore) -> Desk:
    return Desk(store, FakeClock())


@pytest.mark.parametrize(
    "nonsense",
    [
        *("state = 'done'", "state = NULL", "state = 5", "id = NULL", "payload = NULL"),
        *("priority = 10", "priority = -1", "priority = 'x'", "ahead = 2", "cancel_requested = 2"),
        *("due_at = NULL", "due_at = 'soon'", "due_at = 1.5", "max_attempts = 0"),
        *("max_attempts = 21", "epoch = NULL", "attempt = 1, attempt_base = 2", "payload = 'text'"),
        "state = 'succeeded'",  # without an end
        "finished_at = 5",  # while scheduled
        "claimed_at = 5",
        "cancel_requested = 1",  # a waiting job is cancelled at once
        "state = 'dispatched'",  # by nobody
        "state = 'executing'",
        "state = 'failed', finished_at = 5, lease_until = 9",  # and still leased
        "lease_until = 'never'",
    ],
)
def test_a_row_that_makes_no_sense_is_refused_by_the_table(
    store: SqliteStore, desk: Desk, nonsense: str
) -> None:
    desk.add("a")
    with pytest.raises(StoreError, match="constraint failed|cannot store"):
        store.db.write(lambda tx: tx.execute(f"UPDATE jobs SET {nonsense} WHERE id = 'a'").get)
    assert desk.state("a") is State.SCHEDULED


def test_an_id_is_there_once_and_an_unfinished_key_once_in_a_queue(
    store: SqliteStore, desk: Desk
) -> None:
    desk.add("a", key="k")
    desk.add("b")
    for nonsense in ("id = 'a'", "key = 'k'"):
        update = f"UPDATE jobs SET {nonsense} WHERE id = 'b'"
        with pytest.raises(StoreError, match="UNIQUE constraint failed"):
            Queued(store, partial(store.db.writer.connection.execute, update)).result()


Moves = set[tuple[str, str]]


@pytest.fixture
def moves(store: SqliteStore) -> Callable[[], Moves]:
    """Every change of a job's state that any SQL makes."""
    tx = store.db.writer.connection
    tx.execute("CREATE TEMP TABLE moves (before TEXT, after TEXT)")
    tx.execute(
        "CREATE TEMP TRIGGER moved AFTER UPDATE OF state ON main.jobs "
        "WHEN old.state <> new.state "
        "BEGIN INSERT INTO moves VALUES (old.state, new.state); END"
    )
    every = "SELECT before, after FROM moves"
    return lambda: {(str(before), str(after)) for before, after in tx.execute(every)}


def bring(desk: Desk, state: State, number: int) -> str:
    """A new job in this state."""
    job_id = f"{state}-{number}"
    desk.add(job_id, expires_at=desk.now + 10**6)
    if state is State.SCHEDULED:
        return job_id
    [claimed] = desk.claim(limit=1)
    assert claimed.id == job_id
    match state:
        case State.EXECUTING:
            desk.touch(claimed)
        case State.SUCCEEDED:
            desk.complete(claimed)
        case State.FAILED:
            desk.fail(claimed)
        case State.CANCELLED:
            desk.drop(claimed)
    assert desk.state(job_id) is state
    return job_id


def attempts_at_everything(desk: Desk) -> list[Callable[[str], object]]:
    """All that can be tried on a job, with the epoch it has."""
    store = desk.store

    def settle(verb: Verb) -> Callable[[str], object]:
        def end(job_id: str) -> object:
            claim: Any = desk.job(job_id)
            due = {"due_at": desk.now} if verb is Verb.RETRY else {}
            return store.settle([settlement(claim, verb, **due)], desk.now).refused

        return end

    def reclaim(verb: Verb) -> Callable[[str], object]:
        return lambda job_id: desk.reclaim(lapse_of(desk.job(job_id)), verb)

    def touch(job_id: str) -> object:
        claim: Any = desk.job(job_id)
        return desk.touch(claim, lease_seconds=60)

    def operation(job_id: str) -> object:
        claim: Any = desk.job(job_id)
        return desk.put_operation(claim, "x", "executing")

    return [
        *map(settle, (Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.DROP)),
        *map(reclaim, (Verb.RECLAIM, Verb.GIVE_UP, Verb.DROP)),
        *(touch, operation),
        lambda job_id: store.settle(
            [Settlement(job_id, desk.job(job_id).epoch, Verb.HAND_OVER)], desk.now
        ),
        lambda job_id: store.change([job_id], amend(Amendment(desk.now, 5, b"1")), desk.now),
        lambda job_id: store.change([job_id], CANCEL, desk.now),
        lambda job_id: store.change([job_id], STOP, desk.now),
        lambda job_id: store.change([job_id], REVIVE, desk.now),
        lambda _: desk.claim(),
        lambda _: store.expire(desk.now + 10**6, 100),
        lambda _: prune(store, "q", desk.now + 10**6, desk.now, 1),
    ]


def test_sql_moves_jobs_as_the_lifecycle_says_and_in_no_other_way(
    desk: Desk, moves: Callable[[], Moves]
) -> None:
    number = 0
    for state in State:
        for attempt in attempts_at_everything(desk):
            number += 1
            attempt(bring(desk, state, number))
            for waiting in desk.listed(state=State.SCHEDULED):
                desk.cancel(waiting)  # out of the way of the next
    allowed = {(str(b), str(a)) for (b, _), a in TRANSITIONS.items() if b is not a}
    assert moves() == allowed


def test_what_a_dispatcher_took_by_range_ends_without_having_been_marked(
    desk: Desk, moves: Callable[[], Moves]
) -> None:
    """The range is the mark: the jobs in it count as dispatched, and are written once."""
    good, bad = desk.add(queue="d"), desk.add(queue="d")
    claim = desk.claim_range(DELIVERY)
    assert desk.state(good) is desk.state(bad) is State.DISPATCHED
    desk.settle_range(claim, refused={bad: "no"})
    assert moves() == {("scheduled", "succeeded"), ("scheduled", "failed")}
    assert {TRANSITIONS[State.DISPATCHED, verb] for verb in (Verb.COMPLETE, Verb.FAIL)} == {
        desk.state(good),
        desk.state(bad),
    }


def test_a_reclaimed_job_is_ahead_only_while_it_waits(store: SqliteStore, desk: Desk) -> None:
    for verb in (Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.DROP):
        desk.take("a")
        desk.reclaim(desk.lapse())
        [claimed] = desk.claim()
        desk.settle(claimed, verb)
        with store.db.reading() as tx:
            assert tx.execute("SELECT max(ahead) FROM jobs").get == 0, verb
        store.db.write(lambda tx: tx.execute("DELETE FROM jobs").fetchall())


def test_deleting_a_job_deletes_all_that_belongs_to_it(store: SqliteStore, desk: Desk) -> None:
    gone = Queue("q", retention_seconds=0)
    for job_id in ("a", "b"):
        claimed = desk.take(job_id, queue=gone)
        desk.put_operation(claimed, "x", result=b"1")
        desk.retry(claimed)
        [claimed] = desk.claim(gone)
        desk.complete(claimed)
    with store.db.reading() as tx:
        for table in ("jobs", "attempts", "operations", "diagnostics"):
            assert tx.execute(f"SELECT count(*) FROM {table}").get == 0, table


def test_a_stale_completion_does_not_hide_behind_another_jobs_operations(desk: Desk) -> None:
    stale, good = desk.take("stale"), desk.take("good")
    desk.put_operation(good, "x", result=b"1")
    desk.clock.advance(61)
    desk.touch(good, lease_seconds=1000)
    [lapse] = desk.lapses(10)
    assert desk.reclaim(lapse) is None
    ends = [settlement(one, Verb.COMPLETE) for one in (stale, good)]
    refused, _ = desk.store.settle(ends, desk.now)
    assert refused[0].reason == "reclaimed"
    assert desk.state("stale") not in FINAL
