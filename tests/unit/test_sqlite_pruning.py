"""The pruner on SQLite: it runs every minute, so it must write nothing where nothing is old."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from oncue.clock import FakeClock
from oncue.core.queue import Queue
from oncue.engine.node import Node
from oncue.engine.pruner import Pruner
from oncue.stores.sqlite import SqliteStore
from oncue.usecases.queues import put_queue
from tests.contract.desk import Desk


def test_a_pass_of_the_pruner_writes_only_if_something_is_old_enough(tmp_path: Path) -> None:
    clock, path = FakeClock(), tmp_path / "jobs.db"
    with closing(SqliteStore(path, clock)) as store, closing(sqlite3.connect(path)) as other:
        desk = Desk(store, clock)
        for number in range(5):
            put_queue(store, Queue(f"idle-{number}"))
        put_queue(store, Queue("q", retention_seconds=10))
        claimed = desk.take()
        desk.complete(claimed)
        before = _version(other)
        pruner = Pruner(Node.of(store, clock))
        pruner.step()
        assert _version(other) == before
        clock.advance(11)
        pruner.step()
        assert store.get(claimed.id) is None
        assert _version(other) == before + 1


def _version(connection: sqlite3.Connection) -> int:
    """Changes whenever another connection has written."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
