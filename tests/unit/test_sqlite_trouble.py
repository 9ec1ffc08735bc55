"""An SQLite file in trouble: full, locked, read-only. Clear errors, nothing lost, no restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from oncue import Scheduler, State, StoreUnavailable, StoreUnusable
from oncue.clock import FakeClock
from oncue.stores.sqlite import SqliteStore, connection
from tests.unit.queued import Queued


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(connection, "BUSY_MS", 1)
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    yield store
    store.close()


@pytest.fixture
def cue(store: SqliteStore) -> Scheduler:
    return Scheduler(store)


def integrity(store: SqliteStore) -> object:
    with store.db.reading() as tx:
        return tx.execute("PRAGMA integrity_check").get


def room(store: SqliteStore, pages: int) -> None:
    """Let the file have that many pages, counted from what it has."""
    writer = store.db.writer.connection
    used = writer.execute("PRAGMA page_count").get
    writer.execute(f"PRAGMA max_page_count = {used + pages}")


def test_a_full_disk_is_told_and_what_was_acknowledged_is_kept(
    store: SqliteStore, cue: Scheduler
) -> None:
    room(store, 20)
    kept: list[str] = []
    with pytest.raises(StoreUnavailable, match="the disk is full.*free some space and call again"):
        while True:
            kept.append(cue.schedule("x" * 4000).id)
    assert kept
    assert {job.id for job in cue.jobs()} == set(kept)
    assert integrity(store) == "ok"


def test_a_disk_with_room_again_needs_no_restart(store: SqliteStore, cue: Scheduler) -> None:
    room(store, 1)
    with pytest.raises(StoreUnavailable):
        cue.schedule_many({"payload": "x" * 4000} for _ in range(100))
    assert cue.stats("default").counts[State.SCHEDULED] == 0
    room(store, 100_000)
    assert cue.schedule_many({"payload": "x" * 4000} for _ in range(100)).accepted == 100


def test_on_a_full_disk_jobs_can_still_be_read_and_taken_jobs_still_end(
    store: SqliteStore, cue: Scheduler
) -> None:
    job = cue.schedule(queue="q")
    room(store, 0)
    with pytest.raises(StoreUnavailable):
        cue.schedule("x" * 20_000)
    [claimed] = cue.claim("q", "ada")
    cue.complete(job.id, cue.token(claimed))
    assert cue.job(job.id).state is State.SUCCEEDED


def test_one_that_does_not_fit_does_not_spoil_those_that_do(
    store: SqliteStore, cue: Scheduler
) -> None:
    room(store, 3)
    small = [Queued(store, lambda: cue.schedule("small").id) for _ in range(5)]
    large = Queued(store, lambda: cue.schedule("x" * 200_000).id)
    assert len({future.result(20) for future in small}) == 5
    with pytest.raises(StoreUnavailable):
        large.result(20)
    assert {job.payload for job in cue.jobs()} == {"small"}


@pytest.fixture
def other(store: SqliteStore) -> Iterator[apsw.Connection]:
    """Another program's connection to the file."""
    with closing(apsw.Connection(str(store.db.path))) as other:
        yield other


def test_a_file_that_another_program_locks_is_told_and_heals(
    cue: Scheduler, other: apsw.Connection
) -> None:
    job = cue.schedule()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        cue.schedule()
    with pytest.raises(StoreUnavailable):
        cue.claim("default", "ada")
    assert cue.job(job.id) == job  # reading goes on
    other.execute("ROLLBACK")
    assert cue.schedule().id


def test_a_locked_file_is_opened_for_who_only_looks(
    store: SqliteStore, cue: Scheduler, other: apsw.Connection
) -> None:
    job = cue.schedule()
    other.execute("BEGIN IMMEDIATE")
    with closing(SqliteStore(store.db.path)) as late:
        assert late.get(job.id) == job
        assert late.nodes(0) == []


def test_a_reader_that_stays_does_not_keep_anybody_from_writing(
    cue: Scheduler, other: apsw.Connection
) -> None:
    cue.schedule()
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM jobs").fetchall()
    assert cue.schedule_many({} for _ in range(1000)).accepted == 1000
    assert other.execute("SELECT count(*) FROM jobs").get == 1


def test_a_file_that_became_read_only_is_told(store: SqliteStore, cue: Scheduler) -> None:
    """As root, permissions do not hold; a connection that may only read does."""
    job = cue.schedule()
    store.db.writer.connection.execute("PRAGMA query_only = 1")
    with pytest.raises(StoreUnusable, match="read-only. Give this user write permission"):
        cue.schedule()
    assert cue.job(job.id) == job
    store.db.writer.connection.execute("PRAGMA query_only = 0")
    assert cue.schedule().id


def test_the_store_of_a_forked_parent_is_refused(
    store: SqliteStore, cue: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(Exception, match="Fork outside the store's calls"):
        cue.schedule()
