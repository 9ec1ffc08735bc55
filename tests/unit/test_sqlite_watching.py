"""Several processes on one file: what each learns of the others, and what idleness costs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.access import AccessToken, Scope
from oncue.core.errors import StoreError
from oncue.core.fencing import Settlement
from oncue.core.job import NewJob
from oncue.core.lifecycle import Verb
from oncue.core.queue import (
    BUILT_IN,
    LARGEST_FACTOR,
    LONGEST_PAUSE_SECONDS,
    Queue,
    RetryPolicy,
    default_queue,
)
from oncue.core.recurrence import begun
from oncue.core.schedule import Schedule, check_schedule
from oncue.core.sharing import Taker
from oncue.ports.sink import Refusal
from oncue.stores.sqlite import SqliteStore, rows, watching
from oncue.stores.sqlite.connection import connect
from oncue.stores.sqlite.settings import queue_settings
from oncue.stores.sqlite.watching import News, OtherProcesses, settings_revision
from oncue.stores.sqlite.worker_ranges import LEAST
from oncue.usecases.queues import put_queue, set_paused
from tests.contract.desk import claim_due
from tests.contract.pruning import prune
from tests.contract.recurring import delete_schedule, put_schedule

NOW = FakeClock().now()
OUT = Queue("out", sink="log:")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def here(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path, FakeClock())) as store:
        store.insert([new("first", due_in=3_600_000)], NOW)
        yield store


@pytest.fixture
def there(path: Path, here: SqliteStore) -> Iterator[SqliteStore]:
    """The same file, opened by somebody else."""
    with closing(SqliteStore(path, FakeClock())) as store:
        yield store


def new(job_id: str, queue: str = "out", due_in: int = 0, **more: object) -> NewJob:
    return NewJob(job_id, queue, NOW + due_in, b"{}", 0, NOW, **more)  # type: ignore[arg-type]


def told(store: SqliteStore, *queues: str) -> list[News]:
    """What listeners of this store are told next."""
    with store.db.reading() as tx:
        return store.db.watching.others.news(tx, queues)


def take_together(store: SqliteStore) -> None:
    store.insert([new(f"a-{n:03}") for n in range(LEAST)], NOW)
    taker = Taker("w", LEAST, is_near=True, together=True)
    [claims] = store.claim([Queue("out")], [taker], NOW, nonce="n")
    assert len(claims) == LEAST


class Ear:
    """One look at other processes after the other."""

    def __init__(self, store: SqliteStore, *queues: str) -> None:
        self._store = store
        self._queues = queues or None
        self._others = OtherProcesses()
        self.hear()

    def hear(self) -> list[News]:
        with self._store.db.reading() as tx:
            return sorted(self._others.news(tx, self._queues), key=str)


# -- news ------------------------------------------------------------------------------------------


def test_a_job_of_another_process_is_told_by_its_queue_and_moment(
    here: SqliteStore, there: SqliteStore
) -> None:
    ear = Ear(here, "out")
    there.insert([new("a", due_in=5_000), new("b", due_in=7_000)], NOW)
    assert ear.hear() == [("out", NOW + 5_000)]


def test_work_of_every_priority_is_told(here: SqliteStore, there: SqliteStore) -> None:
    ear = Ear(here, "out")
    there.insert([new("a", due_in=9_000)._replace(priority=9), new("b", due_in=5_000)], NOW)
    assert ear.hear() == [("out", NOW + 5_000), ("out", NOW + 9_000)]


def test_queues_that_nobody_awaits_are_not_read(here: SqliteStore, there: SqliteStore) -> None:
    there.insert([new("a", "elsewhere")], NOW)
    ear = Ear(here, "out")
    there.insert([new("b", "elsewhere")], NOW)
    assert ear.hear() == []
    ear = Ear(here)
    there.insert([new("c", "elsewhere", due_in=-1)], NOW)
    assert ear.hear() == [("elsewhere", NOW - 1)]


def test_due_work_that_cannot_be_taken_is_told_once(here: SqliteStore, there: SqliteStore) -> None:
    for queue in (Queue("full", concurrency=1), Queue("rated", rate_per_second=1)):
        put_queue(there, queue)
        there.insert([new(f"{queue.name}-{n}", queue.name) for n in range(2)], NOW)
        assert len(claim_due(there, [queue], "w", 9, NOW)) == 1
    there.insert([new("a"), new("b")], NOW)
    there.claim_range(OUT, "d", 1, NOW, lease_seconds=60)
    ear = Ear(here, "full", "rated", "out")
    there.insert([new("c", "elsewhere"), new("d", due_in=7_200_000)], NOW)
    assert ear.hear() == []


def test_work_behind_what_a_worker_took_together_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    take_together(there)
    ear = Ear(here, "out")
    for priority in (0, 9):
        there.insert([new(f"b-{priority}", due_in=1)._replace(priority=priority)], NOW)
        assert ("out", NOW + 1) in ear.hear()


def test_work_that_arrives_among_what_a_worker_took_together_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    take_together(there)
    ear = Ear(here, "out")
    there.insert([new("urgent")._replace(priority=9)], NOW)  # due by the time of that claim
    assert ("out", 0) in ear.hear()
    assert ear.hear() == []


def test_work_that_comes_back_among_what_a_worker_took_together_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    there.insert([new("back", due_in=-1)], NOW)
    [claimed] = claim_due(there, [Queue("out")], "w", 1, NOW)
    take_together(there)
    ear = Ear(here, "out")
    there.settle([Settlement(claimed.id, claimed.epoch, Verb.RELEASE)], NOW)
    assert ("out", 0) in ear.hear()


def test_the_moment_of_a_job_that_is_put_off_is_told(here: SqliteStore, there: SqliteStore) -> None:
    there.insert([new("a")], NOW)
    ear = Ear(here, "out")
    claim = there.claim_range(OUT, "d", 9, NOW, lease_seconds=60)
    there.settle_range(claim, [], {"a": Refusal("busy", False)}, NOW)
    job = there.get("a")
    assert job is not None
    assert job.not_before is not None
    moment = there.next_due(["out"])
    assert moment is not None
    assert ("out", moment) in ear.hear()


def test_a_paused_queue_has_no_news(here: SqliteStore, there: SqliteStore) -> None:
    set_paused(there, "out", True)
    ear = Ear(here, "out")
    there.insert([new("a")], NOW)
    assert ear.hear() == []


@pytest.mark.parametrize("most", [1, 2000])
def test_room_in_a_full_queue_is_told_by_telling_of_its_due_work_again(
    here: SqliteStore, there: SqliteStore, most: int
) -> None:
    one = Queue("one", concurrency=most)
    put_queue(there, one)
    there.insert([new(f"a{n:04}", "one") for n in range(most + 1)], NOW)
    assert len(claim_due(there, [one], "w", most + 1, NOW)) == most
    ear = Ear(here, "one")
    assert claim_due(here, [one], "v", 9, NOW) == []
    there.settle([Settlement("a0000", 1, Verb.COMPLETE)], NOW)
    assert ear.hear() == [("one", NOW)]


def test_the_end_of_a_range_is_told(here: SqliteStore, there: SqliteStore) -> None:
    there.insert([new("a"), new("b")], NOW)
    claim = there.claim_range(OUT, "d", 1, NOW, lease_seconds=60)
    ear = Ear(here, "out")
    there.settle_range(claim, [], {}, NOW)
    assert ear.hear() == [("out", NOW)]


def test_a_job_that_was_taken_and_released_between_two_looks_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    there.insert([new("a")], NOW)
    ear = Ear(here, "out")
    [claimed] = claim_due(there, [OUT], "w", 9, NOW)
    there.settle([Settlement("a", claimed.epoch, Verb.RELEASE)], NOW)
    assert ear.hear() == [("out", NOW)]


def test_room_that_another_process_makes_by_ending_a_job_taken_here_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    one = Queue("one", concurrency=1)
    put_queue(there, one)
    there.insert([new("a", "one")], NOW)
    told(here, "one")
    here.insert([new("b", "one")._replace(priority=9)], NOW)
    assert [job.id for job in claim_due(here, [one], "w", 1, NOW)] == ["b"]
    assert claim_due(here, [one], "w", 1, NOW) == []
    there.settle([Settlement("b", 1, Verb.COMPLETE)], NOW)
    assert told(here, "one") == [("one", NOW)]


def test_room_in_a_queue_that_was_full_only_between_two_looks_is_told(
    here: SqliteStore, there: SqliteStore
) -> None:
    """Whoever looked here meanwhile found it full, and waits to be told."""
    one = Queue("one", concurrency=1)
    put_queue(there, one)
    there.insert([new("a", "one", due_in=1)], NOW)
    told(here, "one")
    there.insert([new("b", "one")], NOW)
    assert [job.id for job in claim_due(there, [one], "w", 1, NOW)] == ["b"]
    assert claim_due(here, [one], "v", 1, NOW + 1) == []
    assert here.next_due(["one"]) is None
    there.settle([Settlement("b", 1, Verb.COMPLETE)], NOW + 1)
    assert told(here, "one") == [("one", NOW + 1)]


def test_a_full_queue_has_no_news_however_often_somebody_looks_at_it(
    here: SqliteStore, there: SqliteStore
) -> None:
    one = Queue("one", concurrency=1)
    put_queue(there, one)
    there.insert([new("a", "one"), new("b", "one")], NOW)
    told(here, "one")
    assert len(claim_due(there, [one], "w", 1, NOW)) == 1
    for n in range(2):
        assert claim_due(here, [one], "v", 1, NOW) == []
        there.insert([new(f"elsewhere-{n}")], NOW)
        assert told(here, "one") == []


def test_what_could_not_be_read_is_still_news(
    here: SqliteStore, there: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.insert([new("a", "one", due_in=1)], NOW)
    told(here, "one")
    here.db.watching.others.forget("one")
    set_paused(there, "out", True)
    with monkeypatch.context() as failing, pytest.raises(StoreError):
        failing.setitem(watching.SQL, "moments", "SELECT no_such_function()")
        told(here, "one")
    assert told(here, "one") == [(None, 0), ("one", NOW + 1)]


# -- settings --------------------------------------------------------------------------------------


def change_settings(store: SqliteStore) -> None:
    put_queue(store, replace(OUT, max_attempts=7))


def pause(store: SqliteStore) -> None:
    set_paused(store, "out", True)


def first_job_of_a_queue_with_a_sink(store: SqliteStore) -> None:
    store.insert([new("x", "tasks")], NOW)


def create_schedule(store: SqliteStore) -> None:
    wanted = check_schedule(Schedule("s", cron="0 9 * * *", timezone="Europe/Paris"))
    assert put_schedule(store, None, begun(wanted, NOW), NOW) is not None


def remove_schedule(store: SqliteStore) -> None:
    seen = store.schedule("old")
    assert seen is not None
    assert delete_schedule(store, seen, NOW)


def put_token(store: SqliteStore) -> None:
    store.put_token(AccessToken("t", None, bytes(32), frozenset({Scope.READ}), 0))


def remove_token(store: SqliteStore) -> None:
    assert store.remove_token("old")


SETTINGS = [
    change_settings,
    pause,
    first_job_of_a_queue_with_a_sink,
    create_schedule,
    remove_schedule,
    put_token,
]


@pytest.mark.parametrize("change", [*SETTINGS, remove_token])
def test_a_change_of_settings_is_told_once(
    here: SqliteStore, there: SqliteStore, change: Callable[[SqliteStore], None]
) -> None:
    wanted = check_schedule(Schedule("old", cron="0 9 * * *", timezone="Europe/Paris"))
    put_schedule(there, None, begun(wanted, NOW), NOW)
    there.put_token(AccessToken("old", None, bytes(32), frozenset({Scope.READ}), 0))
    ear = Ear(here, "elsewhere")
    change(there)
    assert ear.hear() == [(None, 0)]
    assert ear.hear() == []


def test_what_jobs_go_through_is_no_change_of_settings(
    here: SqliteStore, there: SqliteStore
) -> None:
    rated = Queue("rated", rate_per_second=5)
    put_queue(there, rated)
    there.insert([new("a", "rated"), new("b")], NOW)
    with here.db.reading() as tx:
        before = settings_revision(tx)
    there.insert([new("c")], NOW)
    assert len(claim_due(there, [rated], "w", 9, NOW)) == 1
    claim = there.claim_range(OUT, "d", 9, NOW, lease_seconds=60)
    there.settle_range(claim, ["b"], {}, NOW)
    prune(there, "out", NOW + 1, NOW, 9)
    with here.db.reading() as tx:
        assert settings_revision(tx) == before


def test_the_first_job_of_a_queue_is_no_change_of_settings_but_of_the_list(
    here: SqliteStore, there: SqliteStore
) -> None:
    assert [queue.name for queue in here.queues()] == ["out"]
    ear = Ear(here, "out")
    there.insert([new("x", "unseen")], NOW)
    assert ear.hear() == []
    assert [queue.name for queue in here.queues()] == ["out", "unseen"]


def test_every_built_in_queue_with_a_sink_is_told(here: SqliteStore, there: SqliteStore) -> None:
    for name in sorted(name for name in BUILT_IN if default_queue(name).sink is not None):
        ear = Ear(here, "out")
        there.insert([new(f"first of {name}", name)], NOW)
        assert ear.hear() == [(None, 0)]


def test_settings_of_another_process_are_seen_at_once(
    here: SqliteStore, there: SqliteStore
) -> None:
    assert here.queues() == here.queues() == [Queue("out")]
    put_queue(there, OUT)
    assert here.queues() == [OUT]
    set_paused(there, "out", True)
    assert here.queues() == [replace(OUT, paused=True)]


def test_settings_from_before_there_were_bounds_are_read_within_them(here: SqliteStore) -> None:
    put_queue(here, replace(OUT, retry=RetryPolicy(1e12, 1e20, 1e18)))
    [queue] = here.queues()
    century = LONGEST_PAUSE_SECONDS
    assert queue.retry == RetryPolicy(century, LARGEST_FACTOR, century)


class Undone(Exception):
    pass


def test_settings_that_were_undone_are_not_remembered(
    here: SqliteStore, there: SqliteStore
) -> None:
    def seen(tx: rows.Tx) -> Queue:
        return queue_settings(here.db, tx).of(OUT.name)

    def change(tx: rows.Tx) -> None:
        put_queue(here, OUT)
        assert seen(tx) == OUT
        raise Undone

    with pytest.raises(Undone):
        here.db.write(change)
    put_queue(there, replace(OUT, max_attempts=7))
    assert here.queues() == [replace(OUT, max_attempts=7)]
    assert here.db.write(seen) == replace(OUT, max_attempts=7)


# -- looking before writing ------------------------------------------------------------------------


@pytest.fixture
def locked(here: SqliteStore, path: Path) -> Iterator[None]:
    """Somebody else holds the write lock: who wants it now waits, and fails."""
    here.db.writer.connection.set_busy_timeout(0)
    with closing(connect(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")


@pytest.mark.usefixtures("locked")
def test_a_claim_that_can_find_nothing_takes_no_lock(here: SqliteStore) -> None:
    queues = [OUT, Queue("empty", sink="log:")]
    assert claim_due(here, queues, "w", 9, NOW) == []
    for queue in queues:
        assert list(here.claim_range(queue, "d", 9, NOW, lease_seconds=60).jobs) == []


@pytest.fixture
def waiting(here: SqliteStore) -> None:
    """Due jobs that nobody may take: of a paused queue, a full one, one whose turn is to come."""
    full = Queue("full", concurrency=1)
    rated = Queue("rated", rate_per_second=1)
    for queue in (full, rated):
        put_queue(here, queue)
        here.insert([new(f"{queue.name}-{n}", queue.name) for n in range(2)], NOW)
        assert [len(claim_due(here, [queue], "w", 9, NOW)) for _ in range(2)] == [1, 0]
    here.insert([new("a", "paused")], NOW)
    set_paused(here, "paused", True)


@pytest.mark.usefixtures("waiting", "locked")
@pytest.mark.parametrize("name", ["full", "rated", "paused"])
def test_a_claim_that_may_take_nothing_takes_no_lock(here: SqliteStore, name: str) -> None:
    assert claim_due(here, [Queue(name)], "w", 9, NOW) == []


@pytest.mark.usefixtures("waiting")
def test_who_finds_a_queue_full_is_told_of_room(path: Path) -> None:
    with closing(SqliteStore(path, FakeClock())) as late:
        told: list[tuple[str | None, int]] = []
        late.watch(lambda queue, moment: told.append((queue, moment)))
        assert claim_due(late, [Queue("full")], "w", 9, NOW) == []
        late.settle([Settlement("full-0", 1, Verb.COMPLETE)], NOW)
        assert ("full", 0) in told
