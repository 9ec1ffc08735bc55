"""How late messages arrive that a tick has given to SQS ahead of time, with a delay."""

from __future__ import annotations

import random
import threading
from time import perf_counter
from typing import Any

from oncue.clock import SystemClock
from oncue.core import ids
from oncue.core.job import NewJob
from oncue.core.moment import Moment, parse
from oncue.core.queue import Queue
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress
from oncue.stores import open_store
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.rates import store_jobs
from oncue_bench.seeds import BODY, QUEUE

LOOK_SECONDS = 0.01
LAST_SECONDS = 10.0
"""How long the receiver waits for messages after the last due time."""

Figures = dict[str, Any]


class Receiver(threading.Thread):
    """Takes messages out of a queue, and notes when they came and when they were due."""

    def __init__(self, address: SqsAddress, count: int, until: Moment) -> None:
        super().__init__(daemon=True)
        self._client = address.connect()
        self._url = address.find_url(self._client)
        self._clock = SystemClock()
        self._count, self._until = count, until
        self.late_ms: dict[str, int] = {}

    def run(self) -> None:
        asked = {"QueueUrl": self._url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        while len(self.late_ms) < self._count and self._clock.now() < self._until:
            messages = self._client.receive_message(**asked).get("Messages", ())
            now = self._clock.now()
            for one in messages:
                told = one["MessageAttributes"]
                due_at = parse(told["oncue-due-at"]["StringValue"])
                self.late_ms.setdefault(told["oncue-job-id"]["StringValue"], now - due_at)
            if not messages:
                threading.Event().wait(LOOK_SECONDS)


def lateness(url: str, sink: str, count: int, seconds: float, tick_seconds: float) -> Figures:
    """Jobs that are due at random moments of so many seconds, with ticks that are so far apart."""
    address, clock, store = SqsAddress.read(sink), SystemClock(), open_store(url)
    put_queue(store, Queue(QUEUE, sink=sink, retention_seconds=0))
    first = clock.now() + round(2_000 * tick_seconds)
    chance = random.Random(13)
    dues = [first + chance.randrange(round(1000 * seconds)) for _ in range(count)]
    now = clock.now()
    jobs = (NewJob(ids.mint(now, due, QUEUE, 0), QUEUE, due, BODY, 0, now) for due in dues)
    store_jobs(store, jobs)
    receiver = Receiver(address, count, max(dues) + round(1000 * LAST_SECONDS))
    receiver.start()
    while receiver.is_alive():
        began = perf_counter()
        engine = Engine(
            Node.of(store, clock), lambda _: SqsSink(address, clock), tick_seconds=tick_seconds
        )
        engine.tick(lambda: False)
        receiver.join(max(0.0, tick_seconds - (perf_counter() - began)))
    store.close()
    return {"count": len(receiver.late_ms), "late_ms": list(receiver.late_ms.values())}
