"""Schedules that all fall due at the same minute, the worst case, as the recurrer goes through
them; and as many plain jobs, which is what is left when nothing has to be decided."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.recurrence import REFILL_MS, begun
from oncue.core.schedule import Schedule, check_schedule
from oncue.engine.node import Node
from oncue.engine.recurrer import PAGE, Recurrer
from oncue.ports.schedules import Advance
from oncue.stores.sqlite import SqliteStore

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata")
RHYTHMS = ("* * * * *", "*/5 * * * *", "0 9 * * MON-FRI")
PAYLOAD = b'{"report": "%s"}' % (b"x" * 180)
LOOKS = 200

Figures = dict[str, Any]


def seed_schedules(path: str, count: int) -> Figures:
    """A file with so many schedules, all of them to be looked at at the same moment."""
    settings = [
        check_schedule(Schedule("s", cron=rhythm, timezone=zone, payload_json=PAYLOAD))
        for rhythm in RHYTHMS
        for zone in ZONES
    ]
    with _opened(path) as (store, clock):
        now = clock.now()

        def waiting(number: int) -> Advance:
            wanted = begun(replace(settings[number % len(settings)], name=f"s{number}"), now)
            progress = wanted.progress._replace(next_at=_due(now), wake_at=_waking(now))
            return Advance(None, replace(wanted, progress=progress))

        for first in range(0, count, PAGE):
            numbers = range(first, min(first + PAGE, count))
            store.advance([waiting(number) for number in numbers], now)
    return {"count": count}


def occurrences(path: str) -> Figures:
    """Go through all schedules until nothing is to be done; then look in vain, and store as many
    plain jobs in batches of the same size."""
    with _opened(path) as (store, clock):
        recurrer = Recurrer(Node.of(store, clock))
        recurrer.compare_zones()
        clock.set(_waking(clock.now()))
        began = perf_counter()
        while recurrer.step() == 0.0:
            continue
        decided = perf_counter() - began
        count = sum(store.stats("default").counts.values())
        looked = perf_counter()
        for _ in range(LOOKS):
            recurrer.step()
        look = (perf_counter() - looked) / LOOKS
        plain = _store_jobs(store, clock.now(), count)
    return {"count": count, "seconds": decided, "plain_seconds": plain, "look_seconds": look}


def _store_jobs(store: SqliteStore, now: Moment, count: int) -> float:
    jobs = [
        NewJob(ids.mint(now, now, "beside", 0), "beside", now, PAYLOAD, 0, now)
        for _ in range(count)
    ]
    began = perf_counter()
    for first in range(0, count, PAGE):
        store.insert(jobs[first : first + PAGE], now)
    return perf_counter() - began


def _due(now: Moment) -> Moment:
    return now + 60_000


def _waking(now: Moment) -> Moment:
    return _due(now) - REFILL_MS


@contextmanager
def _opened(path: str) -> Iterator[tuple[SqliteStore, FakeClock]]:
    """The store, at the moment at which its schedules were set."""
    clock = FakeClock()
    store = SqliteStore(Path(path), clock)
    try:
        yield store, clock
    finally:
        store.close()
