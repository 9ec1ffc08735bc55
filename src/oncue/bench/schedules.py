"""`python -m oncue.bench.schedules`: what an occurrence costs among many schedules.

All schedules fall due at the same minute, the worst case. Beside it: storing as many ordinary jobs
in batches of the same size, which is what is left when nothing has to be decided.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from oncue.bench.machine import disk_folder
from oncue.clock import FakeClock
from oncue.core import ids
from oncue.core.job import NewJob
from oncue.core.recurrence import REFILL_MS, begun
from oncue.core.schedule import Schedule, check_schedule
from oncue.engine.recurrer import PAGE, Recurrer
from oncue.stores.sqlite import SqliteStore

ZONES = ("UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata")
RHYTHMS = ("* * * * *", "*/5 * * * *", "0 9 * * MON-FRI")
PAYLOAD = b'{"report": "%s"}' % (b"x" * 180)
LOOKS = 200


class Cost(NamedTuple):
    """Of one occurrence, in microseconds, and of a look that finds nothing to do."""

    schedules: int
    made: int
    decided_us: float
    stored_us: float
    """An ordinary job in a batch, beside it."""
    look_us: float


def measure(folder: Path, count: int) -> Cost:
    clock = FakeClock()
    store = SqliteStore(folder / f"{count}.db", clock)
    try:
        made_at = _fill(store, clock, count)
        recurrer = Recurrer(store, clock)
        recurrer.compare_zones()
        clock.set(made_at)
        began = perf_counter()
        while recurrer.step() == 0.0:
            continue
        decided = perf_counter() - began
        total = sum(store.stats("default").counts.values())
        looked = perf_counter()
        for _ in range(LOOKS):
            recurrer.step()
        look = perf_counter() - looked
        stored = _store_jobs(store, clock, total)
    finally:
        store.close()
    return Cost(count, total, decided / total * 1e6, stored / total * 1e6, look / LOOKS * 1e6)


def _fill(store: SqliteStore, clock: FakeClock, count: int) -> int:
    """Schedules that all wake at the moment that is answered."""
    now = clock.now()
    settings = [
        check_schedule(Schedule("s", cron=rhythm, timezone=zone, payload_json=PAYLOAD))
        for rhythm in RHYTHMS
        for zone in ZONES
    ]
    next_at = now + 60_000

    def put(first: int) -> None:
        for number in range(first, min(first + PAGE, count)):
            wanted = begun(replace(settings[number % len(settings)], name=f"s{number}"), now)
            progress = wanted.progress._replace(next_at=next_at, wake_at=next_at - REFILL_MS)
            store.put_schedule(None, replace(wanted, progress=progress), now)

    for first in range(0, count, PAGE):
        store.submit(partial(put, first)).result()
    return next_at - REFILL_MS


def _store_jobs(store: SqliteStore, clock: FakeClock, count: int) -> float:
    now = clock.now()
    jobs = [NewJob(ids.mint(now, now), "beside", now, PAYLOAD, 0, now) for _ in range(count)]
    began = perf_counter()
    for first in range(0, count, PAGE):
        store.insert(jobs[first : first + PAGE], now)
    return perf_counter() - began


def lines(costs: Sequence[Cost]) -> Iterator[str]:
    yield f"{'schedules':>12} {'occurrence':>12} {'plain job':>12} {'ratio':>7} {'idle look':>12}"
    for cost in costs:
        ratio = cost.decided_us / cost.stored_us
        yield (
            f"{cost.schedules:>12,} {cost.decided_us:>9.1f} µs {cost.stored_us:>9.1f} µs "
            f"{ratio:>7.1f} {cost.look_us:>9.1f} µs"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("oncue.bench.schedules", description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[1_000, 100_000], metavar="N")
    folder = disk_folder()
    try:
        costs = [measure(folder, count) for count in parser.parse_args(arguments).counts]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(*lines(costs), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
