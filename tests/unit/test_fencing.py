"""What the end of a claim makes of a job, which settlements are not applied, which are repetitions,
and what a late write is told."""

from __future__ import annotations

import pytest

from oncue.core.fencing import (
    End,
    Ending,
    Held,
    Refused,
    Settlement,
    Write,
    hand_over,
    late_write,
    reclaim,
    refusal,
    settle,
    write_behind,
)
from oncue.core.job import Diagnostic, Lapse
from oncue.core.lease import NO_LEASE, Lease
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import to_datetime
from oncue.core.putoff import put_off_until
from oncue.core.queue import Queue
from oncue.core.retry import Failure, Verdict

NOW = 10_000
Q = Queue("q", max_attempts=3)
HELD = Held(
    id="a",
    queue="q",
    state=State.EXECUTING,
    covered=False,
    epoch=5,
    attempt=3,
    attempt_base=1,
    max_attempts=None,
    strikes=1,
    ahead=True,
    due_at=1_000,
    refusals=2,
    worker="ada",
    claimed_at=2_000,
    updated_at=3_000,
    cancel_requested=False,
    lease=Lease(60_000),
    result=None,
    error="before",
)
LAPSE = Lapse("a", "q", State.EXECUTING, 5, 3, 1, None, 1, False, "ada", 2_000, 3_000, 9_000, None)
WAITING = HELD._replace(state=State.SCHEDULED, updated_at=NOW, lease=NO_LEASE)
ENDS = [Verb.COMPLETE, Verb.FAIL, Verb.DROP]
RETURNS = [Verb.RETRY, Verb.RELEASE]


def told(code: str, detail: str, facts: dict[str, object]) -> Diagnostic:
    return Diagnostic(to_datetime(NOW), code, detail, 3, 5, facts)


def test_a_completed_job_has_its_result_and_no_error() -> None:
    ending = settle(HELD, Settlement("a", 5, Verb.COMPLETE, result=b"1"), Q, NOW)
    job = WAITING._replace(state=State.SUCCEEDED, ahead=False, result=b"1", error=None)
    assert ending == Ending("succeeded", None, job)


@pytest.mark.parametrize(
    ("verb", "outcome", "state"),
    [
        (Verb.FAIL, "failed", State.FAILED),
        (Verb.DROP, "cancelled", State.CANCELLED),
        (Verb.RETRY, "retried", State.SCHEDULED),
    ],
)
def test_a_failure_leaves_its_error_and_a_diagnostic(
    verb: Verb, outcome: str, state: State
) -> None:
    failure = Settlement("a", 5, verb, error="E", code="failure", detail="why", due_at=20_000)
    facts: dict[str, object] = {"worker": "ada", "error": "E", "decision": verb.value}
    due_at = 20_000 if verb is Verb.RETRY else 1_000
    job = WAITING._replace(state=state, ahead=False, error="E", due_at=due_at)
    assert settle(HELD, failure, Q, NOW) == Ending(outcome, told("failure", "why", facts), job)


@pytest.mark.parametrize(
    ("held", "failure", "state"),
    [
        (HELD, Failure(0.5), State.SCHEDULED),
        (HELD._replace(attempt_base=0), Failure(0.5), State.FAILED),
        (HELD._replace(attempt_base=0, max_attempts=4), Failure(0.5), State.SCHEDULED),
        (HELD, Failure(0.5, retryable=False), State.FAILED),
        (HELD._replace(cancel_requested=True), Failure(0.5), State.CANCELLED),
    ],
)
def test_what_becomes_of_a_failure_is_decided_by_the_job_and_its_queue(
    held: Held, failure: Failure, state: State
) -> None:
    ending = settle(held, Settlement("a", 5, Verb.FAIL, error="E", failure=failure), Q, NOW)
    assert isinstance(ending, Ending)
    assert (ending.job.state, ending.job.error) == (state, "E")
    assert ending.diagnostic is not None


def test_a_failure_may_ask_for_its_own_pause() -> None:
    failure = Failure(0.5, retry_after_seconds=7)
    ending = settle(HELD, Settlement("a", 5, Verb.FAIL, error="E", failure=failure), Q, NOW)
    assert isinstance(ending, Ending)
    assert ending.job.due_at == NOW + 7_000


def test_a_released_job_is_as_before_and_its_attempt_is_given_back() -> None:
    ending = settle(HELD, Settlement("a", 5, Verb.RELEASE), Q, NOW)
    assert ending == Ending("released", None, WAITING._replace(attempt=2))


def test_a_job_that_its_sink_refused_for_now_is_put_off() -> None:
    ending = settle(HELD, Settlement("a", 5, Verb.RELEASE, error="busy", put_off=True), Q, NOW)
    until = put_off_until(Q.retry, "a", 3, NOW)
    job = WAITING._replace(attempt=2, error="busy", refusals=3, not_before=until)
    assert ending == Ending("released", None, job)


@pytest.mark.parametrize("verb", RETURNS)
def test_a_job_does_not_wait_again_if_a_cancel_was_requested(verb: Verb) -> None:
    held = HELD._replace(cancel_requested=True)
    ending = settle(held, Settlement("a", 5, verb, error="E"), Q, NOW)
    assert isinstance(ending, Ending)
    assert (ending.job.state, ending.outcome) == (State.CANCELLED, "cancelled")
    assert ending.diagnostic is not None
    words = {
        Verb.RETRY: ("failure", "Failed after a cancel was requested."),
        Verb.RELEASE: ("cancelled", "A cancel was requested while it was taken."),
    }
    assert (ending.diagnostic.code, ending.diagnostic.detail) == words[verb]


@pytest.mark.parametrize("verb", ENDS)
def test_a_job_ends_whatever_was_requested(verb: Verb) -> None:
    ending = settle(HELD._replace(cancel_requested=True), Settlement("a", 5, verb), Q, NOW)
    assert isinstance(ending, Ending)
    assert ending.job.cancel_requested


@pytest.mark.parametrize("verb", [*ENDS, *RETURNS])
def test_a_settlement_that_expects_another_update_is_not_applied(verb: Verb) -> None:
    expecting = Settlement("a", 5, verb, updated_at=2_999)
    assert settle(HELD, expecting, Q, NOW) == Refused("moved on", State.EXECUTING)
    assert isinstance(settle(HELD, expecting._replace(updated_at=3_000), Q, NOW), Ending)


@pytest.mark.parametrize(("strike", "uses_attempt"), [(True, True), (False, False)])
def test_a_reclaimed_job_waits_ahead_of_others_with_a_new_epoch(
    strike: bool, uses_attempt: bool
) -> None:
    verdict = Verdict(Verb.RECLAIM, "code", "why", NOW, strike=strike, uses_attempt=uses_attempt)
    ending = reclaim(HELD._replace(ahead=False), LAPSE, verdict, NOW)
    assert isinstance(ending, Ending)
    assert ending.diagnostic is not None
    assert (ending.diagnostic.code, ending.diagnostic.detail) == ("code", "why")
    assert (ending.diagnostic.attempt, ending.diagnostic.epoch) == (3, 5)
    strikes, attempt_base = 2 if strike else 1, 1 if uses_attempt else 2
    assert (ending.outcome, ending.job) == (
        "reclaimed",
        WAITING._replace(epoch=6, ahead=True, strikes=strikes, attempt_base=attempt_base),
    )
    assert not ending.keeps_worker


@pytest.mark.parametrize(
    ("verb", "state"), [(Verb.GIVE_UP, State.FAILED), (Verb.DROP, State.CANCELLED)]
)
def test_a_job_that_is_given_up_ends_with_the_verdict_as_its_error(
    verb: Verb, state: State
) -> None:
    ending = reclaim(HELD, LAPSE, Verdict(verb, "code", "why"), NOW)
    assert isinstance(ending, Ending)
    job = WAITING._replace(state=state, epoch=6, ahead=False, error="why")
    assert (ending.outcome, ending.job) == ("reclaimed", job)
    assert not ending.keeps_worker


@pytest.mark.parametrize(
    "changes",
    [
        {"state": State.DISPATCHED},
        {"epoch": 6},
        {"updated_at": 3_001},
        {"cancel_requested": True},
        {"state": State.SUCCEEDED},
    ],
)
def test_a_claim_that_is_not_as_it_was_seen_is_not_reclaimed(changes: dict[str, object]) -> None:
    held = HELD._replace(**changes)  # type: ignore[arg-type]
    answer = reclaim(held, LAPSE, Verdict(Verb.RECLAIM, "c", "d", NOW), NOW)
    assert answer == Refused("moved on", held.state)


def test_a_waiting_job_that_was_seen_waiting_has_no_claim_to_take() -> None:
    held = HELD._replace(state=State.SCHEDULED, covered=True)
    lapse = LAPSE._replace(state=State.SCHEDULED)
    answer = reclaim(held, lapse, Verdict(Verb.RECLAIM, "c", "d", NOW), NOW)
    assert answer == Refused("moved on", State.DISPATCHED)


def test_only_the_report_of_its_worker_leaves_the_worker_in_the_job() -> None:
    keeps = {}
    for verb in [*ENDS, *RETURNS]:
        ending = settle(HELD, Settlement("a", 5, verb), Q, NOW)
        assert isinstance(ending, Ending)
        keeps[verb] = ending.keeps_worker
    assert keeps == {verb: verb in ENDS for verb in keeps}


def test_a_retry_and_a_failure_are_the_same_write_of_the_worker() -> None:
    fail = Settlement("a", 5, Verb.FAIL, error="E")
    assert fail.write == fail._replace(verb=Verb.RETRY).write == Write("fail", "E")
    assert fail.write != fail._replace(error="F").write


def test_a_drop_is_the_write_that_the_worker_made() -> None:
    drop = Settlement("a", 5, Verb.DROP)
    assert (drop.write, drop._replace(error="E").write) == (Write("release"), Write("fail", "E"))


def test_a_hand_over_is_no_write_of_the_worker_and_ends_the_lease_of_the_dispatcher() -> None:
    assert Settlement("a", 5, Verb.HAND_OVER).write is None
    assert hand_over(HELD, NOW) == HELD._replace(lease=NO_LEASE, updated_at=NOW, refusals=0)
    asked = HELD._replace(lease=Lease(60_000, asked=True))
    assert hand_over(asked, NOW) == asked._replace(refusals=0)


def test_no_write_of_the_worker_is_behind_a_reclaim() -> None:
    assert write_behind("reclaimed", None, "E") is None


def test_a_late_write_is_recorded_with_the_attempt_and_epoch_of_its_claim() -> None:
    end = End("retried", 2, Write("fail", "E"), None)
    recorded = late_write(end, 4, "complete", NOW)
    detail = "Refused a late complete: this claim had ended (failed)."
    facts = {"write": "complete", "reason": "failed"}
    assert recorded == Diagnostic(to_datetime(NOW), "fenced", detail, 2, 4, facts)
    assert refusal(end, State.SCHEDULED, recorded) == Refused("failed", State.SCHEDULED, recorded)


def test_a_late_writer_is_told_the_diagnostic_of_the_end_if_there_is_one() -> None:
    left, recorded = told("failure", "why", {}), told("fenced", "late", {})
    end = End("failed", 2, None, left)
    assert refusal(end, State.FAILED, recorded) == Refused("failed", State.FAILED, left)
    assert refusal(None, State.FAILED) == Refused("unknown", State.FAILED)
