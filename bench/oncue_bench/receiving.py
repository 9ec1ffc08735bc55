"""W3, the receiving process: how late jobs arrive that another process scheduled, and what waiting
for them costs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter, process_time
from time import time as wall  # noqa: TID251
from typing import Any

from oncue.core.job import Delivery
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue.worker.job import HandledJob
from oncue.worker.worker import Worker
from oncue_bench.processes import environment
from oncue_bench.product import store_url
from oncue_bench.seeds import PAYLOAD, QUEUE, set_queue

SETTLING_IN_SECONDS = 1.0
PATIENCE_SECONDS = 30.0

Figures = dict[str, Any]


class _Arrivals:
    """The lateness of what has arrived, in milliseconds."""

    def __init__(self, expected: int) -> None:
        self.lateness_ms: list[float] = []
        self.complete = threading.Event()
        self._expected = expected

    def add(self, dues: Sequence[int]) -> None:
        now = wall() * 1000
        self.lateness_ms += [now - due for due in dues]
        if len(self.lateness_ms) >= self._expected:
            self.complete.set()


class _TimingSink(MemorySink):
    def __init__(self, arrivals: _Arrivals) -> None:
        super().__init__(counting=True)
        self._arrivals = arrivals

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Any:
        self._arrivals.add([job.due_at for job in batch])
        return super().deliver(queue, batch)


def on_time(
    path: str,
    by: str,
    count: int,
    over_seconds: float,
    lead_seconds: float,
    idle_seconds: float,
) -> Figures:
    """Wait idly with the loops running, then receive `by` a sink or a handler what another process
    schedules, `count` jobs at distinct moments."""
    arrivals = _Arrivals(count)
    receiving = _sink if by == "sink" else _handler
    never = threading.Event()
    with Scheduler(store_url(path)) as cue, receiving(cue, arrivals):
        never.wait(min(SETTLING_IN_SECONDS, idle_seconds))
        busy, began = process_time(), perf_counter()
        never.wait(idle_seconds)
        idle_cpu = (process_time() - busy) / (perf_counter() - began)
        schedule_elsewhere(path, count, over_seconds, lead_seconds)
        if not arrivals.complete.wait(lead_seconds + over_seconds + PATIENCE_SECONDS):
            raise TimeoutError(f"{len(arrivals.lateness_ms)} of {count} arrived")
    return {"lateness_ms": arrivals.lateness_ms, "idle_cpu_percent": 100 * idle_cpu}


@contextmanager
def _sink(cue: Scheduler, arrivals: _Arrivals) -> Iterator[None]:
    set_queue(cue, sink=True, keep=True)
    sink = _TimingSink(arrivals)
    engine = Engine(Node.of(cue.store, cue.clock), lambda url: sink)
    engine.start()
    yield
    engine.stop(30)


@contextmanager
def _handler(cue: Scheduler, arrivals: _Arrivals) -> Iterator[None]:
    set_queue(cue, sink=False, keep=True)

    @cue.handler(QUEUE)
    def receive(job: HandledJob) -> None:
        arrivals.add([job.claim.due_at])

    worker = Worker(cue)
    thread = threading.Thread(target=worker.run)
    cue.run_loops()
    thread.start()
    yield
    worker.stop()
    thread.join()


def schedule_elsewhere(path: str, count: int, over_seconds: float, lead_seconds: float) -> None:
    """`schedule_ahead` in a process of its own, to its end."""
    own = {"path": path, "count": count, "over_seconds": over_seconds, "lead_seconds": lead_seconds}
    arguments = ["receiving.schedule_ahead", json.dumps(own)]
    subprocess.run(
        [sys.executable, "-m", "oncue_bench.child", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment(),
    )


def schedule_ahead(path: str, count: int, over_seconds: float, lead_seconds: float) -> Figures:
    """In the other process: all at once, the first of them `lead_seconds` ahead."""
    with Scheduler(store_url(path)) as cue:
        start = datetime.now(UTC) + timedelta(seconds=lead_seconds)  # noqa: TID251
        apart = timedelta(seconds=over_seconds / count)
        cue.schedule_many(
            {"payload": PAYLOAD, "queue": QUEUE, "at": start + position * apart}
            for position in range(count)
        )
    return {"count": count}
