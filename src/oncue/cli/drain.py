"""How fast this machine hands over jobs, measured in about a second on a file beside the store."""

from __future__ import annotations

import tempfile
from pathlib import Path

JOBS = 40_000
QUEUE = "rate"
PAYLOAD = {"n": 1, "text": "x" * 180}


def measured_rate(beside: Path | None) -> float:
    """Jobs per second from due to delivered and settled, with their history kept, into a sink that
    takes everything. `beside`: measure in that folder, so on that disk; None: in memory."""
    if beside is None:
        return _burst("memory:")
    try:
        folder = tempfile.TemporaryDirectory(prefix=".oncue-rate-", dir=beside)
    except OSError:  # not ours to write in: any other disk tells more than nothing
        folder = tempfile.TemporaryDirectory(prefix="oncue-rate-")
    with folder as name:
        return _burst(f"sqlite:///{Path(name).absolute()}/rate.db")


def _burst(store: str) -> float:
    from oncue.engine.engine import Engine
    from oncue.engine.node import Node
    from oncue.scheduler import Scheduler
    from oncue.sinks.memory import MemorySink

    sink = MemorySink(counting=True)
    with Scheduler(store) as cue:
        cue.set_queue(QUEUE, sink="log:")
        cue.schedule_many({"payload": PAYLOAD, "queue": QUEUE} for _ in range(JOBS))
        engine = Engine(Node.of(cue.store, cue.clock), lambda url: sink)
        began = cue.clock.monotonic()
        while sink.counts[QUEUE] < JOBS:
            engine.step_all()
        rate = JOBS / (cue.clock.monotonic() - began)
        engine.stop(0)
    return rate
