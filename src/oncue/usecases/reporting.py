"""Reports of workers on their claims: each is checked by itself, then many are applied together.

What a worker sends becomes a `Touch` or a `Settlement`, or is refused. Only then it is part of a
call of the store: so a report that makes no sense spoils no other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from oncue.core import errors, token
from oncue.core import payload as payloads
from oncue.core.checks import whole
from oncue.core.duration import Duration
from oncue.core.duration import seconds as length
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed, Operation
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import check_queue_name
from oncue.core.retry import Failure
from oncue.core.sharing import Taker
from oncue.core.text import legible, quoted
from oncue.engine.claiming import Claiming
from oncue.usecases import intake
from oncue.usecases.jobs import possible_id
from oncue.usecases.local import Local

CLAIM_LIMIT = 5000  # jobs that one claim takes at most

R = TypeVar("R")
T = TypeVar("T")


class Reporting(Local):
    """What those need who apply reports."""

    spread: Callable[[], float] = staticmethod(random.random)
    """Where in its range the next back-off lies, from 0 to 1."""


# -- claiming --------------------------------------------------------------------------------------


def taker(worker: str, limit: int, lease_seconds: Duration | None) -> Taker:
    if intake.label(worker, "/worker") is None:
        raise errors.InvalidInput("name the worker: any name that no other worker has.", "/worker")
    whole(limit, 1, CLAIM_LIMIT, "/limit")
    return Taker(worker, limit, intake.check_lease(lease_seconds))


def claim_together(
    cue: Local, queues: Sequence[str], takers: Sequence[Taker], claiming: Claiming
) -> list[list[Claimed]]:
    """Take due jobs for several takers by one call."""
    wanted = [cue.policies(check_queue_name(name)) for name in queues]
    claims = claiming.claim(wanted, takers, cue.clock.now())
    cue.telemetry.claimed([one for share in claims for one in share], cue.clock.now())
    return claims


# -- signs of life ---------------------------------------------------------------------------------


def started(cue: Local, job_id: str, proof: str) -> Touch:
    return Touch(job_id, epoch_of(cue, job_id, proof))


def heartbeat(cue: Local, job_id: str, proof: str, **fields: Any) -> Touch:
    """`fields` as of `beat_fields`."""
    return Touch(job_id, epoch_of(cue, job_id, proof), renew=True, **beat_fields(**fields))


def beat_fields(
    message: str | None = None,
    percent: float | None = None,
    lease_seconds: Duration | None = None,
) -> dict[str, Any]:
    """What a heartbeat tells, checked."""
    return {
        "message": intake.check_message(message),
        "percent": intake.check_percent(percent),
        "lease_seconds": intake.check_lease(lease_seconds),
    }


def touch_all(cue: Local, touches: Sequence[Touch]) -> list[Touched | errors.OncueError]:
    """Apply signs of life; for each, what came of it or why it was refused."""
    answers = cue.store.touch(touches, cue.clock.now()) if touches else []
    return [
        refusal(cue, touch.id, answer) if isinstance(answer, Refused) else answer
        for touch, answer in zip(touches, answers, strict=True)
    ]


# -- ends ------------------------------------------------------------------------------------------


def completion(cue: Local, job_id: str, proof: str, result: Any = None) -> Settlement:
    return Settlement(job_id, epoch_of(cue, job_id, proof), Verb.COMPLETE, encoded(result))


def failure(
    cue: Reporting,
    job_id: str,
    proof: str,
    error: str,
    *,
    retryable: bool = True,
    retry_after: Duration | None = None,
) -> Settlement:
    pause = pause_seconds(retry_after)
    if pause is not None:
        intake.after(pause, cue.clock.now(), "/retry_after")
    epoch, report = epoch_of(cue, job_id, proof), Failure(cue.spread(), retryable, pause)
    return Settlement(job_id, epoch, Verb.FAIL, error=error_text(error), failure=report)


def release(cue: Local, job_id: str, proof: str) -> Settlement:
    return Settlement(job_id, epoch_of(cue, job_id, proof), Verb.RELEASE)


def settle_all(cue: Local, settlements: Sequence[Settlement]) -> list[State | errors.OncueError]:
    """Settle claims; for each, the state in which the job is left, or why it was refused."""
    if not settlements:
        return []
    refused, states = cue.store.settle(settlements, cue.clock.now())
    return [
        refusal(cue, one.id, refused[at]) if at in refused else states.get(at, State.SUCCEEDED)
        for at, one in enumerate(settlements)
    ]


# -- operations ------------------------------------------------------------------------------------


def put_operation(cue: Local, job_id: str, epoch: int, operation: Operation) -> Operation | Refused:
    """Store a report on an operation. Raises `InvalidInput` if the job has no room for it."""
    limits = cue.operation_limits
    answer = cue.store.put_operation(job_id, epoch, operation, cue.clock.now(), limits)
    if isinstance(answer, Refused) and (problem := limits.problem(job_id, answer.reason)):
        raise problem
    return answer


# -- all of them -----------------------------------------------------------------------------------


def sifted(
    reports: Sequence[R], ready: Callable[[R], T]
) -> tuple[list[T], dict[int, errors.OncueError]]:
    """What the reports ask for, and by position why others cannot be applied."""
    asked: list[T] = []
    refused: dict[int, errors.OncueError] = {}
    for position, report in enumerate(reports):
        try:
            asked.append(ready(report))
        except (errors.InvalidInput, errors.NotFound) as problem:
            refused[position] = problem
    return asked, refused


def raised(answer: T | BaseException) -> T:
    """The answer, unless it is an error: that is raised."""
    if isinstance(answer, BaseException):
        raise answer
    return answer


def epoch_of(cue: Local, job_id: str, proof: str) -> int:
    proof = proof if isinstance(proof, str) and proof.isascii() else ""
    return token.epoch_of(cue.store.secret, possible_id(job_id), proof)


def encoded(result: Any) -> bytes | None:
    return None if result is None else payloads.encode(result, "/result")


def error_text(error: str) -> str:
    if not isinstance(error, str):
        raise errors.InvalidInput("must be text that says what went wrong.", "/error")
    return legible(error)


def pause_seconds(retry_after: Duration | None) -> float | None:
    return None if retry_after is None else length(retry_after, "/retry_after")


def refusal(cue: Local, job_id: str, refused: Refused) -> errors.OncueError:
    """The error that tells a writer why its write was not applied. It is counted."""
    if refused.reason == "different result":
        return errors.Conflict(
            f"job {job_id}: this operation has another result already; it is kept."
        )
    cue.telemetry.count("fenced_writes")
    if refused.state is None:
        return errors.NotFound(f"there is no job {quoted(job_id)}; it may be past retention.")
    return errors.Fenced(job_id, refused.reason, refused.state, refused.diagnostic)
