"""Where a worker's jobs come from and where it reports on them: a store, or a server elsewhere.

The worker decides when to claim, what to run and when to report. How a claim is made, proven and
ended is behind this port, which has two implementations: here for a store, and in
`client/claim_source.py` for a server.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from oncue.core.errors import ServerUnavailable, StoreUnavailable
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, JobFilter, Operation
from oncue.core.lifecycle import LIVE, Verb
from oncue.core.moment import Moment, to_datetime
from oncue.core.queue import Queue
from oncue.engine.alarm import Alarm
from oncue.engine.policies import Policies
from oncue.ports.claims import Touch, Touched
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, Store
from oncue.telemetry.counters import Telemetry
from oncue.usecases.claims import failure, failure_verdict, keeping
from oncue.worker.handlers import Handlers

AWAY = (StoreUnavailable, ServerUnavailable)
"""Passing trouble of a claim source: the same call may succeed later."""

LOOK_SECONDS = 0.9  # so that a handler learns of a cancel within a second

Ending = Any
"""How a claim ended, in the terms of the claim source that made it."""

logger = logging.getLogger("oncue.worker")


class ClaimedBatch(NamedTuple):
    """Jobs of one queue that were claimed together."""

    queue: Queue
    claims: Sequence[Claimed]
    since: float
    """When the leases began at the earliest, by the monotonic clock here."""
    taken: float
    """When the claims were made at the latest, likewise: from then on an attempt is timed."""


class ClaimSource(Protocol):
    """For one worker. Safe to use from many threads; `claim` and `rest` are called by one at a
    time. Raises one of `AWAY` when it cannot answer now."""

    def claim(self, queue: str, limit: int, now: Moment) -> ClaimedBatch | None:
        """Take up to `limit` due jobs; reclaimed work is taken alone. None: nothing is due."""
        ...

    def next_due(self, queue: str) -> Moment | None:
        """When there may be something to claim next; None: it will be told of."""
        ...

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """Be told of new work, as by a store. The answer stops it, and hands back whatever was
        claimed and never asked for."""
        ...

    def rest(self, alarm: Alarm, seconds: float) -> None:
        """Wait so long, or until there may be work to claim."""
        ...

    def stop(self) -> None:
        """End the rest under way, and every later one, at once."""
        ...

    def nothing_left(self, queues: Sequence[str]) -> bool:
        """Whether nothing waits in these queues, paused ones aside, and nothing is taken."""
        ...

    @property
    def beat_seconds(self) -> float:
        """How often at least a heartbeat is sent for what runs, however long its lease."""
        ...

    @property
    def look_seconds(self) -> float:
        """How often `interruptions` is asked for what runs."""
        ...

    def touch(
        self,
        claims: Sequence[tuple[Claimed, float]],
        message: str | None = None,
        percent: float | None = None,
    ) -> list[Touched | Refused]:
        """Signs of life that renew leases, each to so many seconds; one answer each."""
        ...

    def interruptions(self, claims: Sequence[Claimed]) -> Mapping[int, Refused]:
        """Which of these should be stopped, as `ClaimStore.interruptions` tells. None where that
        would take a request of its own: there the answers to heartbeats tell it."""
        ...

    def put_operation(
        self,
        claim: Claimed,
        name: str,
        state: str,
        percent: float | None,
        message: str | None,
        result: bytes | None,
    ) -> Operation | Refused:
        """Report on a step, as to a store."""
        ...

    def completed(self, claim: Claimed, queue: Queue, result: bytes | None) -> Ending: ...

    def failed(
        self, claim: Claimed, queue: Queue, error: str, *, retryable: bool, cancel_seen: bool
    ) -> Ending:
        """It failed; whether it is tried again is decided by the policy of its queue."""
        ...

    def released(self, claim: Claimed, queue: Queue) -> Ending:
        """It was not begun, and goes back unharmed; the attempt does not count."""
        ...

    def settle(self, endings: Sequence[Ending], *, brief: bool = False) -> None:
        """End claims. What came too late is logged; what is asked to end, ends cancelled. With
        `brief`, the answer is waited for no longer than that to a heartbeat."""
        ...

    def thread_replaced(self) -> None:
        """A thread of the worker had died and was started anew: count it, where that is done."""
        ...


class Host(Protocol):
    """Has handlers for a worker to run, and a claim source for it: a Scheduler or a Client."""

    @property
    def clock(self) -> Clock: ...

    @property
    def handlers(self) -> Handlers: ...

    def claim_source(self, worker: str) -> ClaimSource: ...


class LocalClaimSource:
    """A store that this process has opened."""

    beat_seconds = math.inf

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policies: Policies,
        telemetry: Telemetry,
        spread: Callable[[], float],
        worker: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._policies = policies
        self._telemetry = telemetry
        self._spread = spread
        self._worker = worker
        self.watch = store.watch

    def claim(self, queue: str, limit: int, now: Moment) -> ClaimedBatch | None:
        policy = self._policies(queue)
        began = self._clock.monotonic()
        claims = self._store.claim([policy], self._worker, limit, now)
        if not claims:
            return None
        self._telemetry.claimed(claims, self._clock.now())
        return ClaimedBatch(policy, claims, began, began)

    def next_due(self, queue: str) -> Moment | None:
        return self._store.next_due([queue])

    def rest(self, alarm: Alarm, seconds: float) -> None:
        alarm.rest(seconds)

    def stop(self) -> None:
        """Nothing rests here but the alarm, which the worker stops."""

    def nothing_left(self, queues: Sequence[str]) -> bool:
        """Looked at twice: what goes from waiting to taken in between is seen the second time."""
        if self._store.next_due(queues) is not None:
            return False
        pages = (
            self._store.page(JobFilter(queue=queue, state=state), None, 1)
            for queue in queues
            for state in LIVE
        )
        taken = any(page.items or page.next for page in pages)
        return not taken and self._store.next_due(queues) is None

    @cached_property
    def look_seconds(self) -> float:
        return max(LOOK_SECONDS, self._store.describe().notice_seconds)

    def interruptions(self, claims: Sequence[Claimed]) -> Mapping[int, Refused]:
        return self._store.interruptions([(one.id, one.epoch) for one in claims])

    def thread_replaced(self) -> None:
        self._telemetry.thread_replaced()

    def touch(
        self,
        claims: Sequence[tuple[Claimed, float]],
        message: str | None = None,
        percent: float | None = None,
    ) -> list[Touched | Refused]:
        touches = [Touch(one.id, one.epoch, lease, message, percent) for one, lease in claims]
        answers = self._store.touch(touches, self._clock.now())
        self._telemetry.fenced(sum(isinstance(answer, Refused) for answer in answers))
        return answers

    def put_operation(
        self,
        claim: Claimed,
        name: str,
        state: str,
        percent: float | None,
        message: str | None,
        result: bytes | None,
    ) -> Operation | Refused:
        now = self._clock.now()
        operation = Operation(name, state, to_datetime(now), percent, message, result)
        answer = self._store.put_operation(claim.id, claim.epoch, operation, now)
        if isinstance(answer, Refused) and answer.reason != "different result":
            self._telemetry.fenced()
        return answer

    def completed(self, claim: Claimed, queue: Queue, result: bytes | None) -> Settlement:
        return Settlement(claim.id, claim.epoch, Verb.COMPLETE, result, **keeping(queue))

    def failed(
        self, claim: Claimed, queue: Queue, error: str, *, retryable: bool, cancel_seen: bool
    ) -> Settlement:
        verdict = failure_verdict(
            claim,
            queue,
            self._clock.now(),
            cancelled=cancel_seen,
            retryable=retryable,
            spread=self._spread(),
        )
        ending = failure(claim.id, claim.epoch, verdict, error)
        return ending._replace(**keeping(queue))

    def released(self, claim: Claimed, queue: Queue) -> Settlement:
        return Settlement(claim.id, claim.epoch, Verb.RELEASE, **keeping(queue))

    def settle(self, endings: Sequence[Settlement], *, brief: bool = False) -> None:
        if not endings:
            return
        refused = self._store.settle(endings, self._clock.now())
        for position, answer in refused.items():
            log_too_late(endings[position].id, answer.reason)
        self._telemetry.fenced(len(refused))


def log_too_late(job_id: str, reason: str) -> None:
    text = "job %s: the result came too late (%s)"
    logger.warning(text, job_id, reason, extra={"job_id": job_id})
