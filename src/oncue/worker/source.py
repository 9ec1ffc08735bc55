"""Where a worker's jobs come from and where it reports on them: a store, or a server elsewhere.

The worker decides when to claim, what to run and when to report. How a claim is made, proven and
ended is behind this port, which has two implementations: here for a store, and in
`client/claim_source.py` for a server.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

from oncue.core.cursor import Cursor, Page
from oncue.core.errors import ServerUnavailable, StoreUnavailable
from oncue.core.fencing import Completions, Refused, Settlement
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.nodes import Running
from oncue.core.queue import Queue
from oncue.core.retry import Failure
from oncue.core.sharing import Taker
from oncue.engine.alarm import Alarm
from oncue.engine.claiming import Claiming
from oncue.ports.outbox import Outbox
from oncue.ports.store import Awaited, Listener
from oncue.usecases.claims import LocalClaims
from oncue.usecases.reporting import put_operation

AWAY = (StoreUnavailable, ServerUnavailable)
"""Passing trouble of a claim source: the same call may succeed later."""

VERBS = {"complete": Verb.COMPLETE, "release": Verb.RELEASE}
_REST = tuple(Settlement._field_defaults.values())[1:]
LOOK_SECONDS = 0.9  # so that a handler learns of a cancel within a second

logger = logging.getLogger("oncue.worker")


class ClaimedBatch(NamedTuple):
    """Jobs of one queue that were claimed together."""

    queue: Queue
    claims: Sequence[Claimed]
    since: float
    """When the leases began at the earliest, by the monotonic clock here."""
    taken: float
    """When the claims were made at the latest, likewise: from then on an attempt is timed."""


class Beat(NamedTuple):
    """A heartbeat: renews the lease of a claim to so many seconds."""

    claim: Claimed
    lease_seconds: float
    message: str | None = None
    percent: float | None = None


class ClaimEnd(NamedTuple):
    """How a claim ended."""

    claim: Claimed
    outcome: Literal["complete", "fail", "release"]
    """Release: it was not begun, or not finished; the attempt does not count."""
    result: bytes | None = None
    error: str = ""
    retryable: bool = True
    """Fail: whether the policy of its queue may have it tried again."""
    may_be_done: bool = False
    """Fail, release: a transaction of the handler may have completed it. If so, this report is
    refused, as it should be."""


_ID, _EPOCH = attrgetter("id"), attrgetter("epoch")


class ClaimSource(Protocol):
    """For one worker. One that has an `outbox` (ports/outbox.py) lets handlers complete jobs in
    transactions. Safe to use from many threads; `claim` and `rest` are called by one at a
    time. Raises one of `AWAY` when it cannot answer now."""

    options: tuple[str, ...] | None
    """With which `oncue` finds the jobs, as `config.store_options` tells."""

    beat_seconds: float
    """How often at least a heartbeat is sent for what runs, however long its lease."""

    @property
    def look_seconds(self) -> float:
        """How often `interruptions` is asked for what runs."""

    @property
    def poll_seconds(self) -> float:
        """As `Traits.poll_seconds`."""

    def claim(
        self, queue: str, limit: int, now: Moment, *, together: bool = False
    ) -> ClaimedBatch | None:
        """Take up to `limit` due jobs; reclaimed work is taken alone. None: nothing is due. After
        trouble, the answer may be jobs that an earlier call took from another queue. `together`:
        see `Taker`."""

    def next_due(self, queue: str) -> Moment | None:
        """When there may be something to claim next; None: `watch` will tell."""

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """Be told of new work, as by a store. The answer stops it, and hands back jobs that were
        claimed and not used."""

    def rest(self, alarm: Alarm, seconds: float) -> None:
        """Wait so long, or until there may be work to claim."""

    def stop(self) -> None:
        """End the rest under way, and every later one, at once."""

    def touch(self, beats: Sequence[Beat]) -> list[Touched | Refused]:
        """Send heartbeats; one answer each."""

    def interruptions(self, claims: Sequence[Claimed]) -> Mapping[int, Refused]:
        """Which of these should be stopped, as `ClaimStore.interruptions` tells. None where that
        would take a request of its own: there the answers to heartbeats tell it."""

    def put_operation(self, claim: Claimed, operation: Operation) -> Operation | Refused:
        """Report on a step, as `ClaimStore.put_operation` takes it. Raises `InvalidInput` if the
        job has no room for it."""

    def operations(self, claim: Claimed, after: Cursor) -> Page[Operation]:
        """More operations of a claimed job, from the cursor on."""

    def settle(self, queue: Queue, ends: Sequence[ClaimEnd], *, brief: bool = False) -> None:
        """End claims of one queue. Reports that came too late are logged. With `brief`, the answer
        is waited for no longer than that to a heartbeat."""

    def complete_all(self, queue: Queue, claims: Sequence[Claimed]) -> None:
        """End claims of one queue, all of whose jobs are completed without results."""

    def thread_replaced(self) -> None:
        """A thread of the worker had died and was started anew: count it, where that is done."""


class LocalClaimSource:
    """The store of a scheduler in this process."""

    beat_seconds = math.inf

    def __init__(
        self, cue: LocalClaims, worker: str, options: tuple[str, ...] | None = None
    ) -> None:
        self._cue = cue
        self.options = options
        self._store = cue.store
        self._clock = cue.clock
        self._telemetry = cue.telemetry
        self._worker = worker
        self._claiming = Claiming(cue.store)

    @property
    def outbox(self) -> Outbox | None:
        return getattr(self._store, "outbox", None)

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        unwatch = self._store.watch(listener, queues)
        leave = self._cue.reporter.begin(lambda: Running(works=tuple(queues() if queues else ())))

        def stop() -> None:
            unwatch()
            leave()

        return stop

    def claim(
        self, queue: str, limit: int, now: Moment, *, together: bool = False
    ) -> ClaimedBatch | None:
        policy = self._cue.policies(queue)
        taker = Taker(self._worker, limit, is_near=True, together=together)
        began = self._clock.monotonic()
        [claims] = self._claiming.claim([policy], [taker], now)
        if not claims:
            return None
        self._telemetry.claimed(claims, self._clock.now())
        return ClaimedBatch(self._cue.policies(claims[0].queue), claims, began, began)

    def next_due(self, queue: str) -> Moment | None:
        return self._store.next_due([queue])

    def rest(self, alarm: Alarm, seconds: float) -> None:
        alarm.rest(seconds)

    def stop(self) -> None:
        """Nothing rests here but the alarm, which the worker stops."""

    @property
    def look_seconds(self) -> float:
        return max(LOOK_SECONDS, self._store.traits.notice_seconds)

    @property
    def poll_seconds(self) -> float:
        return self._store.traits.poll_seconds

    def interruptions(self, claims: Sequence[Claimed]) -> Mapping[int, Refused]:
        return self._store.interruptions([(one.id, one.epoch) for one in claims])

    def thread_replaced(self) -> None:
        self._telemetry.count("threads_replaced")

    def touch(self, beats: Sequence[Beat]) -> list[Touched | Refused]:
        touches = [
            Touch(claim.id, claim.epoch, lease_seconds, message, percent)
            for claim, lease_seconds, message, percent in beats
        ]
        answers = self._store.touch(touches, self._clock.now())
        self._telemetry.count(
            "fenced_writes", sum(isinstance(answer, Refused) for answer in answers)
        )
        return answers

    def put_operation(self, claim: Claimed, operation: Operation) -> Operation | Refused:
        answer = put_operation(self._cue, claim.id, claim.epoch, operation)
        if isinstance(answer, Refused) and answer.reason != "different result":
            self._telemetry.count("fenced_writes")
        return answer

    def operations(self, claim: Claimed, after: Cursor) -> Page[Operation]:
        return self._store.history(claim.id, after).operation_page

    def settle(self, queue: Queue, ends: Sequence[ClaimEnd], *, brief: bool = False) -> None:
        if not ends:
            return
        settlements = [
            self._failure(end) if end.outcome == "fail" else _settlement(end) for end in ends
        ]
        refused, _ = self._store.settle(settlements, self._clock.now())
        for position, answer in refused.items():
            end = ends[position]
            if end.may_be_done and answer.reason == "completed":
                logger.info("job %s: its transaction was committed after all", end.claim.id)
                continue
            self._came_too_late(end.claim, answer)

    def complete_all(self, queue: Queue, claims: Sequence[Claimed]) -> None:
        done = Completions(list(map(_ID, claims)), list(map(_EPOCH, claims)))
        refused, _ = self._store.settle(done, self._clock.now())
        for position, answer in refused.items():
            self._came_too_late(claims[position], answer)

    def _came_too_late(self, claim: Claimed, answer: Refused) -> None:
        log_too_late(claim.id, answer.reason)
        self._telemetry.count("fenced_writes")

    def _failure(self, end: ClaimEnd) -> Settlement:
        failure, claim = Failure(self._cue.spread(), end.retryable), end.claim
        return Settlement(claim.id, claim.epoch, Verb.FAIL, error=end.error, failure=failure)


def _settlement(end: ClaimEnd) -> Settlement:
    claim, outcome, result, *_ = end
    # As `Settlement(…)`, which takes twice the time: a batch may have thousands.
    return tuple.__new__(Settlement, (claim.id, claim.epoch, VERBS[outcome], result, *_REST))


def log_too_late(job_id: str, reason: str) -> None:
    text = "job %s: the result came too late (%s)"
    logger.warning(text, job_id, reason, extra={"job_id": job_id})
