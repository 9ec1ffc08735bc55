"""What becomes of an attempt that failed, fell silent or went on too long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.job import Lapse
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import HORIZON_MS
from oncue.core.queue import Queue, RetryPolicy
from oncue.core.retry import (
    Failure,
    Verdict,
    after_failure,
    after_lapse,
    attempts_left,
    backoff_seconds,
    lapse_facts,
)

NOW = 1_800_000_000_000
Q = Queue("q")


def failed(**facts: Any) -> Verdict:
    """`left`: how many attempts are; `failures`: how many failed, this one included."""
    given = {"left": 1, "failures": 1, "cancelled": False, **facts}
    left, failures, cancelled = (given.pop(name) for name in ("left", "failures", "cancelled"))
    policy = RetryPolicy(initial_seconds=2, factor=3, max_seconds=50)
    queue = Queue("q", retry=given.pop("policy", policy))
    failure = Failure(**{"spread": 1.0, **given})
    return after_failure(failure, failures, 0, left + failures, queue, NOW, cancelled=cancelled)


def lapse(**facts: Any) -> Lapse:
    usual = Lapse(
        id="a",
        queue="q",
        state=State.EXECUTING,
        epoch=1,
        attempt=1,
        attempt_base=0,
        max_attempts=None,
        strikes=0,
        cancel_requested=False,
        worker="ada",
        claimed_at=NOW - 90_000,
        updated_at=NOW - 60_500,
        lease_until=NOW - 500,
        overlong_at=None,
    )
    return usual._replace(**facts)


def test_a_failure_with_attempts_left_is_due_again_after_its_back_off() -> None:
    assert failed() == Verdict(Verb.RETRY, "failure", "Failed; due again in 2 s.", NOW + 2000)
    assert failed(failures=2).due_at == NOW + 6000
    assert failed(failures=3).due_at == NOW + 18_000
    assert failed(failures=4).due_at == NOW + 50_000


def test_a_pause_that_the_worker_asks_for_replaces_the_back_off() -> None:
    assert failed(retry_after_seconds=0.5).due_at == NOW + 500
    assert failed(retry_after_seconds=0).due_at == NOW
    assert failed(failures=9, retry_after_seconds=3600).due_at == NOW + 3_600_000


@pytest.mark.parametrize(
    ("facts", "verb"),
    [
        ({"left": 0}, Verb.FAIL),
        ({"left": -1, "failures": 2}, Verb.FAIL),
        ({"retryable": False}, Verb.FAIL),
        ({"cancelled": True}, Verb.DROP),
        ({"cancelled": True, "left": 0, "retryable": False}, Verb.DROP),
    ],
)
def test_a_failure_that_is_not_tried_again_says_why(facts: dict[str, Any], verb: Verb) -> None:
    verdict = failed(**facts)
    assert (verdict.verb, verdict.due_at) == (verb, None)
    assert verdict.detail.startswith("Failed")


@given(
    failures=st.integers(1, 1000),
    spread=st.floats(0, 1, exclude_max=True),
    initial=st.floats(0, 1e6),
    factor=st.floats(1, 1000),
    most=st.floats(0, 1e6),
)
def test_back_off_lies_in_the_upper_half_of_its_range(
    failures: int, spread: float, initial: float, factor: float, most: float
) -> None:
    policy = RetryPolicy(initial, factor, most)
    pause = backoff_seconds(policy, failures, spread)
    full = backoff_seconds(policy, failures, 1.0)
    assert full / 2 <= pause <= full <= most


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    pauses = {backoff_seconds(RetryPolicy(), 3, spread / 10) for spread in range(10)}
    assert len(pauses) == 10


def test_a_revived_job_has_its_whole_allowance_again() -> None:
    assert attempts_left(attempt=3, base=0, job_max=None, queue=Q) == 0
    assert attempts_left(attempt=4, base=3, job_max=None, queue=Q) == 2
    assert attempts_left(attempt=4, base=3, job_max=1, queue=Q) == 0
    assert attempts_left(attempt=1, base=0, job_max=20, queue=Q) == 19


def test_a_silent_claim_is_due_again_at_once_and_without_back_off() -> None:
    verdict = after_lapse(lapse(), Q, NOW)
    assert (verdict.verb, verdict.code, verdict.due_at) == (Verb.RECLAIM, "timeout_executing", NOW)
    assert verdict.detail == "Nothing was heard from the worker for 60.5 s. Due again at once."


def test_a_claim_that_never_started_is_told_apart() -> None:
    assert after_lapse(lapse(state=State.DISPATCHED), Q, NOW).code == "timeout_dispatched"


def test_an_overlong_attempt_is_told_as_such_even_if_it_is_silent_too() -> None:
    verdict = after_lapse(lapse(overlong_at=NOW - 500), Q, NOW)
    told = "The attempt ran for 90 s; its timeout came after 89.5 s."
    assert verdict.detail.startswith(told)
    assert after_lapse(lapse(overlong_at=NOW + 1), Q, NOW).detail.startswith("Nothing was heard")


def test_the_last_attempt_is_given_up() -> None:
    verdict = after_lapse(lapse(attempt=3), Q, NOW)
    assert (verdict.verb, verdict.code) == (Verb.GIVE_UP, "timeout_executing")
    assert verdict.detail.endswith("No attempt is left.")
    assert after_lapse(lapse(attempt=3, max_attempts=4), Q, NOW).verb is Verb.RECLAIM
    assert after_lapse(lapse(attempt=3, attempt_base=1), Q, NOW).verb is Verb.RECLAIM


@pytest.mark.parametrize(("poison_after", "strikes"), [(3, 2), (1, 0), (100, 99)])
def test_so_many_losses_after_a_start_without_a_finished_operation_are_poison(
    poison_after: int, strikes: int
) -> None:
    many = Queue("q", max_attempts=20, poison_after=poison_after)
    verdict = after_lapse(lapse(attempt=9, strikes=strikes), many, NOW)
    assert (verdict.verb, verdict.code) == (Verb.GIVE_UP, "poison")
    often = "once" if poison_after == 1 else f"{poison_after} times"
    assert verdict.detail.endswith(
        f"Lost {often} after it had started, without finishing another operation. "
        f"Given up as poison (poison_after {poison_after} of queue q); 'oncue jobs retry a' tries "
        "again."
    )
    fewer = after_lapse(lapse(attempt=9, strikes=strikes - 1), many, NOW)
    assert (fewer.verb, fewer.strike) == (Verb.RECLAIM, True)


def test_a_queue_may_have_no_poison() -> None:
    never = Queue("q", max_attempts=20, poison_after=0)
    assert after_lapse(lapse(attempt=9, strikes=99), never, NOW).verb is Verb.RECLAIM


@pytest.mark.parametrize("alone", [True, False])
def test_a_claim_that_never_started_is_no_strike(alone: bool) -> None:
    many = Queue("q", max_attempts=20)
    verdict = after_lapse(
        lapse(state=State.DISPATCHED, attempt=9, strikes=2, alone=alone), many, NOW
    )
    assert (verdict.verb, verdict.strike) == (Verb.RECLAIM, False)


def test_a_claim_that_was_only_fetched_with_others_uses_no_attempt() -> None:
    fetched = lapse(state=State.DISPATCHED, attempt=3)
    verdict = after_lapse(fetched, Q, NOW)
    assert (verdict.verb, verdict.uses_attempt) == (Verb.RECLAIM, False)
    assert verdict.detail == (
        "Nothing was heard from the worker for 60.5 s. It had not started, and may have been "
        "fetched together with others: no attempt is used. Due again at once."
    )
    assert lapse_facts(fetched, verdict, NOW)["uses_attempt"] is False
    overlong = after_lapse(fetched._replace(overlong_at=NOW), Q, NOW)
    assert (overlong.verb, overlong.uses_attempt) == (Verb.RECLAIM, False)


@pytest.mark.parametrize(
    "counted",
    [
        {"state": State.EXECUTING},
        {"state": State.DISPATCHED, "alone": True},
        {"state": State.DISPATCHED, "lease_until": None, "overlong_at": NOW},
    ],
)
def test_a_claim_that_started_or_was_alone_or_handed_over_uses_its_attempt(
    counted: dict[str, Any],
) -> None:
    assert after_lapse(lapse(**counted), Q, NOW).uses_attempt
    assert after_lapse(lapse(attempt=3, **counted), Q, NOW).verb is Verb.GIVE_UP


def test_what_was_asked_to_end_ends_cancelled_and_is_never_tried_again() -> None:
    for facts in ({}, {"attempt": 3}, {"strikes": 2}):
        verdict = after_lapse(lapse(cancel_requested=True, **facts), Q, NOW)
        assert verdict.verb is Verb.DROP


@pytest.mark.parametrize("failures", [1, 2, 1000])
@pytest.mark.parametrize(
    "policy",
    [RetryPolicy(1.0, 1e20, 1.0), RetryPolicy(1e17, 2.0, 1e18), RetryPolicy(1e308, 1e308, 1e308)],
)
def test_a_policy_without_bounds_makes_no_pause_beyond_a_century(
    policy: RetryPolicy, failures: int
) -> None:
    assert 0 < backoff_seconds(policy, failures, 0.5) <= HORIZON_MS / 1000
