"""What becomes of a job whose attempt failed, was lost or went on too long. Pure decisions."""

from __future__ import annotations

from typing import Any, NamedTuple

from oncue.core.job import Lapse
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment, render
from oncue.core.queue import Queue, RetryPolicy

EXPIRED = "Expired: it was not taken in time."  # of a waiting job; error and diagnostic


class Verdict(NamedTuple):
    """How an attempt ends: the verb, when the job is due again (retries), and why."""

    verb: Verb
    code: str
    detail: str
    due_at: Moment | None = None
    silent_beyond_ms: int | None = None
    """The silence that was too long, where neither lease nor timeout decided."""
    strike: bool = False
    """RECLAIM: whether the loss counts towards its queue's `poison_after`."""
    uses_attempt: bool = True
    """RECLAIM: whether the claim counts as an attempt. If not, `attempt` stays as it is, so that
    every hand-over has a number of its own, and `attempt_base` is raised by one instead."""


class Failure(NamedTuple):
    """What a worker says of its failure, beside the error."""

    spread: float
    """From 0 to 1: where in its range the back-off lies."""
    retryable: bool = True
    retry_after_seconds: float | None = None
    """The pause that it asks for; None: by the policy of the queue."""


FAILED_UNWANTED = Verdict(Verb.DROP, "failure", "Failed after a cancel was requested.")
RETURNED_UNWANTED = Verdict(Verb.DROP, "cancelled", "A cancel was requested while it was taken.")
"""Of a job that was released: nothing failed, so its code is that of the decision."""


def attempts_left(attempt: int, base: int, job_max: int | None, queue: Queue) -> int:
    """How many attempts remain after this one; `base` is how many do not count."""
    return (job_max or queue.max_attempts) - (attempt - base)


def backoff_seconds(policy: RetryPolicy, failures: int, spread: float) -> float:
    """The pause after the nth failure. `spread` in [0, 1) places it in the upper half of the range,
    so that jobs which failed together do not come back together. At most 100 years, whatever the
    policy says: the end of the pause is a moment, and there is no moment after the last."""
    policy = policy.bounded()
    steps = min(failures - 1, 64)
    full = min(policy.max_seconds, policy.initial_seconds * policy.factor**steps)
    return full * (0.5 + spread / 2)


def after_failure(
    failure: Failure,
    attempt: int,
    base: int,
    job_max: int | None,
    queue: Queue,
    now: Moment,
    *,
    cancelled: bool,
) -> Verdict:
    """The verdict on an attempt that reported failure; the numbers as for `attempts_left`."""
    if cancelled:
        return FAILED_UNWANTED
    if not failure.retryable:
        return Verdict(Verb.FAIL, "failure", "Failed: the failure is not retryable.")
    if attempts_left(attempt, base, job_max, queue) <= 0:
        return Verdict(Verb.FAIL, "failure", "Failed: no attempt is left.")
    pause = failure.retry_after_seconds
    if pause is None:
        pause = backoff_seconds(queue.retry, attempt - base, failure.spread)
    return Verdict(
        Verb.RETRY, "failure", f"Failed; due again in {pause:.3g} s.", now + round(pause * 1000)
    )


def after_lapse(lapse: Lapse, queue: Queue, now: Moment) -> Verdict:
    """The verdict on a claim that was silent beyond its lease or went on beyond its timeout."""
    return _after_loss(lapse, queue, now, _what_lapsed(lapse, now))


def after_request(lapse: Lapse, queue: Queue, now: Moment) -> Verdict:
    """The verdict on a claim that a reclaimer asks to be taken back. If the claim has lapsed, it is
    judged as every lapsed one; otherwise its diagnostic says `reported`, not that it timed out."""
    if _is_overlong(lapse, now) or (lapse.lease_until is not None and lapse.lease_until <= now):
        return after_lapse(lapse, queue, now)
    verdict = _after_loss(lapse, queue, now, "It was set to WAITING.")
    return verdict if verdict.code == "poison" else verdict._replace(code="reported")


def after_silence(
    lapse: Lapse, queue: Queue, now: Moment, beyond_ms: int, *, giving_up: bool = False
) -> Verdict:
    """The verdict on a claim that was silent for longer than a reclaim run allows, whatever its
    lease says. Giving up: it is not tried again, even if attempts remain."""
    what = _silence(lapse, now)
    if giving_up and not lapse.cancel_requested:
        verdict = Verdict(Verb.GIVE_UP, _timeout(lapse), f"{what} It is not to be tried again.")
    else:
        verdict = _after_loss(lapse, queue, now, what)
    return verdict._replace(silent_beyond_ms=beyond_ms)


def lapse_facts(lapse: Lapse, verdict: Verdict, now: Moment) -> dict[str, Any]:
    """What the diagnostic of a reclaim records beside its sentence."""
    overlong = verdict.silent_beyond_ms is None and _is_overlong(lapse, now)
    since = lapse.claimed_at if overlong else lapse.updated_at
    until = lapse.overlong_at if overlong else lapse.lease_until
    threshold_ms = verdict.silent_beyond_ms
    if threshold_ms is None and until is not None:
        threshold_ms = until - since
    facts = {
        "worker": lapse.worker,
        "updated_at": render(lapse.updated_at),
        "age_seconds": (now - since) / 1000,
        "threshold_seconds": None if threshold_ms is None else threshold_ms / 1000,
        "decision": verdict.verb.value,
        "uses_attempt": verdict.uses_attempt,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _after_loss(lapse: Lapse, queue: Queue, now: Moment, what: str) -> Verdict:
    code = _timeout(lapse)
    if lapse.cancel_requested:
        return Verdict(Verb.DROP, code, f"{what} A cancel had been requested.")
    if not _counts(lapse):
        why = "It had not started, and may have been fetched together with others"
        detail = f"{what} {why}: no attempt is used. Due again at once."
        return Verdict(Verb.RECLAIM, code, detail, now, uses_attempt=False)
    left = attempts_left(lapse.attempt, lapse.attempt_base, lapse.max_attempts, queue)
    if left <= 0:
        return Verdict(Verb.GIVE_UP, code, f"{what} No attempt is left.")
    strike, strikes = lapse.state is State.EXECUTING, lapse.strikes + 1
    if strike and 0 < queue.poison_after <= strikes:
        times = "once" if strikes == 1 else f"{strikes} times"
        often = f"Lost {times} after it had started"
        given_up = f"Given up as poison (poison_after {queue.poison_after} of queue {queue.name})"
        again = f"'oncue jobs retry {lapse.id}' tries again"
        detail = f"{what} {often}, without finishing another operation. {given_up}; {again}."
        return Verdict(Verb.GIVE_UP, "poison", detail)
    return Verdict(Verb.RECLAIM, code, f"{what} Due again at once.", now, strike=strike)


def _counts(lapse: Lapse) -> bool:
    """Whether the lost claim was an attempt. It was not if the job was only fetched together with
    others: one of them may have killed the worker. Reclaimed work is taken one at a time, so a job
    that does kill its worker still comes to an end. A job without a lease was handed over to a
    sink, which makes it an attempt of its own."""
    return lapse.state is State.EXECUTING or lapse.alone or lapse.lease_until is None


def _timeout(lapse: Lapse) -> str:
    return "timeout_executing" if lapse.state is State.EXECUTING else "timeout_dispatched"


def _is_overlong(lapse: Lapse, now: Moment) -> bool:
    return lapse.overlong_at is not None and lapse.overlong_at <= now


def _what_lapsed(lapse: Lapse, now: Moment) -> str:
    if _is_overlong(lapse, now):
        ran = (now - lapse.claimed_at) / 1000
        timeout = ((lapse.overlong_at or now) - lapse.claimed_at) / 1000
        return f"The attempt ran for {ran:.15g} s; its timeout came after {timeout:.15g} s."
    return _silence(lapse, now)


def _silence(lapse: Lapse, now: Moment) -> str:
    silent = (now - lapse.updated_at) / 1000
    return f"Nothing was heard from the worker for {silent:.15g} s."
