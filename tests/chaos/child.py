"""A process that lives until it is killed: `asker` schedules jobs, `dispatcher` delivers them.

python -m tests.chaos.child asker|dispatcher FOLDER NUMBER
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from oncue.core import ids
from oncue.core.job import Delivery, NewJob
from oncue.engine.engine import Engine
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal, Sink
from oncue.stores.sqlite import SqliteStore
from tests.proof.history import Received
from tests.proof.logs import AskLog, ReceiverLog
from tests.proof.points import KillingSink, KillingStore
from tests.proof.receiver import ReceivingSink

QUEUE = "out"
CHUNK = 50
SPREAD_MS = 3_000  # how far ahead jobs are due


def ask(folder: Path, number: int) -> None:
    """Schedule `number` jobs; each is written down before it is asked for and after."""
    store = KillingStore(SqliteStore(folder / "jobs.db"))
    log = AskLog(folder / "asks.log")
    for _ in range(0, number, CHUNK):
        now = store.clock.now()
        dues = [now + random.randrange(SPREAD_MS) for _ in range(CHUNK)]
        jobs = [NewJob(ids.mint(now, due), QUEUE, due, b"{}", 0, now) for due in dues]
        for job in jobs:
            log.invoked(job.id, now, job.due_at)
        store.insert(jobs, now)
        for job in jobs:
            log.acknowledged(job.id)
    store.close()


def dispatch(folder: Path, name: str) -> None:
    """Run the engine until SIGTERM."""
    store = KillingStore(SqliteStore(folder / "jobs.db"))
    log = ReceiverLog(folder / "received.log")

    def open_sink(_: str) -> Sink:
        return KillingSink(Receiving(log, store.clock, name))

    engine = Engine(store, store.clock, open_sink)
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    engine.start()
    asked_to_stop.wait()
    engine.stop(30.0)
    store.close()


class Receiving(ReceivingSink):
    """Writes a batch down in one go: what is in the log was received."""

    def __init__(self, log: ReceiverLog, clock: Clock, name: str) -> None:
        self._gathered: list[Received] = []
        super().__init__(self._gathered.append, clock, name)
        self._log = log

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        refused = super().deliver(queue, batch)
        self._log.record(*self._gathered)
        self._gathered.clear()
        return refused


if __name__ == "__main__":
    role, where, what = sys.argv[1:]
    if role == "asker":
        ask(Path(where), int(what))
    else:
        dispatch(Path(where), what)
