"""How fast DynamoDB takes and gives jobs: by the product, and by a plain client that sends the same
batches from as many threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

from oncue.clock import SystemClock
from oncue.core import ids
from oncue.core.job import NewJob
from oncue.core.queue import Queue
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores import open_store
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.known import DEFAULT_SHARDS
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import THREADS, WRITE_AT_ONCE, Table
from oncue.stores.dynamodb.trouble import may_pass
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from oncue_bench.machine import rss_kib
from oncue_bench.product import CountingSink, drained
from oncue_bench.seeds import BODY, CHUNK, HOUR_MS, PAYLOAD, QUEUE

OUT = Queue(QUEUE, sink="bench:", retention_seconds=0)
HOUR = 3600
PAUSE_SECONDS = 0.05
LEAST_PER_SECOND = 200
"""A drain that is slower than this is given up."""

Figures = dict[str, Any]
Requests = list[dict[str, Any]]


def insert(url: str, count: int) -> Figures:
    """`schedule_many` of jobs that are due in an hour."""
    with Scheduler(url) as cue:
        cue.schedule(PAYLOAD, queue=QUEUE, delay=HOUR)  # so that the queue is there
        items = ({"payload": PAYLOAD, "queue": QUEUE, "delay": HOUR} for _ in range(count))
        began = perf_counter()
        cue.schedule_many(items)
        return {"count": count, "seconds": perf_counter() - began}


def raw_insert(url: str, count: int) -> Figures:
    """The very requests of the product, by a client like its own."""
    address = TableAddress.read(url)
    recorder = Recorder(address.connect())
    store = DynamoStore(Table(address.table, lambda: recorder), SystemClock())
    put_queue(store, Queue(QUEUE))
    now = store.clock.now()
    store_jobs(store, new_jobs(count, now, now + HOUR_MS))
    store.close()
    client = address.connect()
    with ThreadPoolExecutor(THREADS) as pool:
        began = perf_counter()
        list(pool.map(partial(_write, client, address.table), recorder.batches))
        return {"count": count, "seconds": perf_counter() - began}


class Recorder(WrappedClient):
    """Keeps batches of writes instead of sending them."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.batches: list[Requests] = []

    def during(self, call: Call) -> Any:
        if call.method != "batch_write_item":
            return self.send(call)
        self.batches += call.kwargs["RequestItems"].values()
        return {"UnprocessedItems": {}}


def seed(url: str, count: int) -> Figures:
    """Jobs that are due, for a sink; nothing is kept of them."""
    store = open_store(url)
    put_queue(store, OUT)
    now = store.clock.now()
    store_jobs(store, new_jobs(count, now, now - 1))
    store.close()
    return {"count": count}


def drain(url: str, count: int) -> Figures:
    """The engine, until the last job is delivered and settled."""
    store = open_store(url)
    store.queues()  # so that the client has connected, and knows its own service
    before = rss_kib()
    figures = drained(store, CountingSink(count), count, max(300, count / LEAST_PER_SECOND))
    store.close()
    return {**figures, "before_kib": before}


def raw_drain(url: str, count: int) -> Figures:
    """Read a page of each shard, remove what was read, go on."""
    address = TableAddress.read(url)
    client = address.connect()
    done = 0

    def clear(shard: int) -> int:
        return sum(_cleared(client, address.table, shard, removing))

    began = perf_counter()
    with ThreadPoolExecutor(THREADS) as removing, ThreadPoolExecutor(DEFAULT_SHARDS) as reading:
        done = sum(reading.map(clear, range(DEFAULT_SHARDS)))
    seconds = perf_counter() - began
    if done != count:
        raise AssertionError(f"{done} jobs were removed, not {count}")
    return {"count": done, "seconds": seconds}


def _cleared(client: Any, table: str, shard: int, pool: ThreadPoolExecutor) -> Iterator[int]:
    """How many were removed, page by page."""
    while True:
        answer = client.query(
            TableName=table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": keys.line(QUEUE, shard)}},
            Limit=CHUNK,
            ConsistentRead=True,
        )
        found = [{"pk": item["pk"], "sk": item["sk"]} for item in answer["Items"]]
        requests = [{"DeleteRequest": {"Key": key}} for key in found]
        list(pool.map(partial(_write, client, table), _parts(requests, WRITE_AT_ONCE)))
        yield len(found)
        if "LastEvaluatedKey" not in answer:
            return


def new_jobs(count: int, now: int, due_at: int, queue: str = QUEUE) -> Iterator[NewJob]:
    """A minted id says when its job is due, but cannot say that it was before it was created."""
    created_at = min(now, due_at)
    for _ in range(count):
        new_id = ids.mint(created_at, due_at, queue, 0)
        yield NewJob(new_id, queue, due_at, BODY, 0, created_at)


def store_jobs(store: Store, jobs: Iterator[NewJob]) -> None:
    for part in _parts(list(jobs), CHUNK):
        store.insert(part, store.clock.now())


def _write(client: Any, table: str, requests: Sequence[Any]) -> None:
    """Send a batch until all of it is taken: the service throttles a new table."""
    while requests:
        try:
            answer = client.batch_write_item(RequestItems={table: requests})
        except client.exceptions.ClientError as error:
            if not may_pass(error):
                raise
            threading.Event().wait(PAUSE_SECONDS)
            continue
        requests = answer.get("UnprocessedItems", {}).get(table, [])


def _parts(every: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(every), size):
        yield every[start : start + size]
