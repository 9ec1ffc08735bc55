"""Those who use the engine from outside: somebody who asks for jobs, a worker who pulls them, and a
remote worker whom a sink reaches. Each takes one step at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

from oncue.core.errors import StoreUnavailable
from oncue.core.job import Claimed, Delivery, NewJob
from oncue.core.lifecycle import Verb
from oncue.core.queue import Queue
from oncue.core.token import epoch_of
from oncue.ports.claims import Settlement, Touch
from oncue.ports.sink import Refusal, Sink
from oncue.ports.store import Store
from tests.proof.history import History, Received, StaleWrite
from tests.proof.receiver import ReceivingSink

LEASE_SECONDS = 10.0


class Asker:
    """Asks for the jobs `waiting` batch by batch, then cancels some, if it `cancels`. `forgiving`:
    a cancelled job may have been delivered before (see `History.cancelled`)."""

    def __init__(
        self,
        store: Store,
        history: History,
        waiting: list[list[NewJob]],
        random: Random,
        *,
        cancels: bool,
        forgiving: bool,
    ) -> None:
        self.waiting = waiting
        self._cancels = cancels
        self._forgiving = forgiving
        self._store = store
        self._history = history
        self._random = random

    def step(self) -> None:
        """What got no answer is asked for once more, or looked up."""
        if self.waiting:
            batch = self.waiting.pop()
            with suppress(StoreUnavailable):
                self._insert(batch)
                return
            if self._random.random() < 0.5:
                self._insert(batch)
            else:
                self._look_up(batch)
        elif self._cancels and self._random.random() < 0.2:
            self._cancel(self._random.choice(sorted(self._history.jobs)))

    def _insert(self, batch: Sequence[NewJob]) -> None:
        now = self._store.clock.now()
        for job in batch:
            self._history.invoked(job.id, now, job.due_at)
        clashes = self._store.insert(batch, now)
        assert {clash.kind for clash in clashes.values()} <= {"existing"}
        for job in batch:
            self._history.acknowledged(job.id)

    def _look_up(self, batch: Sequence[NewJob]) -> None:
        for job in batch:
            if self._store.get(job.id) is not None:
                self._history.acknowledged(job.id)

    def _cancel(self, job_id: str) -> None:
        try:
            (change,) = self._store.cancel([job_id], self._store.clock.now())
        except StoreUnavailable:
            self._history.cancel_unknown(job_id)
            raise
        if change.job is not None and change.refused is None:
            at = self._store.clock.now() if self._forgiving else None
            self._history.cancelled(job_id, at)


class Puller:
    """A worker that claims a few jobs, gives a sign of life now and then, and completes them."""

    def __init__(
        self,
        store: Store,
        truth: Store,
        queue: Queue,
        log: list[Received | StaleWrite],
        random: Random,
    ) -> None:
        self._store = store
        self._truth = truth
        self._queue = queue
        self._log = log
        self._random = random

    def step(self) -> None:
        """Work on nothing after two thirds of its lease without a word: it may be another's."""
        clock = self._store.clock
        stop_at = clock.monotonic() + LEASE_SECONDS * 2 / 3
        now = clock.now()
        claims = self._store.claim([self._queue], "puller", 4, now, reclaimed_limit=1)
        for claim in claims:
            with suppress(StoreUnavailable):
                if clock.monotonic() < stop_at:
                    self._log.append(Received(claim.id, claim.attempt, clock.now(), "puller"))
                    self._work(claim)
                else:
                    release = Settlement(claim.id, claim.epoch, Verb.RELEASE)
                    self._store.settle([release], clock.now())

    def _work(self, claim: Claimed) -> None:
        if self._random.random() < 0.3:
            touch = Touch(claim.id, claim.epoch, LEASE_SECONDS)
            self._store.touch([touch], self._store.clock.now())
        complete(self._store, self._truth, claim.id, claim.epoch, self._log)


class Remote:
    """Everything behind the sinks: what they are given is written down, and what carries a token is
    completed some time later."""

    def __init__(self, store: Store, truth: Store, log: list[Received | StaleWrite]) -> None:
        self._store = store
        self._truth = truth
        self._log = log
        self._inbox: list[Delivery] = []

    def sink(self, queue: Queue) -> Sink:
        receiver = ReceivingSink(self._log.append, self._store.clock, queue.name)
        return _Mailing(receiver, self._inbox)

    def step(self) -> None:
        if self._inbox:
            job = self._inbox.pop(0)
            epoch = epoch_of(self._store.secret, job.id, job.token or "")
            complete(self._store, self._truth, job.id, epoch, self._log)


class _Mailing:
    def __init__(self, receiver: ReceivingSink, inbox: list[Delivery]) -> None:
        self._receiver = receiver
        self._inbox = inbox

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._inbox.extend(job for job in batch if job.token is not None)
        return self._receiver.deliver(queue, batch)

    def close(self) -> None:
        self._receiver.close()


def complete(
    store: Store, truth: Store, job_id: str, epoch: int, log: list[Received | StaleWrite]
) -> None:
    """Say that a job is done; write it down if that was accepted with an epoch of the past."""
    now = store.clock.now()
    refused = store.settle([Settlement(job_id, epoch, Verb.COMPLETE)], now)
    job = truth.get(job_id)
    if not refused and job is not None and job.epoch != epoch:
        log.append(StaleWrite(job_id, epoch, job.epoch, "complete", now))
