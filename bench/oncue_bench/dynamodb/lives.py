"""What the lives of jobs cost on DynamoDB: requests and units, counted by the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

from oncue.clock import SystemClock
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.fencing import Settlement
from oncue.core.job import Claimed, NewJob
from oncue.core.lease import Touch
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.engine.dispatcher import RANGE_LIMIT
from oncue.stores import open_store
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.usecases.queues import put_queue
from oncue_bench.dynamodb.ledger import CountingClient
from oncue_bench.dynamodb.rates import new_jobs
from oncue_bench.seeds import CHUNK, DAY_MS, HOUR_MS

AT_ONCE = 100
"""Jobs that a worker claims, and reports on, together."""
WARM = 8
"""Jobs that go first and are not counted: so the queue, its leases and its limits are there."""

T = TypeVar("T")
R = TypeVar("R")
Figures = dict[str, Any]


class OneByOne(Table):
    """Sends one request after the other: so the ledger is exact."""

    def each(self, ask: Callable[[T], R], parts: Iterable[T]) -> list[R]:
        return [ask(part) for part in parts]


class Trial:
    """A queue whose jobs live a life that is counted."""

    def __init__(self, client: CountingClient, store: DynamoStore, queue: Queue) -> None:
        self.client = client
        self.store = store
        self.queue = queue
        self.batches = 0
        """Ranges that were claimed and settled."""

    @property
    def now(self) -> Moment:
        return self.store.clock.now()

    def new(self, count: int, ahead_ms: int = -1) -> list[NewJob]:
        return list(new_jobs(count, self.now, self.now + ahead_ms, self.queue.name))

    def insert(self, jobs: Sequence[NewJob]) -> list[str]:
        self.store.insert(jobs, self.now)
        return [job.id for job in jobs]

    def deliver(self, count: int) -> None:
        """To a sink that takes all."""
        while count > 0:
            claim = self.store.claim_range(
                self.queue, "bench", RANGE_LIMIT, self.now, lease_seconds=60
            )
            given = _some([job.id for job in claim.jobs])
            self.store.settle_range(claim, given, {}, self.now)
            self.batches += 1
            count -= len(given)

    def claim(self, count: int) -> list[list[Claimed]]:
        claims = []
        while count > 0:
            taker = Taker("bench", AT_ONCE)
            [some] = self.store.claim([self.queue], [taker], self.now, nonce=token_hex(8))
            claims.append(_some(some))
            count -= len(some)
        return claims


def _some(taken: list[T]) -> list[T]:
    """Nobody else takes jobs here, so there are some until all are taken."""
    if not taken:
        raise AssertionError("jobs that are due are not handed over")
    return taken


# Lives. Each prepares what is not counted, and answers with what is.

Counted = Callable[[], object]


def to_sink(trial: Trial, count: int) -> Counted:
    def live() -> None:
        trial.insert(trial.new(count))
        trial.deliver(count)

    return live


def chosen_id(trial: Trial, count: int) -> Counted:
    """With an id and a digest, as a request with an Idempotency-Key has."""
    jobs = [
        one._replace(id=f"order-{one.id}", digest=blake2b(one.payload, digest_size=16).digest())
        for one in trial.new(count)
    ]

    def live() -> None:
        trial.insert(jobs)
        trial.deliver(count)

    return live


def pulled(trial: Trial, count: int) -> Counted:
    def live() -> None:
        trial.insert(trial.new(count))
        for claims in trial.claim(count):
            beats = [Touch(one.id, one.epoch, renew=True) for one in claims]
            trial.store.touch(beats, trial.now)
            ends = [Settlement(one.id, one.epoch, Verb.COMPLETE) for one in claims]
            trial.store.settle(ends, trial.now)

    return live


def changed(change: JobChange, ahead_ms: int, trial: Trial, count: int) -> Counted:
    """A change alone, of one job after the other."""
    given = trial.insert(trial.new(count, ahead_ms))
    return lambda: [trial.store.change([one], change, trial.now) for one in given]


def rescheduled(trial: Trial, count: int) -> Counted:
    later = JobChange(ChangeVerb.AMEND, due_at=trial.now + DAY_MS)
    return changed(later, HOUR_MS, trial, count)


def retried(trial: Trial, count: int) -> Counted:
    """The report of a failure alone."""
    trial.insert(trial.new(count))
    claims = trial.claim(count)
    later = trial.now + HOUR_MS

    def failure(one: Claimed) -> Settlement:
        told = Settlement(one.id, one.epoch, Verb.RETRY, error="boom", due_at=later)
        return told._replace(code="failure", detail="It failed.")

    def live() -> None:
        for some in claims:
            trial.store.settle([failure(one) for one in some], trial.now)

    return live


class Life(NamedTuple):
    title: str
    goal: int
    """Write units for each job …"""
    act: Callable[[Trial, int], Counted]
    queue: Queue
    batched: int = 0
    """… and for each batch of a dispatcher."""


_CANCEL = JobChange(ChangeVerb.CANCEL)
_SINK = partial(Queue, sink="bench:")

LIVES = {
    life.queue.name: life
    for life in (
        Life("sink, nothing kept", 2, to_sink, _SINK("fleeting", retention_seconds=0), 2),
        Life("sink, history kept", 4, to_sink, _SINK("kept"), 2),
        Life(
            "sink, chosen id, nothing kept", 5, chosen_id, _SINK("chosen", retention_seconds=0), 2
        ),
        Life("pulled, history kept, 1 heartbeat", 8, pulled, Queue("pulled")),
        Life("cancel, due in an hour", 8, partial(changed, _CANCEL, HOUR_MS), _SINK("cancelled")),
        Life("cancel, due now", 8, partial(changed, _CANCEL, -1), _SINK("cancelled-due")),
        Life("reschedule", 12, rescheduled, _SINK("rescheduled")),
        Life("retry after a failure", 7, retried, Queue("retried")),
    )
}


def units(url: str, count: int, lives: Sequence[str], pending: int = 0) -> Figures:
    """Requests and units for each job, by life; with so many others waiting in the same queue."""
    address = TableAddress.read(url)
    client = CountingClient(address.connect())
    store = DynamoStore(OneByOne(address.table, lambda: client), SystemClock())
    figures = {}
    for name in lives:
        trial = Trial(client, store, LIVES[name].queue)
        put_queue(store, trial.queue)
        _fill(url, trial.queue, pending)
        LIVES[name].act(trial, WARM)()
        figures[name] = _counted(trial, LIVES[name], count)
    store.close()
    return figures


def _counted(trial: Trial, life: Life, count: int) -> Figures:
    live = life.act(trial, count)
    trial.batches = 0
    with trial.client.counted() as bill:
        live()
    return {
        "title": life.title,
        "requests": bill.requests.total() / count,
        "writes": bill.writes / count,
        "reads": bill.reads / count,
        "goal": life.goal + life.batched * trial.batches / count,
    }


def _fill(url: str, queue: Queue, pending: int) -> None:
    """By a store whose requests are not counted, and go together."""
    store = open_store(url)
    now = store.clock.now()
    source = new_jobs(pending, now, now + 30 * DAY_MS, queue.name)
    while part := list(islice(source, CHUNK)):
        store.insert(part, now)
    store.close()
