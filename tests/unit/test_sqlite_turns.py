"""Processes that write to the same file take turns, and the log stays within its bound."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from oncue import Scheduler, StoreUnavailable
from oncue.clock import FakeClock
from oncue.stores.sqlite import SqliteStore, connection, turnstile
from tests.unit.statements import Statements

SOON = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, FakeClock())
    yield store
    store.close()


@pytest.fixture
def other(path: Path, store: SqliteStore) -> Iterator[SqliteStore]:
    """As another process has it: with a turnstile and a write lock of its own."""
    other = SqliteStore(path, FakeClock())
    Scheduler(other).schedule()
    yield other
    other.close()


def test_a_busy_writer_stands_behind_one_that_waits(store: SqliteStore, other: SqliteStore) -> None:
    """The busy one commits and writes again at once: the one that waited comes in between."""
    order: list[str] = []
    began = threading.Event()
    waiting = threading.Event()

    def wait_for_lock(tries: int) -> bool:
        waiting.set()
        return other.db._turnstile.wait_for_lock(tries)

    other.db.writer.connection.set_busy_handler(wait_for_lock)

    def hold() -> None:
        order.append("busy")
        began.set()
        assert waiting.wait(SOON)

    def late() -> None:
        assert began.wait(SOON)
        other.db.writer.run(lambda: order.append("waiting"))

    thread = threading.Thread(target=late)
    thread.start()
    store.db.writer.run(hold)
    store.db.writer.run(lambda: order.append("busy"))
    thread.join(SOON)
    assert order == ["busy", "waiting", "busy"]


def test_a_turnstile_that_is_never_left_is_passed_by(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder may have been stopped, or hang: writing goes on."""
    monkeypatch.setattr(turnstile, "TURN_SECONDS", 0.001)
    cue = Scheduler(store)
    cue.schedule()
    stopped = os.open(f"{path}-wal", os.O_RDONLY)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    try:
        cue.schedule()
        monkeypatch.setattr(turnstile, "TURN_SECONDS", 1e9)  # the next one does not even wait
        cue.schedule()
    finally:
        os.close(stopped)
    assert sum(cue.stats("default").counts.values()) == 3


def test_a_job_is_not_stored_at_once_past_one_that_waits(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile, "TURN_SECONDS", 0.001)
    cue = Scheduler(store)
    cue.schedule()
    statements = Statements(store)
    cue.schedule()
    waiting = os.open(f"{path}-wal", os.O_RDONLY)
    fcntl.flock(waiting, fcntl.LOCK_EX)
    cue.schedule()
    os.close(waiting)
    cue.schedule()
    words = [statement.split()[0] for statement in statements.all]
    assert words == ["INSERT", "BEGIN", "INSERT", "COMMIT", "INSERT"]


def test_whether_one_waits_is_not_known_where_there_are_no_such_locks() -> None:
    free = turnstile.Turnstile()
    assert free.is_free()
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    free._file = reading  # no file: the system refuses
    assert free.is_free()


def test_a_file_system_without_such_locks_is_used_without_turns(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert Scheduler(store).schedule().id


def test_a_lock_that_is_not_let_go_is_waited_for_as_long_as_always_and_told(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cue = Scheduler(store)
    cue.schedule()
    now = [0.0]
    monkeypatch.setattr(turnstile, "_monotonic", lambda: now[0])

    def rest(waited: float) -> None:
        now[0] += 1.0

    monkeypatch.setattr(turnstile, "_rest", rest)
    with closing(apsw.Connection(str(path))) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another process for 10 s"):
            cue.schedule()
        assert now[0] == connection.BUSY_MS / 1000
        foreign.execute("ROLLBACK")
    assert cue.schedule().id


def test_the_log_is_cut_once_a_long_reader_has_left(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CHECKPOINT_PAGES", 16)
    monkeypatch.setattr(connection, "LOG_BYTES", 32 * connection.PAGE_SIZE)
    log = Path(f"{path}-wal")
    with closing(SqliteStore(path, FakeClock())) as store:
        cue = Scheduler(store)
        with closing(apsw.Connection(str(path))) as reader:
            reader.execute("BEGIN; SELECT count(*) FROM jobs").fetchall()
            for _ in range(100):
                cue.schedule("x" * 5000)
            peak = log.stat().st_size
        cue.schedule()
        cue.schedule()
        assert log.stat().st_size <= 33 * connection.PAGE_SIZE < peak
