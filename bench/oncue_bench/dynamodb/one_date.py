"""Many jobs that are due on one date, delivered by the product itself from partitions that take so
much and no more.

Time is virtual: it goes on by what requests take, and by the pauses after a throttle. Requests go
one after the other, each as long as if `THREADS` of them were under way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oncue.clock import FakeClock
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.engine.dispatcher import CLAIM_LIMIT
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import THREADS, Table
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.capacity import CapacityClient, Limits
from oncue_bench.dynamodb.rates import Figures, new_jobs, store_jobs
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from oncue_bench.machine import rss_kib

T = TypeVar("T")
R = TypeVar("R")

REQUEST_SECONDS = 0.005
LEASE_SECONDS = 60.0
COUNTED_AT_ONCE = 1_000
LIMITS = Limits(partitions=5_000)
"""So many that hardly two keys share one."""


class Slow(WrappedClient):
    """Every request takes a while."""

    def __init__(self, client: Any, clock: FakeClock) -> None:
        super().__init__(client)
        self._clock = clock

    def during(self, call: Call) -> Any:
        self._clock.advance(REQUEST_SECONDS / THREADS)
        return self.send(call)


class Waiting(threading.Event):
    """Whoever waits for it makes time go on."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(timeout or 0)
        return self.is_set()


class OneByOne(Table):
    """Asks one thing after the other, in virtual time."""

    def __init__(self, name: str, client: Any, clock: FakeClock) -> None:
        super().__init__(name, lambda: client)
        self._closing = Waiting(clock)

    def each(self, ask: Callable[[T], R], parts: Iterable[T]) -> list[R]:
        return [ask(part) for part in parts]


def seed(url: str, count: int, shards: int) -> Figures:
    """Jobs that are due at the beginning of virtual time."""
    store, queue = _quiet(TableAddress.read(url), FakeClock()), _queue(shards)
    put_queue(store, queue)
    now = store.clock.now()
    store_jobs(store, new_jobs(count, now, now, queue.name))
    store.close()
    return {"count": count}


def _queue(shards: int) -> Queue:
    return Queue("tasks", sink="bench:", shards=shards)


def _quiet(address: TableAddress, clock: FakeClock) -> DynamoStore:
    """A store that nothing throttles."""
    return DynamoStore(Table(address.table, address.connect), clock)


def _succeeded(table: Table, queue: str, shard: int) -> int:
    """How many jobs of a shard have been delivered. The emulator is slow with large pages."""
    look, last, count = keys.finished(queue, State.SUCCEEDED, shard), "", 0
    while page := list(table.look(look, last, limit=COUNTED_AT_ONCE)):
        count, last = count + len(page), page[-1]
    return count


def deliver(url: str, shards: int) -> Figures:
    """Deliver all jobs. `started`: how many the table says have been."""
    address, clock, queue = TableAddress.read(url), FakeClock(), _queue(shards)
    quiet = _quiet(address, clock)
    limited = CapacityClient(address.connect(), clock.monotonic, LIMITS)
    store = DynamoStore(OneByOne(address.table, Slow(limited, clock), clock), clock)
    store.queues()  # so that the client has connected, and knows its own service
    before, began, delivered = rss_kib(), clock.monotonic(), 0
    while jobs := _deliver_some(store, queue):
        delivered += jobs
    seconds = clock.monotonic() - began
    started = sum(_succeeded(quiet.table, queue.name, shard) for shard in range(shards))
    store.close()
    quiet.close()
    return {
        "count": delivered,
        "seconds": seconds,
        "started": started,
        "throttles": limited.throttles.total(),
        "peak_writes": limited.peak_writes,
        "before_kib": before,
    }


def _deliver_some(store: DynamoStore, queue: Queue) -> int:
    """How many were."""
    now = store.clock.now()
    claim = store.claim_range(queue, "bench", CLAIM_LIMIT, now, lease_seconds=LEASE_SECONDS)
    if claim.jobs:
        assert store.settle_range(claim, [job.id for job in claim.jobs], {}, store.clock.now())
    return len(claim.jobs)
