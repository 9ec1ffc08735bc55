"""Claims: take due jobs, then report on them with the claim's token.

For programs that claim jobs themselves. The HTTP routes, which workers elsewhere call, share the
functions in `reporting.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from oncue.core import errors, moment, token
from oncue.core import payload as payloads
from oncue.core.cursor import Cursor, Page
from oncue.core.duration import Duration
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import check_name
from oncue.engine.claiming import Claiming
from oncue.ports.clock import Clock
from oncue.usecases import intake, reporting
from oncue.usecases.jobs import LocalJobs, illegal
from oncue.usecases.reporting import Reporting, raised, sifted

UNANSWERED_KEPT = 1000


class Completion(NamedTuple):
    """A success as a worker reports it: the job, the token of the claim, the result."""

    job_id: str
    token: str
    result: Any = None


class ClaimVerbs(ABC):
    """The methods of a scheduler and of a client about claims."""

    clock: Clock

    @abstractmethod
    def token(self, claimed: Claimed) -> str:
        """The proof of a claim, for those outside this process."""

    @abstractmethod
    def start(self, job_id: str, token: str) -> Touched:
        """Report that work on a claimed job has begun."""

    def heartbeat(
        self,
        job_id: str,
        token: str,
        *,
        message: str | None = None,
        percent: float | None = None,
        lease_seconds: float | None = None,
    ) -> Touched:
        """Report that work goes on; renews the lease, and tells whether a cancel was requested."""
        return self._beat(job_id, token, reporting.beat_fields(message, percent, lease_seconds))

    @abstractmethod
    def _beat(self, job_id: str, token: str, fields: dict[str, Any]) -> Touched: ...

    def operation(
        self,
        job_id: str,
        token: str,
        name: str,
        state: str,
        *,
        result: Any = None,
        percent: float | None = None,
        message: str | None = None,
    ) -> Operation:
        """Report on one named step. Until it succeeds, its result is replaced by later ones, and a
        report without one keeps it; the result of a success is final."""
        if state not in ("executing", "succeeded", "failed"):
            raise errors.InvalidInput("must be executing, succeeded or failed.", "/state")
        operation = Operation(
            check_name(name, "an operation"),
            state,
            moment.to_datetime(self.clock.now()),
            intake.check_percent(percent),
            intake.check_message(message),
            payloads.operation_result(state, result),
        )
        return self._put_operation(job_id, token, operation)

    @abstractmethod
    def _put_operation(self, job_id: str, token: str, operation: Operation) -> Operation: ...

    def complete(self, job_id: str, token: str, result: Any = None) -> None:
        """Report success."""
        self._complete(job_id, token or "", reporting.encoded(result))  # None would mean: by hand

    def complete_by_hand(self, job_id: str, result: Any = None) -> None:
        """Record success without a token: for people, if no worker reports. Ends the current claim,
        whichever worker holds it. A server requires the scope `admin`."""
        self._complete(job_id, None, reporting.encoded(result))

    @abstractmethod
    def _complete(self, job_id: str, token: str | None, result: bytes | None) -> None: ...

    @abstractmethod
    def complete_all(self, reports: Sequence[Completion]) -> list[errors.OncueError | None]:
        """Report many successes at once. For each, in order, why it was refused, if it was."""

    def fail(
        self,
        job_id: str,
        token: str,
        error: str,
        *,
        retryable: bool = True,
        retry_after: Duration | None = None,
    ) -> None:
        """Report failure: due again after a pause if attempts remain, else failed."""
        pause = reporting.pause_seconds(retry_after)
        self._fail(job_id, token, reporting.error_text(error), retryable, pause)

    @abstractmethod
    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None: ...

    @abstractmethod
    def release(self, job_id: str, token: str) -> None:
        """Hand a job back unharmed; the attempt does not count."""


class LocalClaims(LocalJobs, Reporting, ClaimVerbs):
    """The claims of a store."""

    _unanswered: dict[tuple[object, ...], Claiming]
    """By their arguments: claims of which it is not known whether they were applied."""

    def claim(
        self,
        queues: str | Sequence[str],
        worker: str,
        *,
        limit: int = 1,
        lease_seconds: float | None = None,
    ) -> list[Claimed]:
        """Take due jobs of pulled queues. `token(claimed)` is what reports must carry. After a
        `StoreUnavailable`, call again in the same way: if the first call took jobs, they are the
        answer."""
        names = [queues] if isinstance(queues, str) else list(queues)
        taker = reporting.taker(worker, limit, lease_seconds)
        call = (*names, taker)
        claiming = self._unanswered.pop(call, None) or Claiming(self.store)
        try:
            [claims] = reporting.claim_together(self, names, [taker], claiming)
        finally:
            if claiming.has_lost and len(self._unanswered) < UNANSWERED_KEPT:
                self._unanswered[call] = claiming
        return claims

    def token(self, claimed: Claimed) -> str:
        return token.sign(self.store.secret, claimed.id, claimed.epoch)

    def start(self, job_id: str, token: str) -> Touched:
        return self._touch(reporting.started(self, job_id, token))

    def _beat(self, job_id: str, token: str, fields: dict[str, Any]) -> Touched:
        return self._touch(reporting.heartbeat(self, job_id, token, **fields))

    def _touch(self, touch: Touch) -> Touched:
        return raised(reporting.touch_all(self, [touch])[0])

    def _put_operation(self, job_id: str, token: str, operation: Operation) -> Operation:
        epoch = reporting.epoch_of(self, job_id, token)
        answer = reporting.put_operation(self, job_id, epoch, operation)
        if isinstance(answer, Refused):
            raise reporting.refusal(self, job_id, answer)
        return answer

    def complete_all(self, reports: Sequence[Completion]) -> list[errors.OncueError | None]:
        done, refused = sifted(reports, lambda one: reporting.completion(self, *one))
        left = iter(reporting.settle_all(self, done))
        answers = [refused.get(at) or next(left) for at in range(len(reports))]
        return [one if isinstance(one, errors.OncueError) else None for one in answers]

    def _complete(self, job_id: str, token: str | None, result: bytes | None) -> None:
        if token is None:
            job = self.job(job_id)
            if job.state is State.SCHEDULED:
                raise illegal("complete", job, " and no worker has taken it")
            epoch = job.epoch
        else:
            epoch = reporting.epoch_of(self, job_id, token)
        self._settle(Settlement(job_id, epoch, Verb.COMPLETE, result))

    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None:
        more: dict[str, Any] = {"retryable": retryable, "retry_after": retry_after}
        self._settle(reporting.failure(self, job_id, token, error, **more))

    def release(self, job_id: str, token: str) -> None:
        self._settle(reporting.release(self, job_id, token))

    def _settle(self, settlement: Settlement) -> None:
        raised(reporting.settle_all(self, [settlement])[0])


def claimed_operations(
    cue: LocalClaims, job_id: str, token: str, after: Cursor | None
) -> Page[Operation]:
    """The operations of a job from a cursor on, for the worker that holds the claim."""
    epoch = reporting.epoch_of(cue, job_id, token)
    refused = cue.store.interruptions([(job_id, epoch)]).get(0)
    if refused is not None and refused.reason != "cancel requested":
        raise reporting.refusal(cue, job_id, refused)
    return cue.history(job_id, after).operation_page
