"""Something raised at any line of a commit, Ctrl-C above all: every caller gets a true answer, and
the writes after it work."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import apsw
import pytest

from oncue.clock import FakeClock
from oncue.core.errors import Conflict, StoreUnavailable
from oncue.core.job import NewJob
from oncue.core.lifecycle import State
from oncue.stores.sqlite import SqliteStore, writer
from tests.unit.queued import Queued
from tests.unit.statements import Statements

SOON = 20.0  # only reached if something is broken
NOW = FakeClock().now()


THE_ANSWERING_ITSELF = ("_next", "resolve", "_unknown")


class Stray(BaseException):
    """What nothing here catches by name."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "jobs.db", FakeClock())
    yield store
    store.close()


def new(job_id: str) -> NewJob:
    return NewJob(job_id, "q", NOW, b"{}", 0, NOW)


class Injection:
    """Raises once, at the n-th line that threads started meanwhile execute in the writer, below
    the loop of its thread."""

    def __init__(self, line: int) -> None:
        self.left = line
        self.where = ""

    def __enter__(self) -> Self:
        threading.settrace(self._trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        threading.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename != writer.__file__ or code.co_name in THE_ANSWERING_ITSELF:
            return None
        if event == "line" and code.co_name != "_serve":
            self.left -= 1
            if self.left == 0:
                self.where = f"{code.co_name}:{frame.f_lineno}"
                raise Stray
        return self._trace


def answers(store: SqliteStore, line: int) -> tuple[str, dict[str, BaseException | None]]:
    """Commit a group of three, raise at a line of it: where that was, and what each was told."""

    def refuse() -> None:
        store.insert([new("refused")], NOW)
        raise Conflict("not now")

    with store.db.writer._lock, Injection(line) as injection:
        first = Queued(store, partial(store.insert, [new("first")], NOW))
        refused = Queued(store, refuse)
        last = Queued(store, partial(store.insert, [new("last")], NOW))
    told = {"first": first.exception(SOON), "last": last.exception(SOON)}
    told["refused"] = refused.exception(SOON)
    injection.left = 0  # what comes later is not disturbed
    return injection.where, told


def test_raised_at_any_line_everybody_is_answered_truly(tmp_path: Path) -> None:
    raised_at = set()
    for line in range(1, 500):
        with closing(SqliteStore(tmp_path / f"{line}.db", FakeClock())) as store:
            where, told = answers(store, line)
            for name, error in told.items():
                answered = error is None or (name == "refused" and isinstance(error, Conflict))
                assert answered or isinstance(error, StoreUnavailable | Stray), (where, error)
                assert (store.get(name) is not None) == answered, where
            assert Queued(store, lambda: store.insert([new("a")], NOW)).result(SOON) == {}
            assert store.insert([new("b")], NOW) == {}
        if not where:
            break
        raised_at.add(where)
    assert not where, "the commit has more lines than were tried"
    names = {where.partition(":")[0] for where in raised_at}
    assert {"_commit_queued", "_commit", "_commit_together", "_transact", "_answer"} <= names


STORM = """
import random, signal, sys, threading
from oncue import Scheduler, OncueError
from tests.unit.queued import Queued
cue = Scheduler(sys.argv[1])
cue.store.watch(lambda queue, due_at: None)
kept, interrupted, over = [], 0, threading.Event()

def beside():
    while not over.is_set():
        kept.append(cue.schedule(queue="beside").id)

def pressed(*_):
    raise KeyboardInterrupt

threads = [threading.Thread(target=beside, daemon=True) for _ in range(2)]
signal.signal(signal.SIGALRM, pressed)
for thread in threads:
    thread.start()
for n in range(500):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))
        while True:
            kept.append(cue.schedule(queue="main").id)
    except KeyboardInterrupt:
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
over.set()
for thread in threads:
    thread.join(20)
    assert not thread.is_alive(), "a caller waits for ever"
cue.schedule(queue="after")
assert cue.store.db.writer.connection.execute("PRAGMA synchronous").get == 2
there = {job.id for job in cue.jobs()}
assert there.issuperset(kept), "acknowledged and not stored"
cue.close()
print(interrupted)
"""


def test_a_storm_of_real_signals_loses_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    run = [sys.executable, "-W", "ignore", "-c", STORM, url]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "500\n"), ended.stderr


def test_ctrl_c_after_the_commit_is_raised_and_the_news_is_told_later(store: SqliteStore) -> None:
    told: list[object] = []
    told_later = threading.Event()

    def listener(queue: str | None, due_at: int) -> None:
        told.append(queue)
        if queue is None:
            told_later.set()

    store.watch(listener)
    after_commit = store.db.watching.committed

    def pressed() -> None:
        store.db.writer._committed = after_commit
        raise KeyboardInterrupt

    store.db.writer._committed = pressed
    with pytest.raises(KeyboardInterrupt):
        store.insert([new("a")], NOW)
    assert store.get("a") is not None
    assert told_later.wait(SOON)


def test_a_transaction_that_was_left_open_does_not_lock_the_file_for_ever(
    store: SqliteStore,
) -> None:
    store.db.writer.connection.execute("BEGIN IMMEDIATE")
    assert store.insert([new("a")], NOW) == {}
    with closing(apsw.Connection(str(store.db.path))) as other:
        assert other.execute("SELECT count(*) FROM jobs").get == 1


def test_every_failing_call_fails_alone_and_the_others_share_commits(store: SqliteStore) -> None:
    def guilty() -> None:
        store.insert([new("half")], NOW)
        store.db.writer.connection.execute("INSERT INTO queues (name, paused) VALUES ('x', 7)")

    with store.db.writer._lock:
        futures = [
            Queued(store, guilty if n in (7, 30) else partial(store.insert, [new(f"{n}")], NOW))
            for n in range(41)
        ]
        statements = Statements(store)
    failed = [n for n, future in enumerate(futures) if future.exception(SOON) is not None]
    assert failed == [7, 30]
    assert store.stats("q").counts[State.SCHEDULED] == 39
    assert statements.count("COMMIT") == 3
