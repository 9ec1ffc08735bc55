"""The same work as in `raw`, done by the product as its users would have it done."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from oncue.aio import AsyncScheduler
from oncue.cli.collection import spare_collector
from oncue.core.job import Delivery
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue.worker.job import HandledJob
from oncue_bench import raw
from oncue_bench.seeds import PAYLOAD, QUEUE, set_queue

HOUR = 3600
DAY = 24 * HOUR

Figures = dict[str, Any]


def store_url(path: str) -> str:
    """Of a file of SQLite, or of another store that is given by its own."""
    return path if "://" in path else f"sqlite:///{path}"


def one_by_one(path: str, count: int, rounds: int) -> Figures:
    """In one process with `raw`, taking turns that are short: the time a disk takes for a commit
    changes from second to second by more than what is measured here."""
    bare = raw.opened(f"{path}-raw.db")
    mine, its = [], []
    with Scheduler(store_url(path)) as cue:
        for _ in range(rounds + 1):
            its.append(raw.one_by_one(bare, count))
            began = perf_counter()
            for _ in range(count):
                cue.schedule(PAYLOAD, queue=QUEUE, delay=HOUR)
            mine.append(perf_counter() - began)
    bare.close()
    return {"count": count, "seconds": mine[1:], "raw_seconds": its[1:]}  # the first warms up


def concurrently(path: str, count: int, callers: int) -> Figures:
    """So many asynchronous callers, each waiting for its own job to be durable."""
    with Scheduler(store_url(path)) as cue:
        seconds = asyncio.run(_crowd(AsyncScheduler(cue), count // callers, callers))
    return {"count": count // callers * callers, "seconds": seconds}


async def _crowd(acue: AsyncScheduler, each: int, callers: int) -> float:
    async def caller() -> None:
        for _ in range(each):
            await acue.schedule(PAYLOAD, queue=QUEUE, delay=HOUR)

    await acue.schedule(PAYLOAD, queue=QUEUE, delay=HOUR)
    began = perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return perf_counter() - began


def in_bulk(path: str, count: int, spread: bool = False) -> Figures:
    with Scheduler(store_url(path)) as cue:
        items = _spread_items(count) if spread else _items(count)
        began = perf_counter()
        cue.schedule_many(items)
        return {"count": count, "seconds": perf_counter() - began}


def _items(count: int) -> Iterator[dict[str, Any]]:
    return ({"payload": PAYLOAD, "queue": QUEUE, "delay": HOUR} for _ in range(count))


def _spread_items(count: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(7)
    delays = [HOUR + chance.randrange(DAY) for _ in range(count)]
    return ({"payload": PAYLOAD, "queue": QUEUE, "delay": delay} for delay in delays)


class CountingSink(MemorySink):
    """Says when it has had `expected` jobs."""

    def __init__(self, expected: int) -> None:
        super().__init__(counting=True)
        self.full = threading.Event()
        self._expected = expected

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Any:
        answer = super().deliver(queue, batch)
        if self.counts[queue] >= self._expected:
            self.full.set()
        return answer


def to_sink(path: str, count: int, keep: bool) -> Figures:
    """Until the last of the due jobs is delivered and settled."""
    with Scheduler(store_url(path)) as cue:
        set_queue(cue, sink=True, keep=keep)
        return drained(cue.store, CountingSink(count), count)


def drained(store: Store, sink: CountingSink, count: int, most_seconds: float = 300) -> Figures:
    """What an engine needs until that many due jobs are delivered and settled."""
    engine = Engine(Node.of(store, store.clock), lambda url: sink)
    began = perf_counter()
    engine.start()
    if not sink.full.wait(most_seconds):
        raise TimeoutError(f"{sink.counts[QUEUE]} of {count} after {most_seconds:g} s")
    engine.stop(30)
    return {"count": sink.counts[QUEUE], "seconds": perf_counter() - began}


def to_handler(path: str, count: int, keep: bool, batch: int | None = None) -> Figures:
    """Until the worker finds nothing left to do."""
    done = 0
    with Scheduler(store_url(path)) as cue:
        set_queue(cue, sink=False, keep=keep)
        if batch is None:

            @cue.handler(QUEUE)
            def one(job: HandledJob) -> None:
                nonlocal done
                done += 1
        else:

            @cue.handler(QUEUE, batch=batch)
            def many(jobs: list[HandledJob]) -> None:
                nonlocal done
                done += len(jobs)

        spare_collector()  # as `oncue worker` does
        began = perf_counter()
        cue.work(until_empty=True)
        seconds = perf_counter() - began
    if done != count:
        raise AssertionError(f"{done} jobs were handled, not {count}")
    return {"count": done, "seconds": seconds}
