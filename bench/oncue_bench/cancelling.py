"""W8, the measured processes: a bulk cancel, bare and by the product, and what is delivered on time
meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import perf_counter
from time import time as wall  # noqa: TID251
from typing import Any

from oncue.clock import SystemClock
from oncue.core.job import Delivery
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.scheduler import Scheduler
from oncue.sinks.memory import MemorySink
from oncue_bench import raw
from oncue_bench.processes import measure
from oncue_bench.receiving import PATIENCE_SECONDS, schedule_elsewhere
from oncue_bench.seeds import QUEUE, set_queue

_RAW = """
UPDATE jobs SET state = 'cancelled', finished_at = :now, updated_at = :now, ahead = 0
WHERE state = 'scheduled' AND queue = :queue
"""

Figures = dict[str, Any]


def bare(path: str) -> Figures:
    """One statement, one commit: nobody else writes until it is done."""
    connection = raw.opened(path)
    own = {"now": SystemClock().now(), "queue": QUEUE}
    began = perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_RAW, own)
    count = connection.changes()
    connection.execute("COMMIT")
    return {"count": count, "seconds": perf_counter() - began}


def by_filter(path: str) -> Figures:
    """What is due within the next hours is left alone."""
    with Scheduler(f"sqlite:///{path}") as cue:
        return _cancel(cue)


def _cancel(cue: Scheduler) -> Figures:
    later = datetime.now(UTC) + timedelta(hours=12)  # noqa: TID251
    began, at = perf_counter(), wall()
    count = cue.cancel_all(queue=QUEUE, due_after=later).changed
    return {"count": count, "seconds": perf_counter() - began, "began": at, "ended": wall()}


class _LatenessSink(MemorySink):
    """Notes when jobs came and how late they were."""

    def __init__(self, expected: int) -> None:
        super().__init__(counting=True)
        self.arrivals: list[tuple[float, float]] = []
        self.complete = threading.Event()
        self._expected = expected

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Any:
        now = wall()
        self.arrivals += [(now, now * 1000 - job.due_at) for job in batch]
        if len(self.arrivals) >= self._expected:
            self.complete.set()
        return super().deliver(queue, batch)


def meanwhile(
    path: str, elsewhere: bool, count: int, over_seconds: float, lead_seconds: float
) -> Figures:
    """Deliver `count` jobs at distinct moments while the others are cancelled, in this process or
    `elsewhere`. The lateness of those that arrived before that was done."""
    with Scheduler(f"sqlite:///{path}") as cue:
        set_queue(cue, sink=True, keep=True)
        sink = _LatenessSink(count)
        engine = Engine(Node.of(cue.store, cue.clock), lambda url: sink)
        engine.start()
        schedule_elsewhere(path, count, over_seconds, lead_seconds)

        def cancel() -> Figures:
            return measure("cancelling.by_filter", path=path).figures if elsewhere else _cancel(cue)

        figures = _beside(cancel, sink, lead_seconds + over_seconds)
        engine.stop(30)
    within = [late for at, late in sink.arrivals if figures["began"] <= at <= figures["ended"]]
    return {"lateness_ms": within or [late for _, late in sink.arrivals], **figures}


def _beside(work: Callable[[], Figures], sink: _LatenessSink, seconds: float) -> Figures:
    """Do the work in a thread until it is done and everything has been delivered."""
    found: list[Figures] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    if not sink.complete.wait(seconds + PATIENCE_SECONDS):
        raise TimeoutError(f"only {len(sink.arrivals)} arrived")
    thread.join()
    return found[0]
