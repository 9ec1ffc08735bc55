"""What the store could do at best: the product's own schema and statements in bare loops on a bare
connection, with no Python objects around them."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path
from time import perf_counter
from time import time as wall  # noqa: TID251
from typing import Any

import apsw
import msgspec

from oncue.clock import SystemClock
from oncue.core.moment import LATEST
from oncue.stores.sqlite.connection import connect, prepare
from oncue.stores.sqlite.statements import load
from oncue_bench import seeds
from oncue_bench.seeds import CHUNK, DAY_MS, HOUR_MS, INSERT, QUEUE

RANGES = load("ranges")
RANK = 19  # of a job without priority that was never reclaimed

Figures = dict[str, Any]


def one_by_one(connection: apsw.Connection, count: int) -> float:
    """Insert and commit, again and again. How many seconds it took."""
    now = SystemClock().now()
    rows = list(seeds.rows(count, now, now + HOUR_MS))
    execute = connection.execute
    began = perf_counter()
    for row in rows:
        execute("BEGIN IMMEDIATE")
        execute(INSERT, row)
        execute("COMMIT")
    return perf_counter() - began


def in_groups(path: str, count: int, group: int, spread: bool = False) -> Figures:
    """Insert `group` at once and commit: a perfect group commit, or a bulk insert."""
    connection = opened(path)
    now = SystemClock().now()
    source = seeds.rows(count, now, now + HOUR_MS, DAY_MS if spread else 0, ordered=False)
    groups = []
    while rows := list(islice(source, group)):
        groups.append(rows)
    began = perf_counter()
    for rows in groups:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows)
        connection.execute("COMMIT")
    return {"count": count, "seconds": perf_counter() - began}


def drain(path: str, count: int) -> Figures:
    """Take what is due, batch by batch, decode it, delete it."""
    connection = opened(path)
    execute = connection.execute
    decode = msgspec.json.Decoder().decode
    now = SystemClock().now()
    own = {"queue": QUEUE, "line": RANK, "until": now, "now": now, "limit": CHUNK}
    done = 0
    began = perf_counter()
    while done < count:
        execute("BEGIN IMMEDIATE")
        rows = execute(RANGES["due"], own).fetchall()
        for row in rows:
            decode(row[2])  # type: ignore[arg-type]
        taken = apsw.carray(tuple([row[0] for row in rows]))
        execute(RANGES["delivered_gone"], {"queue": QUEUE, "ids": taken, "before": 0})
        execute("COMMIT")
        done += len(rows)
    return {"count": done, "seconds": perf_counter() - began}


def on_time(path: str, count: int, over_seconds: float) -> Figures:
    """Sleep until each of `count` known moments, make one durable claim, look at the clock."""
    connection = opened(path)
    start = SystemClock().now() + 200
    dues = [start + int(position * over_seconds * 1000 / count) for position in range(count)]
    never = threading.Event()
    lateness = []
    for due in dues:
        while (ahead := due / 1000 - wall()) > 0:
            never.wait(ahead)
        _claim(connection, due)
        lateness.append(wall() * 1000 - due)
        connection.execute(RANGES["take_over"], {"queue": QUEUE, "now": LATEST, "dispatcher": ""})
    return {"lateness_ms": lateness}


def _claim(connection: apsw.Connection, due: int) -> None:
    own = {"queue": QUEUE, "line": RANK, "until": due, "now": due, "limit": 500}
    record = {
        "dispatcher": "bench",
        "now": due,
        "lease_until": due,
        "queue": QUEUE,
        "cutoff": due,
        "in_flight": 1,
        **dict.fromkeys(("nonce", "ns", "jobs_digest")),
    }
    through = {"through_line": RANK, "through_due": LATEST, "through_id": ""}
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(RANGES["due"], own).fetchall()
    connection.execute(RANGES["open"], {**record, **through}).fetchall()
    connection.execute("COMMIT")


def opened(path: str) -> apsw.Connection:
    prepare(Path(path))
    return connect(Path(path))
