"""A dispatcher's batch: claimed together, delivered together, settled together.

Two kinds, by what completes a job of the queue: delivery itself (`RangeBatch`: one fenced record
for all of it) or a worker that the sink reaches (`ClaimBatch`: each job with its own token). A
third kind comes from the inbox of a store (`ports/inbox.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from oncue.core.errors import SinkDown, SinkError
from oncue.core.fencing import Settlement, refused_by_sink
from oncue.core.job import Delivery
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.core.text import legible
from oncue.core.token import sign
from oncue.engine.claiming import Claiming
from oncue.ports.claims import RangeClaim
from oncue.ports.inbox import InboxBatch
from oncue.ports.sink import Refusal
from oncue.ports.store import Store

DETAIL_KEPT = 1000  # characters of a sink's answer

Untaken = Mapping[int, Refusal | None] | None
"""The jobs of a batch that a sink did not take, by position: why not, or None if that was not
tried. None for all: it was down and took nothing."""


class RangeBatch:
    """A claim of a `RangeHolder`."""

    def __init__(
        self, store: Store, holder: RangeHolder, claim: RangeClaim, lease_seconds: float
    ) -> None:
        self._store = store
        self._holder = holder
        self._claim = claim
        self.lease_seconds = lease_seconds
        self.busy_until = claim.busy_until
        """When other dispatchers hold what is due: until when at most."""
        self.deliveries = claim.jobs

    def renew(self, now: Moment) -> bool:
        """Hold the claim longer. False: it was taken over."""
        return self._store.extend_range(self._claim, now + round(self.lease_seconds * 1000))

    def settle(self, untaken: Untaken, now: Moment) -> bool:
        """Record how the delivery ended, by position: not named → taken, refused for good →
        failed, refused for now → put off with no attempt used, not tried → due as before. None: the
        sink was down, all are due as before. False: some of it was taken over."""
        delivered = [] if untaken is None else [job.id for job in self.deliveries]
        refused: dict[str, Refusal] = {}
        if untaken:
            refused = {delivered[place]: one for place, one in untaken.items() if one is not None}
            delivered = [one for place, one in enumerate(delivered) if place not in untaken]
        return self._holder.settle(self._claim, delivered, refused, now)

    def forget(self) -> None:
        """It can neither be settled nor let go: its jobs are claimed again."""
        self._holder.forget(self._claim)


class RangeHolder:
    """The shards of a queue that one dispatcher holds. Several claims may be in flight in each of
    them. They are made one after the other, and settled in any order, also at the same time."""

    def __init__(self, store: Store, dispatcher: str) -> None:
        self._store = store
        self._dispatcher = dispatcher
        # Held while a claim is made, and while a shard is let go: a claim that goes on under a
        # fence must not meet the end of that fence. Also while a batch of a queue with a
        # concurrency is settled: what it says is left in flight must count what is being claimed.
        self._turn = threading.Lock()
        self._counted = False
        self._more = False  # is due, as the last claim was full: the next one is not to wait
        self._lock = threading.Lock()
        self._in_flight: dict[tuple[int, int], list[RangeClaim]] = {}
        """By shard and fence. The first is without jobs, and stays until the shard is let go."""
        self._unsure: set[tuple[int, int]] = set()
        """Those that may have been let go: the answer got lost."""

    def claim(
        self,
        queue: Queue,
        limit: int,
        now: Moment,
        due_until: Moment | None = None,
        *,
        beside: bool = False,
    ) -> RangeBatch:
        """The next jobs that are due (by default now) and not in flight. None while it is not known
        whether a shard was let go: a claim would raise its fence, and what let it go could not be
        repeated. `beside`: the next claim may be made while these are delivered and settled."""
        with self._turn:
            self._counted = queue.concurrency is not None
            with self._lock:
                in_flight = [one for claims in self._in_flight.values() for one in claims]
            claim = RangeClaim(queue.name)
            if not self._unsure:
                claim = self._store.claim_range(
                    queue,
                    self._dispatcher,
                    limit,
                    now,
                    lease_seconds=queue.lease_seconds,
                    in_flight=in_flight,
                    due_until=due_until,
                )
            self._more = beside and len(claim.jobs) >= limit
            if claim.jobs:
                with self._lock:
                    empty = claim._replace(jobs=())
                    self._in_flight.setdefault(_shard(claim), [empty]).append(claim)
        if not claim.jobs:
            self._let_go(now)
        return RangeBatch(self._store, self, claim, queue.lease_seconds)

    def settle(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
    ) -> bool:
        """As `settle_range`. Lets go of the shard if nothing else is in flight there. If it raises,
        it can be repeated safely."""
        is_last = not self._more and not self._others(claim)
        ours = (self._counted or is_last) and self._turn.acquire(self._counted)
        try:
            left = self._others(claim) or int(not ours)
            held = self._settle_range(claim, delivered, refused, now, left)
            with self._lock:
                claims = self._in_flight.get(_shard(claim), [])
                if claim in claims:
                    claims.remove(claim)
                if len(claims) == 1 and not (held and left):
                    del self._in_flight[_shard(claim)]
        finally:
            if ours:
                self._turn.release()
        self._let_go(now)
        return held

    def forget(self, claim: RangeClaim) -> None:
        """Count a claim as in flight no more, so that the next one finds its jobs."""
        with self._lock:
            claims = self._in_flight.get(_shard(claim), [])
            if claim in claims:
                claims.remove(claim)
        self._unsure.discard(_shard(claim))

    def _settle_range(
        self,
        claim: RangeClaim,
        delivered: Sequence[str],
        refused: Mapping[str, Refusal],
        now: Moment,
        left: int,
    ) -> bool:
        if not left:
            self._unsure.add(_shard(claim))
        held = self._store.settle_range(claim, delivered, refused, now, left=left)
        self._unsure.discard(_shard(claim))
        return held

    def _others(self, claim: RangeClaim) -> int:
        """How many other jobs are in flight in the shard."""
        with self._lock:
            claims = self._in_flight.get(_shard(claim), [])
            return sum(len(one.jobs) for one in claims if one is not claim)

    def _let_go(self, now: Moment) -> None:
        """Let go of shards in which nothing is in flight any more."""
        if not self._idle():
            return
        with self._turn:
            for claim in self._idle():
                self._settle_range(claim, (), {}, now, 0)
                with self._lock:
                    self._in_flight.pop(_shard(claim), None)

    def _idle(self) -> list[RangeClaim]:
        """The claims without jobs of these shards."""
        with self._lock:
            return [claims[0] for claims in self._in_flight.values() if len(claims) == 1]


def _shard(claim: RangeClaim) -> tuple[int, int]:
    return claim.shard, claim.fence


class ClaimBatch:
    """As a `RangeBatch`, with a claim for each job."""

    busy_until: Moment | None = None

    def __init__(
        self,
        store: Store,
        queue: Queue,
        dispatcher: str,
        limit: int,
        now: Moment,
        claiming: Claiming,
    ) -> None:
        self._store = store
        self.lease_seconds = queue.lease_seconds
        [self._claims] = claiming.claim([queue], [Taker(dispatcher, limit)], now)
        self.deliveries: Sequence[Delivery] = [
            Delivery(
                job.id,
                job.due_at,
                job.payload,
                job.attempt,
                sign(store.secret, job.id, job.epoch),
                job.queue,
                job.owner,
            )
            for job in self._claims
        ]

    def renew(self, now: Moment) -> bool:
        touches = [Touch(job.id, job.epoch, start=False, renew=True) for job in self._claims]
        return any(isinstance(answer, Touched) for answer in self._store.touch(touches, now))

    def settle(self, untaken: Untaken, now: Moment) -> bool:
        if untaken is None:
            untaken = dict.fromkeys(range(len(self._claims)))
        settlements = [
            Settlement(job.id, job.epoch, Verb.HAND_OVER)
            for position, job in enumerate(self._claims)
            if position not in untaken
        ]
        jobs = [(self._claims[at], why) for at, why in untaken.items()]
        settlements += [not_taken(job.id, job.epoch, why) for job, why in jobs]
        refused = self._store.settle(settlements, now).refused
        # A worker may have begun or even ended the job by now: only a reclaim is trouble.
        return not any(answer.reason == "reclaimed" for answer in refused.values())

    def forget(self) -> None:
        """It can neither be settled nor let go: its jobs are reclaimed when their leases end."""


def not_taken(job_id: str, epoch: int, refusal: Refusal | None) -> Settlement:
    """The settlement of a job that its sink did not take; None: it was not tried."""
    if refusal is None:
        return Settlement(job_id, epoch, Verb.RELEASE)
    error = refusal.detail
    if not refusal.permanent:
        return Settlement(job_id, epoch, Verb.RELEASE, error=error, put_off=True)
    return refused_by_sink(job_id, epoch, error)


DeliveryBatch = RangeBatch | ClaimBatch | InboxBatch


def checked(answer: object, size: int, *, partly: bool = False) -> Mapping[int, Refusal | None]:
    """The sink's answer to a batch of that size, with as much of each text as is stored. An answer
    that is no answer does not tell which jobs were taken: it is an error of the sink. `partly`: the
    sink may have tried only some of them."""
    if not isinstance(answer, Mapping):
        raise _wrong(f"{type(answer).__name__} instead of a mapping")
    refusals: dict[int, Refusal | None] = {}
    for place, one in answer.items():
        if not isinstance(place, int):
            raise _wrong(f"{type(place).__name__} instead of a position")
        if not 0 <= place < size:
            raise _wrong(f"position {place} in a batch of {size}")
        if one is None and partly:
            refusals[place] = None
            continue
        if not isinstance(one, Refusal):
            raise _wrong(f"{type(one).__name__} instead of a Refusal")
        refusals[place] = one._replace(detail=legible(str(one.detail), DETAIL_KEPT))
    return refusals


def part_taken(down: SinkDown, size: int) -> Untaken:
    """The jobs that a sink in trouble has not taken, if it took a part of the batch and says
    which."""
    if down.untaken is None:
        return None
    try:
        return checked(down.untaken, size, partly=True)
    except SinkError:
        return None


def _wrong(what: str) -> SinkError:
    return SinkError(f"the sink gave a wrong answer: {what}")
