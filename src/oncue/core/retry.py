"""What becomes of a job whose attempt failed, was lost or went on too long. Pure decisions."""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.job import Lapse
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue, RetryPolicy

POISON_STRIKES = 3


class Verdict(NamedTuple):
    """How an attempt ends: the verb, when the job is due again (retries), and why."""

    verb: Verb
    code: str
    detail: str
    due_at: Moment | None = None


def attempts_left(attempt: int, base: int, own_max: int | None, queue: Queue) -> int:
    """How many attempts remain after this one; `base` is what earlier lives had used."""
    return (own_max or queue.max_attempts) - (attempt - base)


def backoff_seconds(policy: RetryPolicy, failures: int, spread: float) -> float:
    """The pause after the nth failure. `spread` in [0, 1) places it in the upper half of the range,
    so that jobs which failed together do not come back together."""
    steps = min(failures - 1, 64)
    full = min(policy.max_seconds, policy.initial_seconds * policy.factor**steps)
    return full * (0.5 + spread / 2)


def after_failure(
    *,
    left: int,
    failures: int,
    retryable: bool,
    cancelled: bool,
    policy: RetryPolicy,
    now: Moment,
    spread: float,
    retry_after_seconds: float | None = None,
) -> Verdict:
    """The verdict on an attempt that reported failure."""
    if cancelled:
        return Verdict(Verb.DROP, "failure", "Failed after a cancel was requested.")
    if not retryable:
        return Verdict(Verb.FAIL, "failure", "Failed: the failure is not retryable.")
    if left <= 0:
        return Verdict(Verb.FAIL, "failure", "Failed: no attempt is left.")
    pause = retry_after_seconds
    if pause is None:
        pause = backoff_seconds(policy, failures, spread)
    return Verdict(
        Verb.RETRY, "failure", f"Failed; due again in {pause:.3g} s.", now + round(pause * 1000)
    )


def after_lapse(lapse: Lapse, queue: Queue, now: Moment) -> Verdict:
    """The verdict on a claim that was silent beyond its lease or went on beyond its timeout."""
    code = "timeout_executing" if lapse.state is State.EXECUTING else "timeout_dispatched"
    what = _what_lapsed(lapse, now)
    if lapse.cancel_requested:
        return Verdict(Verb.DROP, code, f"{what} A cancel had been requested.")
    left = attempts_left(lapse.attempt, lapse.attempt_base, lapse.max_attempts, queue)
    if left <= 0:
        return Verdict(Verb.GIVE_UP, code, f"{what} No attempt is left.")
    if lapse.strikes + 1 >= POISON_STRIKES:
        return Verdict(
            Verb.GIVE_UP,
            "poison",
            f"{what} Reclaimed {POISON_STRIKES} times without finishing another operation.",
        )
    return Verdict(Verb.RECLAIM, code, f"{what} Due again at once.", now)


def _what_lapsed(lapse: Lapse, now: Moment) -> str:
    if lapse.overlong_at is not None and lapse.overlong_at <= now:
        return f"The attempt ran longer than its timeout ({_s(now - lapse.claimed_at)} s)."
    return f"Nothing was heard from the worker for {_s(now - lapse.updated_at)} s."


def _s(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".")
