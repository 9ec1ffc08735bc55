"""W8, the measured process: jobs whose workers fell silent, and workers that do not."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any

import apsw

from oncue.aio import AsyncScheduler
from oncue.core.job import Claimed
from oncue.core.lifecycle import State
from oncue.scheduler import Scheduler
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load
from oncue_bench.raw import opened
from oncue_bench.seeds import PAYLOAD

STUCK = "stuck"
PAGE = 500
SHARED = 256  # heartbeats that share a commit at best, as in `aio`
DAY = 86_400
CLAIMS = load("claims")
UNSTARTED = {"strike": 0, "not_counted": 1}  # of claims that never started, taken with others

Figures = dict[str, Any]


def run(path: str, count: int) -> Figures:
    """Take all of them back."""
    return _measured(path, count, dry=False)


def look(path: str, count: int) -> Figures:
    """Find all of them and decide, and write nothing."""
    return _measured(path, count, dry=True)


def _measured(path: str, count: int, *, dry: bool) -> Figures:
    logging.getLogger("oncue.engine").setLevel(logging.ERROR)  # a line for each is not measured
    with Scheduler(f"sqlite:///{path}") as cue:
        _stick(cue, count)
        began = perf_counter()
        report = cue.reclaim(object_scan_limit=PAGE, target_batch_size=PAGE, log_reclaim_only=dry)
        seconds = perf_counter() - began
    found = report.would_reclaim_count if dry else report.retried
    if (found, report.scanned) != (count, count):
        raise AssertionError(f"{found} of {count} were found, {report.scanned} looked at")
    return {"count": count, "seconds": seconds}


def raw_updates(path: str, count: int) -> Figures:
    """The one update that a reclaim cannot do without, for as many rows at once."""
    with Scheduler(f"sqlite:///{path}") as cue:
        _stick(cue, count)
        now = cue.clock.now()
    connection = opened(path)
    live = connection.execute(f"SELECT n FROM jobs WHERE state = '{State.DISPATCHED}'").fetchall()
    ns = [int(str(row[0])) for row in live]
    began = perf_counter()
    for start in range(0, count, PAGE):
        with connection:
            own = {"ns": rows.numbers(ns[start : start + PAGE]), "now": now}
            connection.execute(CLAIMS["reclaim"], own | UNSTARTED)
    return {"count": count, "seconds": perf_counter() - began}


def beats(path: str, workers: int, beats: int) -> Figures:
    """Each worker renews its own lease, waits for the answer, and does it again."""
    with Scheduler(f"sqlite:///{path}") as cue:
        claims = _stick(cue, workers)
        seconds = asyncio.run(_crowd(AsyncScheduler(cue), claims, beats))
    return {"count": workers * beats, "seconds": seconds}


async def _crowd(acue: AsyncScheduler, claims: list[Claimed], beats: int) -> float:
    cue = acue.scheduler

    async def worker(claim: Claimed) -> None:
        token = cue.token(claim)
        for _ in range(beats):
            await acue.heartbeat(claim.id, token, lease_seconds=DAY)

    await acue.heartbeat(claims[0].id, cue.token(claims[0]), lease_seconds=DAY)
    began = perf_counter()
    await asyncio.gather(*(worker(claim) for claim in claims))
    return perf_counter() - began


def raw_beats(path: str, workers: int, beats: int) -> Figures:
    """The update of each, in as few commits as callers that wait together can share."""
    with Scheduler(f"sqlite:///{path}") as cue:
        _stick(cue, workers)
        now = cue.clock.now()
    connection = opened(path)
    ns = [int(str(row[0])) for row in connection.execute("SELECT n FROM jobs").fetchall()]
    began = perf_counter()
    for beat in range(beats):
        for start in range(0, workers, SHARED):
            with connection:
                for n in ns[start : start + SHARED]:
                    _beat(connection, n, now + beat)
    return {"count": workers * beats, "seconds": perf_counter() - began}


def _beat(connection: apsw.Connection, n: int, now: int) -> None:
    lease = {"lease_until": now + DAY * 1000, "lease_ms": DAY * 1000, "lease_asked": 1}
    own = {"ns": rows.numbers([n]), "now": now, "start": 1, "message": None, "percent": None}
    connection.execute(CLAIMS["touch"], {**lease, **own})


def _stick(cue: Scheduler, count: int) -> list[Claimed]:
    """Jobs in the hands of workers, a millisecond ago and for a day."""
    cue.schedule_many({"payload": PAYLOAD, "queue": STUCK} for _ in range(count))
    claims: list[Claimed] = []
    while len(claims) < count:
        wanted = min(PAGE, count - len(claims))
        claims += cue.claim(STUCK, "silent", limit=wanted, lease_seconds=DAY)
    last = cue.clock.now()
    while cue.clock.now() == last:
        continue
    return claims
