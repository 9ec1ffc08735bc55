"""Files with jobs in them, written with the product's own insert statement, and copies of them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from oncue.clock import SystemClock
from oncue.core import ids
from oncue.scheduler import Scheduler
from oncue.sinks.memory import named
from oncue.stores.sqlite.connection import connect, prepare
from oncue.stores.sqlite.statements import load

QUEUE = "bench"
PAYLOAD = {
    "to": "ada@example.org",
    "subject": "Your analytical engine has been dispatched",
    "order": 1_234_567,
    "items": [{"sku": "ENG-0042", "count": 3}, {"sku": "COG-1000", "count": 12}],
    "note": "leave it with the neighbour",
}
BODY = json.dumps(PAYLOAD, separators=(",", ":")).encode()  # ~200 bytes
CHUNK = 5000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INSERT = load("jobs")["insert"]
_INSERT_FINISHED = """
INSERT INTO jobs (id, queue, due_at, payload, priority, created_at, updated_at, finished_at,
                  claimed_at, state, attempt, worker)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?3, ?3, ?3, 'succeeded', 1, 'bench')
"""

Row = tuple[Any, ...]


def rows(
    count: int, now: int, due_at: int, spread_ms: int = 0, ordered: bool = True
) -> Iterator[Row]:
    """What the insert statement takes, due at one moment or at random in the time after it."""
    chance = random.Random(42)
    dues = [due_at + (chance.randrange(spread_ms) if spread_ms else 0) for _ in range(count)]
    for due in sorted(dues) if ordered else dues:
        yield (ids.mint(now, due, QUEUE, 0), QUEUE, due, BODY, 0, now, *(None,) * 6, 0)


def seed(path: str, *, due: int = 0, pending: int = 0, finished: int = 0) -> dict[str, Any]:
    """Make a file with `due` jobs due at one instant just passed, `pending` ones spread over a
    month from tomorrow on, and `finished` ones, all in one queue."""
    now = SystemClock().now()
    prepare(Path(path))
    connection = connect(Path(path))
    over = (row[:6] for row in rows(finished, now - HOUR_MS, now - HOUR_MS))
    insert(connection, over, _INSERT_FINISHED)
    insert(connection, rows(pending, now, now + DAY_MS, 30 * DAY_MS))
    insert(connection, rows(due, now, now - 1))
    with connection:
        connection.execute(load("queues")["ensure"], (QUEUE,))
    connection.close()
    return {"count": due + pending + finished}


def insert(connection: apsw.Connection, source: Iterator[Row], statement: str = INSERT) -> None:
    while chunk := list(islice(source, CHUNK)):
        with connection:
            connection.executemany(statement, chunk)


def set_queue(cue: Scheduler, *, sink: bool, keep: bool) -> None:
    """Whether the jobs go to a sink or to a worker, and whether anything is kept of them."""
    settings: dict[str, Any] = {} if keep else {"retention_seconds": 0}
    named("bench")
    cue.set_queue(QUEUE, sink="memory:bench" if sink else None, **settings)


def copy(source: Path, target: Path) -> Path:
    """Another file with the same jobs, on disk when this returns: what the kernel still had to
    write would be charged to whoever is measured next."""
    for suffix in ("-wal", "-shm"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(source, target)
    handle = os.open(target, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    return target
