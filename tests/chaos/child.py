"""A process that lives until it is killed: python -m tests.chaos.child ROLE FOLDER URL NAME
[NUMBER].

FOLDER holds the logs, URL names the store. NUMBER is how many were born before it; for an asker,
how many jobs it asks for.

asker       schedules jobs and ends
sender      the same, with jobs for a sink only
dispatcher  runs the engine: delivers to sinks, reclaims, prunes
reclaimer   reclaims only; the one process that is never killed
worker      pulls jobs with several threads, one by one and in batches
remote      works on what a sink was given for it, and reports with the token

Each writes down what it does, on disk, where its death cannot reach it.
"""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from oncue.core import ids
from oncue.core.errors import Fenced, NotFound, StoreUnavailable
from oncue.core.job import Delivery, NewJob
from oncue.core.queue import Queue
from oncue.engine.alarm import SIGNAL_SECONDS
from oncue.engine.engine import Engine
from oncue.engine.loop import Loop
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.sink import Refusal, Sink
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.stores import open_store
from oncue.stores.sqlite import worker_ranges
from oncue.worker.job import HandledJob
from oncue.worker.worker import Worker
from tests.proof.entries import Received
from tests.proof.history import Ask, Said
from tests.proof.logs import AskLog, Log, RunLog
from tests.proof.points import KillingSink, KillingStore
from tests.proof.witness import Witness

# How long leases and timeouts are, the run says.
OUT = Queue("out", sink="log:", retention_seconds=0)
WORK = Queue("work", max_attempts=20)
HANDED = Queue(
    "handed", sink="log:handed", completion="worker", timeout_seconds=60.0, max_attempts=20
)
TOGETHER = Queue("together", max_attempts=20)
QUEUES = (OUT, WORK, HANDED, TOGETHER)
SHARES = (28, 11, 3, 8)  # of a chunk
CHUNK = sum(SHARES)
SPREAD_MS = 3_000  # how far ahead jobs are due
THREADS = 3
SLOW_SECONDS = 0.5  # one job in fifty takes so long that heartbeats speak for it
POLL_SECONDS = 0.02
BATCH, LEAST = 20, 3  # jobs that a batch handler takes, and that are claimed by one record
AT_A_TIME = 50  # jobs that the remote worker does before it looks into its mailbox again
FIRST_BORN = 8  # at the beginning of a run


class Child:
    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.name = name
        self.log = RunLog(folder / "run.log")
        self.asks = AskLog(folder / "asks.log")
        self.mailbox = Log(folder / "mailbox.log")
        witness = Witness(open_store(url), self.log.record, name)
        self.store: Store = KillingStore(witness)
        (folder / name).touch()  # from here on its death proves something

    def ask(self, number: int, shares: Sequence[int] = SHARES) -> None:
        """Each job is written down before it is asked for and after."""
        for _ in range(0, number, CHUNK):
            now = self.store.clock.now()
            jobs = [
                NewJob(ids.mint(now, due, queue.name, 0), queue.name, due, b"{}", 0, now)
                for queue, share in zip(QUEUES, shares, strict=True)
                for due in (now + random.randrange(SPREAD_MS) for _ in range(share))
            ]
            self.asks.record(*(Ask(Said.INVOKED, job.id, now, job.due_at) for job in jobs))
            with suppress(StoreUnavailable):  # then it is not known what became of them
                self.store.insert(jobs, now)
                self.asks.record(*(Ask(Said.ACKNOWLEDGED, job.id) for job in jobs))

    def dispatch(self) -> None:
        engine = Engine(Node.of(self.store, self.store.clock), self._open_sink)
        engine.start()
        _wait_for_sigterm()
        engine.stop(30.0)

    def reclaim(self) -> None:
        reclaimer = Reclaimer(Node.of(self.store, self.store.clock))
        loop = Loop("reclaimer", reclaimer.step, self.store.clock, reclaimer.overslept)
        loop.start()
        _wait_for_sigterm()
        loop.stop(30.0)

    def work(self) -> None:
        cue = Scheduler(self.store)

        @cue.handler(WORK.name)
        def handle(job: HandledJob) -> None:
            handle_all([job])

        @cue.handler(TOGETHER.name, batch=BATCH)
        def handle_all(jobs: list[HandledJob]) -> None:
            for job in jobs:
                self._receive(job.id, job.attempt)
            if any(crc32(job.id.encode()) % 50 == 0 for job in jobs):
                threading.Event().wait(SLOW_SECONDS)

        worker_ranges.LEAST = LEAST
        Worker(cue, concurrency=THREADS, name=self.name).run()

    def serve_mailbox(self, *, first: bool) -> None:
        """From now on, unless it is the first: what was given to one that has died is given again
        when it times out."""
        cue = Scheduler(self.store)
        done = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: done.set())
        _, end = self.mailbox.since(0)
        seen = 0 if first else end
        given: dict[str, tuple[str, int]] = {}
        while not done.wait(0 if given else POLL_SECONDS):
            rows, seen = self.mailbox.since(seen)
            for job_id, token, attempt in rows:  # what was given again replaces the old token
                given.pop(str(job_id), None)
                given[str(job_id)] = str(token), int(str(attempt))
            for _ in range(min(AT_A_TIME, len(given))):
                job_id, (token, attempt) = given.popitem()  # the last one: it is still good
                with suppress(Fenced, NotFound, StoreUnavailable):
                    cue.start(job_id, token)
                    self._receive(job_id, attempt)
                    cue.complete(job_id, token)

    def _receive(self, job_id: str, attempt: int) -> None:
        self.log.record(Received(job_id, attempt, self.store.clock.now(), self.name))

    def _open_sink(self, url: str) -> Sink:
        return KillingSink(Mailing(self) if url == HANDED.sink else Receiving(self))


class Receiving:
    """Writes a batch down in one go: what is in the log was received."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        at, name = self._child.store.clock.now(), self._child.name
        self._child.log.record(*(Received(job.id, job.attempt, at, name) for job in batch))
        return {}

    def close(self) -> None:
        pass


class Mailing(Receiving):
    """Puts jobs into the mailbox of the remote worker, who receives them."""

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._child.mailbox.append(*((job.id, job.token, job.attempt) for job in batch))
        return {}


def _wait_for_sigterm() -> None:
    """Looks again and again: a signal that comes with SIGCONT may reach another thread, and then it
    does not wake this one."""
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    while not asked_to_stop.wait(SIGNAL_SECONDS):
        continue


def main(role: str, folder: str, url: str, name: str, number: str = "0") -> None:
    logging.getLogger("oncue").setLevel(logging.ERROR)  # a line for each lost claim is too much
    child = Child(Path(folder), url, name)
    roles: dict[str, Callable[[], None]] = {
        "asker": lambda: child.ask(int(number)),
        "sender": lambda: child.ask(int(number), (CHUNK, 0, 0, 0)),
        "dispatcher": child.dispatch,
        "reclaimer": child.reclaim,
        "worker": child.work,
        "remote": lambda: child.serve_mailbox(first=int(number) < FIRST_BORN),
    }
    roles[role]()
    child.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
