"""How many messages go to SQS in a second: by the sink, and by a plain loop that sends the very
same calls from as many threads; and how many the sink could send if SQS took no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter, process_time
from typing import Any

from oncue.clock import SystemClock
from oncue.core import ids
from oncue.core.job import Delivery
from oncue.core.queue import Queue
from oncue.engine.dispatcher import CLAIM_LIMIT
from oncue.engine.engine import BATCHES_AT_ONCE, Engine
from oncue.engine.node import Node
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import CALLS_AT_ONCE, SqsAddress
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.rates import new_jobs, store_jobs
from oncue_bench.machine import rss_kib
from oncue_bench.seeds import BODY, QUEUE

TOKEN = "t" * 60
"""As long as that of a job whose worker must report back."""
TICK_SECONDS = 60.0

Figures = dict[str, Any]
Entries = Sequence[dict[str, Any]]


class InstantClient:
    """Takes every message at once, and keeps the calls if it is told to."""

    def __init__(self, *, keeping: bool = False) -> None:
        self._keeping = keeping
        self._lock = threading.Lock()
        self.calls: list[Entries] = []
        self.messages = 0

    def get_queue_url(self, *, QueueName: str) -> dict[str, str]:
        return {"QueueUrl": f"https://sqs/{QueueName}"}

    def send_message_batch(self, *, QueueUrl: str, Entries: Entries) -> dict[str, Any]:
        with self._lock:
            self.messages += len(Entries)
            if self._keeping:
                self.calls.append(Entries)
        return {"Successful": [{"Id": one["Id"]} for one in Entries]}


def compare(sink: str, count: int, rounds: int) -> Figures:
    """Sink and plain loop take turns in one process, and each its own client."""
    address, clock = SqsAddress.read(sink), SystemClock()
    batches = _batches(count, clock.now())
    recorder = InstantClient(keeping=True)
    _deliver(SqsSink(address, clock, recorder), batches)
    client = address.connect()
    url = address.find_url(client)
    product = SqsSink(address, clock)
    found: dict[str, list[tuple[float, float]]] = {"mine": [], "its": []}
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        works = {
            "mine": partial(_deliver, product, batches),
            "its": partial(_send, client, url, recorder.calls, pool),
        }
        for turn in range(rounds + 1):
            for name in works if turn % 2 else reversed(works):
                found[name].append(_timed(works[name]))
    product.close()
    mine, its = (found[name][1:] for name in ("mine", "its"))  # the first connects
    return {
        "count": count,
        "seconds": [seconds for seconds, _ in mine],
        "cpu": [cpu for _, cpu in mine],
        "raw_seconds": [seconds for seconds, _ in its],
        "raw_cpu": [cpu for _, cpu in its],
    }


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of processors."""
    began, used = perf_counter(), process_time()
    work()
    return perf_counter() - began, process_time() - used


def _batches(count: int, now: int) -> list[list[Delivery]]:
    jobs = [
        Delivery(ids.mint(now, now, QUEUE, 0), now, BODY, 1, TOKEN, QUEUE) for _ in range(count)
    ]
    return [jobs[at : at + CLAIM_LIMIT] for at in range(0, count, CLAIM_LIMIT)]


def _deliver(sink: SqsSink, batches: Sequence[Sequence[Delivery]]) -> None:
    """As many batches at a time as a dispatcher gives it."""
    with ThreadPoolExecutor(BATCHES_AT_ONCE) as flights:
        for refused in flights.map(partial(sink.deliver, QUEUE), batches):
            if refused:
                raise AssertionError(f"{len(refused)} messages were refused")


def _send(client: Any, url: str, calls: Sequence[Entries], pool: ThreadPoolExecutor) -> None:
    def send(entries: Entries) -> None:
        if client.send_message_batch(QueueUrl=url, Entries=entries).get("Failed"):
            raise AssertionError("messages were refused")

    list(pool.map(send, calls))


def own_limit(count: int) -> Figures:
    """A tick of the engine from a store in memory to an SQS that takes no time: what is left is the
    work of the product itself, without boto3."""
    clock, client = SystemClock(), InstantClient()
    store = MemoryStore(clock)
    put_queue(store, Queue(QUEUE, sink="bench:", retention_seconds=0))
    now = clock.now()
    store_jobs(store, new_jobs(count, now, now - 1))
    engine = Engine(
        Node.of(store, clock),
        lambda url: SqsSink(SqsAddress("bench"), clock, client),
        tick_seconds=TICK_SECONDS,
    )
    before, began = rss_kib(), perf_counter()
    engine.tick(lambda: False)
    seconds = perf_counter() - began
    if client.messages != count:
        raise AssertionError(f"{client.messages} messages, not {count}")
    return {"count": count, "seconds": seconds, "before_kib": before}
