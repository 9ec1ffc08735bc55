"""Jobs that a worker takes together are one record in SQLite, until one of them is asked about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.fencing import Completions, Refused, Settlement
from oncue.core.job import Claimed, JobFilter, NewJob
from oncue.core.lifecycle import State, Verb
from oncue.core.missed import Look, Missed
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.claims import ClaimFilter
from oncue.stores.sqlite import SqliteStore, rows
from oncue.stores.sqlite.statements import load
from oncue.stores.sqlite.worker_ranges import LEAST, MOST
from tests.unit.statements import Statements

NOW = FakeClock().now()
Q = Queue("q")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    yield store
    store.close()


def add(store: SqliteStore, number: int, timeout_seconds: float | None = None) -> None:
    new = NewJob("", "q", NOW, b"{}", 0, NOW, timeout_seconds=timeout_seconds)
    store.insert([new._replace(id=f"job-{n:05}") for n in range(number)], NOW)


def take(store: SqliteStore, number: int, queue: Queue = Q) -> list[Claimed]:
    taker = Taker("ada", number, is_near=True, together=True)
    [claims] = store.claim([queue], [taker], NOW, nonce="n")
    assert len(claims) == number
    return claims


def claims_of_their_own(store: SqliteStore) -> int:
    statement = "SELECT count(*) FROM jobs WHERE state = 'dispatched'"
    return int(store.db.write(lambda tx: tx.execute(statement).get))


def complete(store: SqliteStore, claims: list[Claimed]) -> bool:
    writes = Completions([one.id for one in claims], [one.epoch for one in claims])
    return store.settle(writes, NOW).refused == {}


def complete_with_results(store: SqliteStore, claims: list[Claimed]) -> bool:
    writes = [Settlement(one.id, one.epoch, Verb.COMPLETE, b"1") for one in claims]
    return store.settle(writes, NOW).refused == {}


@pytest.mark.parametrize("completed", [complete, complete_with_results])
def test_a_batch_costs_the_same_statements_however_many_jobs_it_has(
    store: SqliteStore, completed: Callable[[SqliteStore, list[Claimed]], bool]
) -> None:
    def statements_for(number: int) -> set[str]:
        add(store, number)
        statements = Statements(store)
        assert completed(store, take(store, number))
        statements.stop()
        store.db.write(lambda tx: tx.execute("DELETE FROM jobs"))
        return set(statements.all)

    statements_for(LEAST)  # the settings of the queue are read once
    assert statements_for(LEAST) == statements_for(5 * LEAST)


@pytest.mark.parametrize("number", [LEAST - 1, LEAST, MOST, MOST + 1])
def test_many_are_one_record_and_few_are_not(store: SqliteStore, number: int) -> None:
    add(store, number)
    take(store, number)
    assert claims_of_their_own(store) == (0 if LEAST <= number <= MOST else number)
    assert store.get("job-00007") is not None
    assert claims_of_their_own(store) == number


def test_a_new_job_that_clashes_with_none_leaves_them_one_record(store: SqliteStore) -> None:
    add(store, LEAST)
    take(store, LEAST)
    assert store.insert([NewJob("mine", "q", NOW, b"{}", 0, NOW, digest=b"d", key="k")], NOW) == {}
    assert claims_of_their_own(store) == 0


def of_another_queue(store: SqliteStore) -> Claimed:
    store.insert([NewJob("other", "other", NOW, b"{}", 0, NOW)], NOW)
    [[other]] = store.claim([Queue("other")], [Taker("bob", 1)], NOW, nonce="m")
    return other


def test_reading_about_other_jobs_leaves_them_one_record(store: SqliteStore) -> None:
    add(store, LEAST)
    take(store, LEAST)
    other = of_another_queue(store)
    assert store.get("other") is not None
    assert len(store.page(JobFilter(queue="other"), None, 10).items) == 1
    assert len(store.live_claims(ClaimFilter(job_id="other"), None, 10).items) == 1
    stopping = BulkChange(BulkVerb.CANCEL, NOW, running=True)
    assert store.find_all(stopping, JobFilter(queue="other"), None, 10).items == ["other"]
    assert store.interruptions([(other.id, other.epoch)]) == {}
    assert claims_of_their_own(store) == 1


def test_counting_them_leaves_them_one_record(store: SqliteStore) -> None:
    add(store, LEAST)
    take(store, LEAST)
    store.insert([NewJob("later", "q", NOW + 1, b"{}", 0, NOW)], NOW)
    counts = store.stats("q").counts
    assert (counts[State.DISPATCHED], counts[State.SCHEDULED]) == (LEAST, 1)
    assert claims_of_their_own(store) == 0
    store.insert([NewJob("urgent", "q", NOW, b"{}", 9, NOW)], NOW)
    counts = store.stats("q").counts
    assert (counts[State.DISPATCHED], counts[State.SCHEDULED]) == (LEAST, 2)


def test_a_batch_that_is_taken_while_a_reader_splits_another_is_split_too(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, LEAST)
    take(store, LEAST)
    store.insert([NewJob(f"more-{n:05}", "q", NOW, b"{}", 0, NOW) for n in range(LEAST)], NOW)
    other = SqliteStore(store.db.path, FakeClock())
    write = store.db.write

    def then_another_is_taken(*args: Any, **kwargs: Any) -> Any:
        answer = write(*args, **kwargs)
        monkeypatch.setattr(store.db, "write", write)
        assert len(take(other, LEAST)) == LEAST
        return answer

    monkeypatch.setattr(store.db, "write", then_another_is_taken)
    assert store.live_count() == 2 * LEAST
    other.close()


def test_a_put_off_job_that_comes_among_them_is_taken_by_the_next_claim(
    store: SqliteStore,
) -> None:
    store.insert([NewJob("busy", "q", NOW, b"{}", 5, NOW)], NOW)
    [[busy]] = store.claim([Q], [Taker("bob", 1)], NOW, nonce="m")
    back = Settlement(busy.id, busy.epoch, Verb.RELEASE, error="busy", put_off=True)
    store.settle([back], NOW)
    add(store, LEAST)
    take(store, LEAST)
    later = NOW + 5_000
    store.insert([NewJob("low", "q", later, b"{}", 0, later)], later)
    [[claimed]] = store.claim([Q], [Taker("bob", 1)], later, nonce="o")
    assert claimed.id == "busy"


@pytest.mark.parametrize("by", ["amend", "replace"])
def test_a_job_that_a_change_brings_among_them_is_shown_as_waiting(
    store: SqliteStore, by: str
) -> None:
    store.insert([NewJob("later", "q", NOW + 9_000, b"{}", 0, NOW, key="k")], NOW)
    add(store, LEAST)
    take(store, LEAST)
    if by == "amend":
        job = store.change(["later"], JobChange(ChangeVerb.AMEND, due_at=NOW), NOW).first
    else:
        new = NewJob("new", "q", NOW, b"2", 0, NOW, key="k", replace=True)
        job = store.insert([new], NOW)[0].job
    assert job is not None
    assert (job.id, job.state) == ("later", State.SCHEDULED)


def test_whether_they_should_stop_is_only_read(store: SqliteStore) -> None:
    add(store, LEAST)
    claims = take(store, LEAST)
    asked = [(one.id, one.epoch) for one in claims]
    statements = Statements(store, locked=True)
    assert store.interruptions(asked) == {}
    statements.stop()
    assert claims_of_their_own(store) == 0
    cancel = JobChange(ChangeVerb.STOP)
    assert store.change([claims[1].id], cancel, NOW).refused == {}
    assert store.interruptions(asked) == {1: Refused("cancel requested", State.DISPATCHED)}
    before = [(one.id, one.epoch - 1) for one in claims]
    assert {why.reason for why in store.interruptions(before).values()} != {"cancel requested"}
    assert len(store.interruptions(before)) == LEAST


def test_work_that_comes_into_a_range_is_due_now(store: SqliteStore) -> None:
    add(store, LEAST)
    claims = take(store, LEAST)
    assert store.next_due(["q"]) == claims[0].lease_until
    store.insert([NewJob("urgent", "q", NOW, b"{}", 9, NOW)], NOW)
    assert store.next_due(["q"]) == NOW
    assert claims_of_their_own(store) == 0


def test_what_others_cost_beside_a_range_does_not_grow_with_what_waits_for_later(
    store: SqliteStore,
) -> None:
    def steps_with(waiting: int) -> int:
        later = [NewJob(f"later-{n:05}", "q", NOW + 1, b"{}", 0, NOW) for n in range(waiting)]
        store.insert(later, NOW)
        steps = 0

        def step() -> bool:
            nonlocal steps
            steps += 1
            return False

        connection = store.db.writer.connection
        connection.set_progress_handler(step, 10)
        assert store.claim([Q], [Taker("bob", 1)], NOW, nonce="m") == [[]]
        connection.set_progress_handler(None)
        return steps

    add(store, LEAST)
    take(store, LEAST)
    few = steps_with(0)
    assert steps_with(20 * LEAST) <= few + 20


def test_while_nothing_can_be_written_jobs_are_shown_all_the_same(store: SqliteStore) -> None:
    add(store, LEAST)
    claims = take(store, LEAST)
    statements = Statements(store, locked=True)
    job = store.get(claims[0].id)
    page = store.page(JobFilter(queue="q"), None, LEAST)
    assert store.stats("q").counts[State.DISPATCHED] == LEAST
    statements.stop()
    assert job is not None
    assert {one.state for one in (job, *page.items)} == {State.DISPATCHED}
    assert claims_of_their_own(store) == 0


def test_leases_that_are_moved_leave_them_one_record(store: SqliteStore) -> None:
    add(store, LEAST)
    take(store, LEAST)
    store.judge_leases(lambda recorded: (Look("0", 0, NOW), Missed(20_000, 0)))
    assert claims_of_their_own(store) == 0


@pytest.mark.parametrize("of_queue", [None, 5.0])
def test_jobs_and_queues_with_a_timeout_have_claims_of_their_own(
    store: SqliteStore, of_queue: float | None
) -> None:
    add(store, LEAST, timeout_seconds=5.0 if of_queue is None else None)
    take(store, LEAST, Queue("q", timeout_seconds=of_queue))
    assert claims_of_their_own(store) == LEAST


def test_a_program_of_the_step_before_that_takes_the_range_over_splits_it(
    store: SqliteStore,
) -> None:
    add(store, LEAST)
    claims = take(store, LEAST)
    later = claims[0].lease_until
    params = {"queue": "q", "now": later, "dispatcher": None}
    store.db.write(lambda tx: tx.execute(load("ranges")["take_over"], params))
    assert claims_of_their_own(store) == LEAST
    job = store.get(claims[0].id)
    assert job is not None
    assert (job.state, job.worker, job.epoch) == (State.DISPATCHED, "ada", claims[0].epoch)
    assert complete(store, claims)


def test_a_batch_outlives_the_process_that_took_it(store: SqliteStore) -> None:
    add(store, LEAST)
    claims = take(store, LEAST)
    store.close()
    again = SqliteStore(store.db.path, FakeClock())
    assert complete(again, claims)
    with again.db.reading() as tx:
        assert rows.fetch(tx, "SELECT 1 FROM ranges WHERE nonce IS NOT NULL") == []
    again.close()
