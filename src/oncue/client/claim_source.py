"""A claim source elsewhere: a worker's claims and reports, over HTTP.

The thread on watch waits at the server for the first due job of any of its queues. What it gets
tells which queue has work; from that one it then takes as many as its handler gets done.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from oncue.client import claims as remote
from oncue.client.asking import encode, job_path
from oncue.client.claims import ClaimReport, RemoteClaim
from oncue.client.connection import Call, Connection
from oncue.client.errors import error_of
from oncue.client.polling import Polling
from oncue.core.cursor import Cursor, Page
from oncue.core.errors import Conflict, Fenced, NotFound, OncueError
from oncue.core.fencing import Refused
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touched
from oncue.core.moment import Moment
from oncue.core.polling import POLL_SECONDS
from oncue.core.queue import Queue
from oncue.engine.alarm import Alarm
from oncue.ports.store import Awaited, Listener
from oncue.usecases.reporting import CLAIM_LIMIT
from oncue.wire.claims import Beaten, BeatenItems, Claims
from oncue.wire.jobs import JobOperation, Operations
from oncue.worker.source import Beat, ClaimedBatch, ClaimEnd, log_too_late

if TYPE_CHECKING:
    from oncue.client import Client

WAIT_SECONDS = 20.0
ANSWER_SECONDS = 10.0  # callers try again themselves, and must not be held up for long
OTHERS_SECONDS = 0.5  # while one queue has work, the others are looked at so often
HEARTBEAT_SECONDS = 5.0  # by which a handler learns of a cancel; one request for all that runs
QUEUES_LIMIT = 100  # that can be waited for at once; more of them take turns
TURN_SECONDS = 1.0

logger = logging.getLogger("oncue.worker")


class RemoteClaimSource:
    """A server. The settings of queues stay there: of them a worker only needs to know how long its
    leases are and how long an attempt may take, which the claims tell."""

    beat_seconds = HEARTBEAT_SECONDS
    look_seconds = math.inf
    poll_seconds = POLL_SECONDS

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._clock = client.clock
        self._worker = worker
        self._queues = deque(client.handlers)
        self._connection: Connection = client.connection
        self.options: tuple[str, ...] | None = ("--url", client.connection.address.url)
        self._polling = Polling(client.connection)
        self._waited: dict[str, ClaimedBatch] = {}
        self._shortest = math.inf  # of the leases so far, in seconds
        self._looked = self._clock.monotonic()
        self._tell: Listener = lambda queue, due_at: None

    # -- claiming --------------------------------------------------------------------------------

    def claim(
        self, queue: str, limit: int, now: Moment, *, together: bool = False
    ) -> ClaimedBatch | None:
        """Jobs that `rest` received come first, even if another queue is asked for: their leases
        run already, and no heartbeat renews them before they are taken from here."""
        waited = self._waited.pop(queue, None)
        if waited is not None:
            return waited
        if self._waited:
            self._tell(queue, 0)
            return None
        self._look_at_others()
        batches = self._claim([queue], limit, 0.0)
        return batches[0] if batches else None

    def _hand_back(self, queue: Queue, claims: Sequence[Claimed]) -> None:
        """If that fails, they are taken back when their leases end."""
        try:
            self.settle(queue, [ClaimEnd(one, "release") for one in claims])
        except OncueError as trouble:
            logger.warning("handing back what was not begun: %s", trouble)

    def next_due(self, queue: str) -> Moment | None:
        return None

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """News comes while resting, and from nowhere else."""
        self._tell = listener
        return self._leave

    def _leave(self) -> None:
        while self._waited:
            _, batch = self._waited.popitem()
            self._hand_back(batch.queue, batch.claims)
        self.close()

    def rest(self, alarm: Alarm, seconds: float) -> None:
        if seconds <= 0 or alarm.stopped:
            return
        queues, longest = list(islice(self._queues, QUEUES_LIMIT)), WAIT_SECONDS
        if len(self._queues) > QUEUES_LIMIT:
            self._queues.rotate(-QUEUES_LIMIT)
            longest = TURN_SECONDS
        for batch in self._claim(queues, 1, min(seconds, longest)):
            self._waited[batch.queue.name] = batch
            self._tell(batch.queue.name, 0)

    def stop(self) -> None:
        self._polling.stop()

    def close(self) -> None:
        """Give the connection back, for a worker that has ended."""
        self._polling.close()

    def _look_at_others(self) -> None:
        """A queue that always has work must not hide the others."""
        if self._clock.monotonic() - self._looked >= OTHERS_SECONDS:
            self._looked = self._clock.monotonic()
            self._tell(None, 0)

    def _claim(self, queues: Sequence[str], limit: int, wait_seconds: float) -> list[ClaimedBatch]:
        limit = min(limit, CLAIM_LIMIT)
        request = remote.claim_request(
            wait_seconds, queues=queues, worker=self._worker, limit=limit
        )
        request = request._replace(timeout_seconds=ANSWER_SECONDS)
        sent = self._clock.monotonic()
        answer = self._polling.ask(request)
        if answer is None:
            return []
        by_queue: dict[str, list[RemoteClaim]] = {}
        for claim in self._connection.value(answer, Claims, remote.claims_of):
            by_queue.setdefault(claim.queue, []).append(claim)
        taken = self._clock.monotonic()
        batches = (self._batch(name, claims, sent, taken) for name, claims in by_queue.items())
        return [batch for batch in batches if batch is not None]

    def _batch(
        self, name: str, claims: list[RemoteClaim], sent: float, taken: float
    ) -> ClaimedBatch | None:
        """The leases began at the earliest when the claim was asked for. If that is long ago they
        may be over, so the first is renewed before it is begun. A heartbeat starts its job, and the
        loss of what has started counts, so the others go back instead."""
        lease = max(min(one.lease_until - one.claimed_at for one in claims), 1) / 1000
        by_queue = (c.attempt_timeout_seconds for c in claims if c.timeout_seconds is None)
        queue = Queue(name, lease_seconds=lease, timeout_seconds=next(by_queue, None))
        self._shortest = min(self._shortest, lease)
        if self._clock.monotonic() - sent < lease / 3:
            return ClaimedBatch(queue, claims, sent, taken)
        self._hand_back(queue, claims[1:])
        sent = self._clock.monotonic()
        [answer] = self.touch([Beat(claims[0], lease)])
        return ClaimedBatch(queue, claims[:1], sent, taken) if isinstance(answer, Touched) else None

    # -- reporting -------------------------------------------------------------------------------

    def interruptions(self, claims: Sequence[Claimed]) -> Mapping[int, Refused]:
        return {}

    def thread_replaced(self) -> None:
        """Nothing is counted here: it was logged."""

    def touch(self, beats: Sequence[Beat]) -> list[Touched | Refused]:
        answers: list[Touched | Refused] = []
        for start in range(0, len(beats), remote.ITEMS_LIMIT):
            items = [_beat(one) for one in beats[start : start + remote.ITEMS_LIMIT]]
            request = Call("POST", "/heartbeat", encode({"items": items}))
            body = self._ask_once(request, brief=True)
            answers += remote.answers_to(self._connection, body, BeatenItems, len(items), _beaten)
        return answers

    def put_operation(self, claim: Claimed, operation: Operation) -> Operation | Refused:
        try:
            body = self._ask_once(remote.operation_request(claim.id, _token(claim), operation))
        except (Conflict, NotFound) as error:
            return _refusal(error)
        return self._connection.value(body, JobOperation, JobOperation.read)

    def operations(self, claim: Claimed, after: Cursor) -> Page[Operation]:
        fields = {"token": _token(claim), "cursor": after}
        place = job_path(claim.id, "operations")
        body = self._ask_once(Call("POST", place, encode(fields), job_id=claim.id))
        return self._connection.value(body, Operations, Operations.read)

    def settle(self, queue: Queue, ends: Sequence[ClaimEnd], *, brief: bool = False) -> None:
        """The server knows of cancel requests, and of the attempts that are left."""
        ask = partial(self._ask_once, brief=brief)
        for report, error in remote.settle_all(self._connection, ask, map(_report, ends)):
            if error is not None:
                log_too_late(report.id, _refusal(error).reason)

    def complete_all(self, queue: Queue, claims: Sequence[Claimed]) -> None:
        self.settle(queue, [ClaimEnd(claim, "complete") for claim in claims])

    def _ask_once(self, request: Call, *, brief: bool = False) -> bytes:
        """Not repeated here. The thread that sends heartbeats also has to notice in time which
        leases are running out, of any job, so it waits only `brief`ly for an answer."""
        patience = min(ANSWER_SECONDS, max(self._shortest / 6, 0.25)) if brief else ANSWER_SECONDS
        return self._connection.ask_once(request._replace(timeout_seconds=patience))


def _token(claim: Claimed) -> str:
    assert isinstance(claim, RemoteClaim)  # it was made above
    return claim.token


def _beat(beat: Beat) -> dict[str, Any]:
    fields = beat._asdict() | {"claim": None, "id": beat.claim.id, "token": _token(beat.claim)}
    return {name: value for name, value in fields.items() if value is not None}


def _report(end: ClaimEnd) -> ClaimReport:
    claim, outcome, result, error, retryable, _ = end
    if outcome == "fail":
        return ClaimReport(claim.id, _token(claim), outcome, None, error, retryable)
    return ClaimReport(claim.id, _token(claim), outcome, result)


def _beaten(item: Beaten) -> Touched | Refused:
    return _refusal(error_of(item.problem, item.id)) if item.problem else remote.touched_of(item)


def _refusal(error: OncueError) -> Refused:
    """A report that was not taken, in the words of a store."""
    match error:
        case Fenced():
            return Refused(error.reason, error.state, error.diagnostic)
        case Conflict():
            return Refused("different result", None)
    return Refused("unknown", None)
