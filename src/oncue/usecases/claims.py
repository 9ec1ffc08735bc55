"""Working by hand: claim jobs, then report on them with the claim's token.

Whatever speaks for a worker outside this process comes through here. The Python worker settles in
bulk and shares the decisions at the end of this file.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from oncue.core import errors, moment, retry, token
from oncue.core import payload as payloads
from oncue.core.duration import Duration
from oncue.core.duration import seconds as length
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, Job, Operation
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue, check_queue_name
from oncue.core.text import legible
from oncue.ports.claims import Touch, Touched
from oncue.ports.clock import Clock
from oncue.usecases import intake
from oncue.usecases.jobs import LocalJobs, possible_id

CLAIM_LIMIT = 5000  # jobs that one claim takes at most


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
        fields = {
            "message": intake.check_message(message),
            "percent": intake.check_percent(percent),
            "lease_seconds": intake.check_lease(lease_seconds),
        }
        return self._beat(job_id, token, fields)

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
            check_queue_name(name, "/name"),
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
        self._complete(job_id, token or "", _encoded(result))  # None would mean: by hand

    def complete_by_hand(self, job_id: str, result: Any = None) -> None:
        """Record success on somebody's word: for people, where no worker reports by itself. Ends
        the present claim, whoever holds it. At a server it takes the scope `admin`."""
        self._complete(job_id, None, _encoded(result))

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
        if not isinstance(error, str):
            raise errors.InvalidInput("must be text that says what went wrong.", "/error")
        pause = None if retry_after is None else length(retry_after, "/retry_after")
        self._fail(job_id, token, legible(error), retryable, pause)

    @abstractmethod
    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None: ...

    @abstractmethod
    def release(self, job_id: str, token: str) -> None:
        """Hand a job back unharmed; the attempt does not count."""


class LocalClaims(LocalJobs, ClaimVerbs):
    """The claims of a store."""

    spread: Callable[[], float] = staticmethod(random.random)
    """Where in its range the next back-off lies, from 0 to 1."""

    def claim(
        self,
        queues: str | Sequence[str],
        worker: str,
        *,
        limit: int = 1,
        lease_seconds: float | None = None,
    ) -> list[Claimed]:
        """Take due jobs of pulled queues. `token(claimed)` is what reports must carry."""
        names = [queues] if isinstance(queues, str) else list(queues)
        wanted = [self.policies(check_queue_name(name)) for name in names]
        if intake.label(worker, "/worker") is None:
            raise errors.InvalidInput(
                "say who claims: any name that tells workers apart.", "/worker"
            )
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= CLAIM_LIMIT:
            raise errors.InvalidInput(f"must be a whole number from 1 to {CLAIM_LIMIT}.", "/limit")
        lease = intake.check_lease(lease_seconds)
        claims = self.store.claim(wanted, worker, limit, self.clock.now(), lease_seconds=lease)
        self.telemetry.claimed(claims, self.clock.now())
        return claims

    def token(self, claimed: Claimed) -> str:
        return token.sign(self.store.secret, claimed.id, claimed.epoch)

    def start(self, job_id: str, token: str) -> Touched:
        return self._touch(Touch(job_id, self._epoch(job_id, token)))

    def _beat(self, job_id: str, token: str, fields: dict[str, Any]) -> Touched:
        epoch = self._epoch(job_id, token)
        if fields["lease_seconds"] is None:
            fields["lease_seconds"] = self.policies(self.job(job_id).queue).lease_seconds
        return self._touch(Touch(job_id, epoch, **fields))

    def _touch(self, touch: Touch) -> Touched:
        [answer] = self.store.touch([touch], self.clock.now())
        if isinstance(answer, Refused):
            raise self._refusal(touch.id, answer)
        return answer

    def _put_operation(self, job_id: str, token: str, operation: Operation) -> Operation:
        epoch = self._epoch(job_id, token)
        answer = self.store.put_operation(job_id, epoch, operation, self.clock.now())
        if isinstance(answer, Refused):
            raise self._refusal(job_id, answer)
        return answer

    def complete_all(self, reports: Sequence[Completion]) -> list[errors.OncueError | None]:
        answers: list[errors.OncueError | None] = [None] * len(reports)
        settlements: list[Settlement] = []
        places: list[int] = []
        for place, (job_id, proof, result) in enumerate(reports):
            try:
                epoch = self._epoch(job_id, proof)
                settlements.append(self._completion(job_id, epoch, _encoded(result)))
                places.append(place)
            except (errors.InvalidInput, errors.NotFound) as problem:
                answers[place] = problem
        refusals = self.store.settle(settlements, self.clock.now()) if settlements else {}
        for position, refused in refusals.items():
            answers[places[position]] = self._refusal(settlements[position].id, refused)
        return answers

    def _complete(self, job_id: str, token: str | None, result: bytes | None) -> None:
        if token is None:
            job = self.job(job_id)
            if job.state is State.SCHEDULED:
                why = "nobody has taken it"
                raise errors.IllegalState(
                    f"cannot complete job {job_id}: it is {job.state}, {why}.", job.state
                )
            epoch = job.epoch
        else:
            epoch = self._epoch(job_id, token)
        self._settle(self._completion(job_id, epoch, result))

    def _completion(self, job_id: str, epoch: int, result: bytes | None) -> Settlement:
        return Settlement(job_id, epoch, Verb.COMPLETE, result=result, **self._keeping(job_id))

    def _fail(
        self, job_id: str, token: str, error: str, retryable: bool, retry_after: float | None
    ) -> None:
        epoch, now = self._epoch(job_id, token), self.clock.now()
        if retry_after is not None:
            intake.after(retry_after, now, "/retry_after")
        job = self.store.get(job_id)
        if job is None:  # refused, unless this repeats the write that removed the job
            self._settle(Settlement(job_id, epoch, Verb.FAIL, error=error))
            return
        options = {"retryable": retryable, "cancelled": job.cancel_requested}
        self._settle(failure(self, job, epoch, error, now, **options, retry_after=retry_after))

    def release(self, job_id: str, token: str) -> None:
        epoch = self._epoch(job_id, token)
        self._settle(Settlement(job_id, epoch, Verb.RELEASE, **self._keeping(job_id)))

    def _epoch(self, job_id: str, proof: str) -> int:
        proof = proof if isinstance(proof, str) and proof.isascii() else ""
        return token.epoch_of(self.store.secret, possible_id(job_id), proof)

    def _keeping(self, job_id: str) -> dict[str, Any]:
        """`keeping` of the job's queue. It is looked up only where that may make a difference."""
        if self.policies.all_keep_history:
            return {}
        found = self.store.get(job_id)
        return {} if found is None else keeping(self.policies(found.queue))

    def _settle(self, settlement: Settlement) -> None:
        refused = self.store.settle([settlement], self.clock.now()).get(0)
        if refused is not None:
            raise self._refusal(settlement.id, refused)

    def _refusal(self, job_id: str, refused: Refused) -> errors.OncueError:
        if refused.reason != "different result":
            self.telemetry.count("fenced_writes")
        return refusal(job_id, refused)


def _encoded(result: Any) -> bytes | None:
    return None if result is None else payloads.encode(result, "/result")


def failure(
    cue: LocalClaims,
    job: Job | Claimed,
    epoch: int,
    error: str,
    now: moment.Moment,
    *,
    retryable: bool,
    cancelled: bool,
    retry_after: float | None = None,
) -> Settlement:
    """The settlement of an attempt that failed now."""
    queue = cue.policies(job.queue)
    verdict = retry.after_failure(
        left=retry.attempts_left(job.attempt, job.attempt_base, job.max_attempts, queue),
        failures=job.attempt - job.attempt_base,
        retryable=retryable,
        cancelled=cancelled,
        policy=queue.retry,
        now=now,
        spread=cue.spread(),
        retry_after_seconds=retry_after,
    )
    return Settlement(
        job.id,
        epoch,
        verdict.verb,
        error=error,
        due_at=verdict.due_at,
        code=verdict.code,
        detail=verdict.detail,
        **keeping(queue),
    )


def keeping(queue: Queue) -> dict[str, Any]:
    """The fields of a settlement that say whether the job is kept when it ends, and for how long a
    repetition is recognised if it is not. Empty where it is kept: that is their default, and each
    field that is given costs time."""
    return {} if queue.keeps_history else {"keep": False, "lease_seconds": queue.lease_seconds}


def refusal(job_id: str, refused: Refused) -> errors.OncueError:
    """The error that tells a writer why its write was not applied."""
    if refused.reason == "unknown" or refused.state is None:
        return errors.NotFound(
            f"there is no such claim on job {job_id!r}; it may be past retention."
        )
    if refused.reason == "different result":
        return errors.Conflict(
            f"job {job_id}: this operation has another result already; it is kept."
        )
    return errors.Fenced(job_id, refused.reason, refused.state, refused.diagnostic)
