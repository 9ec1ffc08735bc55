"""W10: a burst on a store across a network, which is the hostile store of the tests: 5 ms for each
call. The raw side claims and settles the same batches on the same store, without the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any

from oncue.clock import SystemClock
from oncue.core.job import NewJob
from oncue.core.queue import Queue
from oncue.engine import dispatcher
from oncue.engine import engine as engines
from oncue.engine.dispatcher import RANGE_LIMIT
from oncue.ports.claims import RangeClaim
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from oncue_bench.processes import Measured, measure
from oncue_bench.product import CountingSink, drained
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, rate, ratios
from oncue_bench.seeds import QUEUE

LATENCY_SECONDS = 0.005
SLOW_SECONDS = 0.02
SHARDS = 4
AT_ONCE = engines.BATCHES_AT_ONCE
GOAL = 0.8
SLOW_GOAL = 1.5
SLOW_BATCH = 100  # small, so that waiting counts and not the time of the store in memory
OUT = Queue(QUEUE, sink="bench:", retention_seconds=0)

Figures = dict[str, Any]


def rows(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.burst
    ground.progress(f"W10 {count:,} due at one instant, {LATENCY_SECONDS * 1000:g} ms a call")
    slow = {"count": count // 5, "slow": SLOW_SECONDS, "batch": SLOW_BATCH}
    taken = in_turn(
        ground.sizes.rounds,
        {
            "raw": partial(measure, "hostile.raw_drain", count=count),
            "product": partial(measure, "hostile.drain", count=count),
            "one": partial(measure, "hostile.drain", at_once=1, **slow),
            "several": partial(measure, "hostile.drain", **slow),
        },
    )
    at_once = f"{count:,} due, {LATENCY_SECONDS * 1000:g} ms a call, a sink that takes at once"
    yield _compared(at_once, taken["product"], taken["raw"], "raw", GOAL)
    slowly = f"{count // 5:,} due, a sink of {SLOW_SECONDS * 1000:g} ms for {SLOW_BATCH}"
    yield _compared(slowly, taken["several"], taken["one"], "one batch at a time", SLOW_GOAL)


def _compared(
    title: str, product: list[Measured], beside: list[Measured], beside_what: str, goal: float
) -> Row:
    each, ratio = ratios(product, beside), rate(product) / rate(beside)
    return Row(
        "W10",
        title,
        "jobs/s",
        rate(product),
        rate(beside),
        beside_what,
        ratio,
        (min(each), max(each)),
        f"≥ {goal:g} × that",
        ratio >= goal,
    )


def drain(
    count: int, slow: float = 0.0, at_once: int = AT_ONCE, batch: int = RANGE_LIMIT
) -> Figures:
    """The engine, until the last job is delivered and settled."""
    store = _seeded(count)
    engines.BATCHES_AT_ONCE, dispatcher.RANGE_LIMIT = at_once, batch
    return drained(store, _Slow(count, slow), count)


def raw_drain(count: int) -> Figures:
    """One claim at a time; settlements beside it, as many as the engine has batches in flight."""
    store = _seeded(count)
    held: dict[int, RangeClaim] = {}  # by shard: it is never let go
    flying: list[RangeClaim] = []
    claiming = threading.Lock()

    def work() -> None:
        while True:
            with claiming:
                claim = store.claim_range(
                    *(OUT, "raw", RANGE_LIMIT, store.clock.now()),
                    lease_seconds=60,
                    in_flight=[*held.values(), *flying],
                )
                if not claim.jobs:
                    return
                held[claim.shard] = claim._replace(jobs=())
                flying.append(claim)
            ids = [job.id for job in claim.jobs]
            store.settle_range(claim, ids, {}, store.clock.now(), left=1)
            flying.remove(claim)

    began = perf_counter()
    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"count": count, "seconds": perf_counter() - began}


class _Slow(CountingSink):
    def __init__(self, count: int, seconds: float) -> None:
        super().__init__(count)
        self._seconds = seconds

    def deliver(self, queue: str, batch: Any) -> Any:
        _wait(self._seconds)
        return super().deliver(queue, batch)


def _seeded(count: int) -> Store:
    from tests.stores.hostile import HostileStore  # only in a clone

    memory = MemoryStore(SystemClock(), shards=SHARDS)
    put_queue(memory, OUT)
    now = memory.clock.now()
    memory.insert([NewJob(f"{n:012}", QUEUE, now, b"{}", 0, now) for n in range(count)], now)
    return HostileStore(memory, latency=partial(_wait, LATENCY_SECONDS))


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
