"""The one writer of an SQLite file: shared commits, and nobody who waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from oncue.aio import AsyncScheduler
from oncue.clock import FakeClock
from oncue.core.errors import Conflict, StoreError, StoreUnavailable
from oncue.core.job import Job, JobFilter, NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.scheduler import Scheduler
from oncue.stores.relational import rows as relational_rows
from oncue.stores.sqlite import SqliteStore, lines, listing, rows
from oncue.stores.sqlite.jobs import AT_ONCE, AT_ONCE_QUEUES
from tests.contract.changing import CANCEL
from tests.contract.desk import claim_due, together
from tests.unit.queued import Queued
from tests.unit.statements import Statements

SOON = 20.0  # only reached if something is broken
NOW = FakeClock().now()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    yield store
    store.close()


def new(job_id: str, queue: str = "q") -> NewJob:
    return NewJob(job_id, queue, NOW, b"{}", 0, NOW)


class Gate:
    """Holds the writer in the middle of a transaction until it is opened."""

    def __init__(self, store: SqliteStore) -> None:
        self._open = threading.Event()
        self._inside = threading.Event()
        self.future = Queued(store, self._hold)
        assert self._inside.wait(SOON)

    def _hold(self) -> None:
        self._inside.set()
        assert self._open.wait(SOON)

    def open(self) -> None:
        self._open.set()
        self.future.result(SOON)


def test_calls_that_come_together_share_a_commit(store: SqliteStore) -> None:
    statements = Statements(store)
    gate = Gate(store)
    waiting = [Queued(store, partial(store.insert, [new(f"j{n}")], NOW)) for n in range(50)]
    gate.open()
    assert [future.result(SOON) for future in waiting] == [{}] * 50
    assert statements.count("COMMIT") == 2
    assert store.stats("q").counts[State.SCHEDULED] == 50


def test_a_few_plain_jobs_are_stored_by_one_statement(store: SqliteStore) -> None:
    queues = [f"q{n}" for n in range(AT_ONCE_QUEUES)]
    store.insert([new(queue, queue) for queue in queues], NOW)  # which makes the queues
    statements = Statements(store)
    sizes = (1, 2, 3, 64, 65, AT_ONCE)
    for size in sizes:
        jobs = [new(f"{size}-{n}", queues[n % len(queues)]) for n in range(size)]
        assert store.insert(jobs, NOW) == {}
    assert statements.count("INSERT INTO jobs") == len(statements.all) == len(sizes)
    stored = sum(store.stats(queue).counts[State.SCHEDULED] for queue in queues)
    assert stored == len(queues) + sum(sizes)
    found = store.get("65-64")
    assert found is not None
    assert (found.payload_json, found.due_at) == (b"{}", found.created_at)


def test_more_jobs_or_queues_are_stored_in_a_transaction(store: SqliteStore) -> None:
    queues = [f"q{n}" for n in range(AT_ONCE_QUEUES + 1)]
    store.insert([new(queue, queue) for queue in queues], NOW)
    statements = Statements(store)
    store.insert([new(f"again {queue}", queue) for queue in queues], NOW)
    store.insert([new(f"j{n}", "q0") for n in range(AT_ONCE + 1)], NOW)
    assert statements.count("BEGIN") == 2
    assert store.stats("q0").counts[State.SCHEDULED] == AT_ONCE + 3


def test_jobs_of_a_queue_that_another_process_has_deleted_make_it_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    store.insert([new("a")], NOW)
    with closing(SqliteStore(tmp_path / "jobs.db", FakeClock())) as other:
        other.change(["a"], CANCEL, NOW)
        assert other.delete_queue("q", NOW, 9).outcome == "deleted"
    assert store.insert([new("b")], NOW) == {}
    assert [queue.name for queue in store.queues()] == ["q"]


def test_a_queue_that_was_deleted_before_a_statement_of_another_queue_is_made_again(
    store: SqliteStore, tmp_path: Path
) -> None:
    """That statement notices that another process has committed."""
    store.insert([new("a"), new("b", "other")], NOW)
    with closing(SqliteStore(tmp_path / "jobs.db", FakeClock())) as other:
        other.change(["a"], CANCEL, NOW)
        assert other.delete_queue("q", NOW, 9).outcome == "deleted"
    assert store.insert([new("c", "other")], NOW) == {}
    assert store.insert([new("d")._replace(key="not plain")], NOW) == {}
    assert {queue.name for queue in store.queues()} == {"q", "other"}


def test_jobs_that_clash_are_found_out_one_by_one(store: SqliteStore) -> None:
    store.insert([new("a")], NOW)
    told: list[object] = []
    store.watch(lambda queue, due_at: told.append(queue))
    clashes = store.insert([new("a"), new("b")], NOW)
    assert {at: clash.job.id for at, clash in clashes.items()} == {0: "a"}
    assert store.get("b") is not None
    assert told == ["q"]


def test_listeners_are_told_of_jobs_that_were_stored_at_once(store: SqliteStore) -> None:
    store.insert([new("a")], NOW)
    told: list[object] = []
    store.watch(lambda queue, due_at: told.append((queue, due_at)))
    later = new("c")._replace(due_at=NOW + 5)
    store.insert([later, new("b")._replace(due_at=NOW + 3)], NOW)
    assert told == [("q", NOW + 3)]


class CountedName(str):
    """Counts how often a name is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)


def test_jobs_of_as_many_queues_are_stored_by_one_pass(store: SqliteStore) -> None:
    count = 500
    jobs = [new(f"j{n}", CountedName(f"q{n}")) for n in range(count)]
    statements = Statements(store)
    assert store.insert(jobs, NOW) == {}
    assert statements.count("INSERT INTO queues") == 1
    assert CountedName.compared < 20 * count
    assert {queue.name for queue in store.queues()} >= {f"q{n}" for n in range(count)}


def test_threads_that_write_at_the_same_time_all_succeed(store: SqliteStore) -> None:
    def write(thread: int) -> None:
        for n in range(100):
            assert store.insert([new(f"j{thread}-{n}")], NOW) == {}

    together(8, write)
    assert store.stats("q").counts[State.SCHEDULED] == 800


def test_threads_and_queued_calls_mix(store: SqliteStore) -> None:
    def write(thread: int) -> list[Queued[Any]]:
        waiting: list[Queued[Any]] = []
        for n in range(100):
            if thread % 2:
                store.insert([new(f"j{thread}-{n}")], NOW)
            else:
                waiting.append(Queued(store, partial(store.insert, [new(f"j{thread}-{n}")], NOW)))
        return waiting

    for waiting in together(6, write):
        for future in waiting:
            future.result(SOON)
    assert store.stats("q").counts[State.SCHEDULED] == 600


def test_one_bad_call_does_not_spoil_the_others(store: SqliteStore) -> None:
    def bad() -> None:
        store.insert([new("half")], NOW)
        raise ZeroDivisionError

    gate = Gate(store)
    good = [Queued(store, partial(store.insert, [new(f"j{n}")], NOW)) for n in range(5)]
    spoilt = Queued(store, bad)
    more = [Queued(store, partial(store.insert, [new(f"k{n}")], NOW)) for n in range(5)]
    gate.open()
    assert [future.result(SOON) for future in [*good, *more]] == [{}] * 10
    with pytest.raises(ZeroDivisionError):
        spoilt.result(SOON)
    assert store.get("half") is None
    assert store.stats("q").counts[State.SCHEDULED] == 10


def test_a_refusal_is_an_answer_and_what_it_recorded_stays(store: SqliteStore) -> None:
    def refuse() -> None:
        store.insert([new("recorded")], NOW)
        raise Conflict("not now")

    with pytest.raises(Conflict):
        Queued(store, refuse).result(SOON)
    assert store.get("recorded") is not None


def test_an_interrupted_call_leaves_nothing_half_done_and_the_writer_free(
    store: SqliteStore,
) -> None:
    def interrupted() -> None:
        store.insert([new("half")], NOW)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.db.writer.run(interrupted)
    assert store.get("half") is None
    assert store.insert([new("after")], NOW) == {}
    assert Queued(store, lambda: store.get("after")).result(SOON) is not None
    assert [queue.name for queue in store.queues()] == ["q"]


def test_reads_inside_a_write_see_it(store: SqliteStore) -> None:
    def call() -> bool:
        store.insert([new("a")], NOW)
        return store.get("a") is not None

    assert Queued(store, call).result(SOON)


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    store.close()
    for call in (lambda: store.insert([new("a")], NOW), lambda: store.get("a"), store.queues):
        with pytest.raises(StoreError, match="the store is closed"):
            call()
    with pytest.raises(StoreError, match="the store is closed"):
        Queued(store, lambda: None)


def test_closing_finishes_what_was_queued(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    gate = Gate(store)
    waiting = [Queued(store, partial(store.insert, [new(f"j{n}")], NOW)) for n in range(20)]
    closing = threading.Thread(target=store.close)
    closing.start()
    gate.open()
    closing.join(SOON)
    assert [future.result(SOON) for future in waiting] == [{}] * 20


def test_a_write_that_comes_while_the_watcher_looks_is_not_left_waiting(store: SqliteStore) -> None:
    thread = threading.Thread(target=lambda: store.insert([new("a")], NOW), daemon=True)

    def look(_: apsw.Connection) -> None:
        thread.start()
        while store.db.writer._thread is None:  # not queued yet
            pass

    store.db.writer.probe(look)
    thread.join(SOON)
    assert not thread.is_alive()


def test_a_locked_file_is_waited_for_once_and_not_by_each_in_turn(store: SqliteStore) -> None:
    gate = Gate(store)
    waiting = [Queued(store, partial(store.insert, [new(f"j{n}")], NOW)) for n in range(50)]
    statements = Statements(store, locked=True)
    gate.open()
    for future in waiting:
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            future.result(SOON)
    assert statements.count("BEGIN IMMEDIATE") < 10
    statements.locked = False
    assert store.insert([new("after")], NOW) == {}


def test_a_range_claim_leaves_every_other_write_synced(store: SqliteStore) -> None:
    queue = Queue("q", sink="log:")
    store.insert([new("a")], NOW)
    said = Statements(store)
    claim = store.claim_range(queue, "d", 10, NOW, lease_seconds=60)
    assert [job.id for job in claim.jobs] == ["a"]
    switched = [statement for statement in said.all if "synchronous" in statement]
    assert switched == ["PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"]
    assert said.all.index(switched[0]) < said.all.index("BEGIN IMMEDIATE")
    assert said.all.index("COMMIT") < said.all.index(switched[1])
    assert store.db.writer.connection.execute("PRAGMA synchronous").get == 2


def test_durability_is_back_after_a_range_claim_that_failed(store: SqliteStore) -> None:
    store.insert([new("a")], NOW)
    statements = Statements(store, locked=True)
    with pytest.raises(StoreUnavailable):
        store.claim_range(Queue("q", sink="log:"), "d", 10, NOW, lease_seconds=60)
    statements.stop()
    assert store.db.writer.connection.execute("PRAGMA synchronous").get == 2


def test_what_is_read_at_once_is_bounded_by_its_size(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BATCH_BYTES", 5)
    monkeypatch.setattr(lines, "READ_TOGETHER", 1)
    store.insert([new(f"job-{n}") for n in range(9)], NOW)  # payloads of two bytes
    assert len(claim_due(store, [Queue("q")], "w", 9, NOW)) == 3
    taken = store.claim_range(Queue("q", sink="log:"), "d", 9, NOW, lease_seconds=60)
    assert len(taken.jobs) == 3
    store.insert([new(f"more-{n}", queue="q2") for n in range(3)], NOW)
    both = claim_due(store, [Queue("q2"), Queue("q")], "w", 9, NOW)
    assert [one.queue for one in both] == ["q2"] * 3


def test_a_page_is_bounded_by_its_size_and_nothing_is_left_out(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relational_rows, "BATCH_BYTES", 5)
    names = [f"job-{n}" for n in range(9)]
    store.insert([new(name) for name in names], NOW)  # payloads of two bytes
    assert list(map(len, pages(store, 9))) == [3, 3, 3, 0]
    assert [job_id for page in pages(store, 9) for job_id in page] == names


def test_a_listing_of_more_queues_than_are_read_at_once_is_in_order(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "STREAMS_AT_ONCE", 3)
    made = [new(f"job-{n}", queue=f"q{n % 5}")._replace(due_at=NOW - n * 7 % 4) for n in range(30)]
    store.insert(made, NOW)
    claim_due(store, [Queue("q1"), Queue("q3")], "w", 7, NOW)
    store.change(["job-4", "job-14", "job-25"], CANCEL, NOW)
    wanted = [job.id for job in sorted(made, key=lambda job: (job.due_at, job.id))]
    for limit in (1, 4, 30, 31):
        assert [job_id for page in pages(store, limit) for job_id in page] == wanted


def pages(store: SqliteStore, limit: int) -> list[list[str]]:
    """The ids of all jobs, page by page."""
    page = store.page(JobFilter(), None, limit)
    found = [[job.id for job in page.items]]
    while page.next is not None:
        page = store.page(JobFilter(), page.next, limit)
        found.append([job.id for job in page.items])
    return found


def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system lets no more threads be started."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)


def test_calls_fail_while_no_thread_can_be_started_and_succeed_afterwards(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked() -> list[object]:
        acue = AsyncScheduler(Scheduler(store))
        with monkeypatch.context() as limited:
            no_threads(limited)
            early = await asyncio.gather(acue.schedule(id="early"), return_exceptions=True)
        return [*early, await acue.schedule(id="late")]

    early, late = asyncio.run(asyncio.wait_for(asked(), SOON))
    assert isinstance(early, StoreUnavailable)
    assert isinstance(late, Job)


def test_other_processes_are_watched_once_a_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    with monkeypatch.context() as limited:
        no_threads(limited)
        with pytest.raises(StoreUnavailable):
            store.watch(lambda queue, due_at: None)
    heard = threading.Event()
    store.watch(lambda queue, due_at: heard.set())
    with closing(SqliteStore(tmp_path / "jobs.db", FakeClock())) as other:
        other.insert([new("a")], NOW)
        assert heard.wait(SOON)
    store.close()


def test_a_store_closes_whose_thread_could_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    with monkeypatch.context() as limited:
        no_threads(limited)
        for call in (partial(Queued, store, int), partial(store.watch, lambda queue, due_at: None)):
            with pytest.raises(StoreUnavailable):
                call()
    store.close()
