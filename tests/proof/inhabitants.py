"""Those who use the engine from outside: somebody who asks for jobs, workers who pull them, and
workers whom a sink reaches. Each takes one step at a time.

With `rough`, workers also fail, release and forget jobs, and the sink refuses some, for good or for
now. `waits` False: not so that a job has to wait for the clock, which may be turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from random import Random

from oncue.core.errors import Fenced, NotFound, StoreUnavailable
from oncue.core.job import Claimed, Delivery, NewJob
from oncue.core.queue import Queue
from oncue.ports.sink import Refusal, Sink
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from tests.contract.changing import CANCEL, STOP
from tests.contract.desk import insert
from tests.proof.entries import Declined, Entry, Received
from tests.proof.history import History
from tests.proof.receiver import ReceivingSink

LEASE_SECONDS = 10.0
TOO_LATE = (Fenced, NotFound)
"""The answers to a write whose claim is over. The witness has written them down."""

Report = Callable[[Scheduler, str, str], object]


def a_cue(store: Store) -> Scheduler:
    """The scheduler that a worker holds, without chance in its back-off."""
    cue = Scheduler(store)
    cue.spread = lambda: 0.5
    return cue


class Asker:
    """Asks for the jobs `waiting` batch by batch, then cancels some, if it `cancels`. If it
    `repeats`, it asks again for some of which it got no answer. `forgiving`: a cancelled job may
    have been delivered before (see `History.cancelled`)."""

    def __init__(
        self,
        store: Store,
        history: History,
        waiting: list[list[NewJob]],
        random: Random,
        *,
        cancels: bool,
        repeats: bool,
        forgiving: bool,
    ) -> None:
        self.waiting = waiting
        self._repeats = repeats
        self._cancels = cancels
        self._forgiving = forgiving
        self._store = store
        self._history = history
        self._random = random

    def step(self) -> None:
        """What got no answer is looked up, or asked for once more."""
        if self.waiting:
            batch = self.waiting.pop()
            with suppress(StoreUnavailable):
                self._insert(batch)
                return
            if self._repeats and self._random.random() < 0.5:
                self._insert(batch)
            else:
                self._look_up(batch)
        elif self._cancels and self._random.random() < 0.2:
            self._cancel(self._random.choice(sorted(self._history.jobs)))

    def _insert(self, batch: Sequence[NewJob]) -> None:
        now = self._store.clock.now()
        for job in batch:
            self._history.invoked(job.id, now, job.due_at, job.expires_at)
        clashes = insert(self._store, batch, now)
        assert {clash.kind for clash in clashes.values()} <= {"existing"}
        for job in batch:
            self._history.acknowledged(job.id)

    def _look_up(self, batch: Sequence[NewJob]) -> None:
        for job in batch:
            if self._store.get(job.id) is not None:
                self._history.acknowledged(job.id)

    def _cancel(self, job_id: str) -> None:
        """Cancel a job that waits; of one that is taken, request it."""
        try:
            changed = self._store.change([job_id], CANCEL, self._store.clock.now())
        except StoreUnavailable:
            self._history.cancel_unknown(job_id)
            raise
        if not changed.refused:
            at = self._store.clock.now() if self._forgiving else None
            self._history.cancelled(job_id, at)
        elif self._forgiving and self._random.random() < 0.3:
            self._history.cancel_unknown(job_id)
            self._store.change([job_id], STOP, self._store.clock.now())


class Puller:
    """A worker that claims a few jobs and deals with them one after the other. `does` says whether
    it really does what it reports."""

    def __init__(
        self,
        store: Store,
        queues: Sequence[Queue],
        record: Callable[[Entry], None],
        random: Random,
        *,
        rough: bool,
        waits: bool = True,
        does: bool = True,
    ) -> None:
        self._cue = a_cue(store)
        self._queues = [queue.name for queue in queues]
        self._record = record
        self._random = random
        self._rough = rough
        self._waits = waits
        self._does = does

    def step(self) -> None:
        """Work on nothing after two thirds of its lease without a word: it may be another's."""
        clock = self._cue.clock
        stop_at = clock.monotonic() + LEASE_SECONDS * 2 / 3
        for claim in self._cue.claim(self._queues, "puller", limit=4):
            token = self._cue.token(claim)
            with suppress(StoreUnavailable, *TOO_LATE):
                if clock.monotonic() < stop_at:
                    self._work(claim, token)
                else:
                    self._cue.release(claim.id, token)

    def _work(self, claim: Claimed, token: str) -> None:
        chance = self._random.random() if self._rough else 1.0
        if chance < 0.04:
            self._cue.release(claim.id, token)  # it was never begun
            return
        if chance < 0.08:
            return  # forgotten, and never begun
        if self._does:
            now = self._cue.clock.now()
            self._record(Received(claim.id, claim.attempt, now, "puller"))
        if chance < 0.4:
            self._cue.start(claim.id, token)
        if chance < 0.12:
            return  # forgotten in the middle
        if chance < 0.15:
            self._record(Declined(claim.id))
            self._cue.fail(claim.id, token, "never", retryable=False)
        elif chance < 0.2 and self._waits:
            self._cue.fail(claim.id, token, "not today")
        else:
            self._cue.complete(claim.id, token)


class Holder:
    """A worker with one job at a time that takes longer than a lease. It gives a sign of life in
    every step, and does not stop by itself when none was acknowledged: a zombie at times.
    `reports`: on an operation, too."""

    STEPS = 20

    def __init__(
        self,
        store: Store,
        queue: Queue,
        record: Callable[[Entry], None],
        steps: int = STEPS,
        *,
        reports: bool = False,
    ) -> None:
        self._cue = a_cue(store)
        self._reports = reports
        self._queue = queue.name
        self._record = record
        self._steps = steps
        self._held: tuple[str, str] | None = None
        self._left = 0

    def step(self) -> None:
        if self._held is None:
            self._begin()
            return
        self._left -= 1
        with _until_told(self._drop):
            if self._left > 0:
                self._cue.heartbeat(*self._held)
                if self._reports:
                    self._cue.operation(*self._held, "hold", "succeeded")
            else:
                self._cue.complete(*self._held)
                self._drop()

    def _begin(self) -> None:
        """Begin nothing after two thirds of its lease: it may be another's."""
        clock = self._cue.clock
        stop_at = clock.monotonic() + LEASE_SECONDS * 2 / 3
        for claim in self._cue.claim(self._queue, "holder"):
            if clock.monotonic() < stop_at:
                self._record(Received(claim.id, claim.attempt, clock.now(), "holder"))
                self._held, self._left = (claim.id, self._cue.token(claim)), self._steps

    def _drop(self) -> None:
        self._held = None


@contextmanager
def _until_told(then: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    except TOO_LATE:
        then()


class Remote:
    """Everything behind the sinks: what they are given is written down, and what carries a token is
    worked on: started, kept alive by heartbeats, completed or failed, or forgotten half-way. Some
    workers are quicker than the dispatcher and start before it has handed over."""

    def __init__(
        self,
        store: Store,
        record: Callable[[Entry], None],
        random: Random,
        *,
        rough: bool,
        waits: bool = True,
        drops: bool = False,
    ) -> None:
        self._cue = a_cue(store)
        self._record = record
        self._random = random
        self._rough = rough
        self._waits = waits
        self._drops = drops
        self._inbox: list[tuple[Delivery, list[Report]]] = []
        self._put_off: Counter[str] = Counter()

    def sink(self, queue: Queue) -> Sink:
        return _Mailing(self, ReceivingSink(self._record, self._cue.clock, queue.name))

    def step(self) -> None:
        """One report on every job."""
        inbox, self._inbox = self._inbox, []
        for delivery, reports in inbox:
            self._tell(delivery, reports.pop(0))
            if reports:
                self._inbox.append((delivery, reports))

    def take(
        self, receiver: ReceivingSink, queue: str, batch: Sequence[Delivery]
    ) -> Mapping[int, Refusal]:
        refused = self._refused(batch) if self._rough else {}
        for place, refusal in refused.items():
            if refusal.permanent:
                self._record(Declined(batch[place].id))
        taken = [job for place, job in enumerate(batch) if place not in refused]
        if not self._drops:
            receiver.deliver(queue, taken)
        for job in taken:
            if job.token is not None:
                self._begin(job)
        return refused

    def _refused(self, batch: Sequence[Delivery]) -> dict[int, Refusal]:
        """Some for good, and some for now, a few times."""
        refused = {}
        for place, job in enumerate(batch):
            if job.id.endswith("7"):
                refused[place] = Refusal("never", True)
            elif self._waits and job.id.endswith("5") and self._put_off[job.id] < 4:
                self._put_off[job.id] += 1
                refused[place] = Refusal("not now", False)
        return refused

    def _begin(self, job: Delivery) -> None:
        quick, chance = self._random.random() < 0.3, self._random.random()
        reports: list[Report] = [lambda cue, *claim: cue.start(*claim)]
        reports += [lambda cue, *claim: cue.heartbeat(*claim)] * self._random.randrange(4)
        if not self._rough or chance > 0.2:
            reports.append(lambda cue, *claim: cue.complete(*claim))
        elif chance > 0.1 and self._waits:
            reports.append(lambda cue, *claim: cue.fail(*claim, "not today"))
        if quick:
            self._tell(job, reports.pop(0))
        if reports:
            self._inbox.append((job, reports))

    def _tell(self, job: Delivery, report: Report) -> None:
        with suppress(StoreUnavailable, *TOO_LATE):
            report(self._cue, job.id, job.token or "")


class _Mailing:
    def __init__(self, remote: Remote, receiver: ReceivingSink) -> None:
        self._remote = remote
        self._receiver = receiver

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        return self._remote.take(self._receiver, queue, batch)

    def close(self) -> None:
        self._receiver.close()


class Lasting:
    """A sink whose deliveries last: `linger` is called before each."""

    def __init__(self, sink: Sink, linger: Callable[[], None]) -> None:
        self._sink = sink
        self._linger = linger

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        self._linger()
        return self._sink.deliver(queue, batch)

    def close(self) -> None:
        self._sink.close()
