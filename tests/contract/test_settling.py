"""How claims end by the worker's word."""

from __future__ import annotations

import pytest

from oncue.core.fencing import Refused
from oncue.core.lifecycle import State, Verb

from .desk import BOTH_IDS, Desk, Q, at, settlement

pytestmark = BOTH_IDS


def test_a_completed_job_has_succeeded_with_its_result(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(3)
    assert desk.complete(claimed, b'{"n": 1}') is None
    job = desk.job(claimed.id)
    assert (job.state, job.result_json, job.error) == (State.SUCCEEDED, b'{"n": 1}', None)
    assert (job.finished_at, job.updated_at, job.lease_until) == (at(desk.now), at(desk.now), None)
    (attempt,) = desk.attempts(claimed.id)
    assert (attempt.outcome, attempt.ended_at) == ("succeeded", at(desk.now))
    assert desk.codes(claimed.id) == []


def test_a_failed_job_keeps_its_error_and_a_diagnostic(desk: Desk) -> None:
    claimed = desk.take()
    desk.touch(claimed)
    assert desk.fail(claimed, "disk full", code="failure", detail="No attempt is left.") is None
    job = desk.job(claimed.id)
    assert (job.state, job.error, job.finished_at) == (State.FAILED, "disk full", at(desk.now))
    (diagnostic,) = desk.diagnostics(claimed.id)
    assert (diagnostic.code, diagnostic.detail) == ("failure", "No attempt is left.")
    assert (diagnostic.attempt, diagnostic.epoch, diagnostic.at) == (1, 1, at(desk.now))
    assert diagnostic.facts == {"worker": "ada", "error": "disk full", "decision": "fail"}
    assert desk.outcomes(claimed.id) == [(1, "failed")]


def test_a_dropped_job_is_cancelled_and_says_why(desk: Desk) -> None:
    claimed = desk.take()
    desk.request_cancel(claimed.id)
    assert desk.drop(claimed, error="boom", detail="Cancelled.") is None
    job = desk.job(claimed.id)
    assert (job.state, job.error, job.finished_at) == (State.CANCELLED, "boom", at(desk.now))
    assert desk.codes(claimed.id) == ["failure"]
    assert desk.outcomes(claimed.id) == [(1, "cancelled")]


def test_a_retried_job_comes_again_at_its_time_with_the_next_attempt(desk: Desk) -> None:
    claimed = desk.take()
    assert desk.retry(claimed, "boom", due_at=desk.now + 5_000) is None
    job = desk.job(claimed.id)
    assert (job.state, job.due_at) == (State.SCHEDULED, at(desk.now + 5_000))
    assert (job.attempt, job.finished_at, job.worker, job.lease_until) == (1, None, None, None)
    assert desk.codes(claimed.id) == ["failure"]
    assert desk.claim() == []
    desk.clock.advance(5)
    again = desk.retake(claimed.id, worker="bob")
    assert (again.attempt, again.epoch) == (2, 2)
    assert desk.outcomes(claimed.id) == [(1, "retried"), (2, None)]
    assert [attempt.worker for attempt in desk.attempts(claimed.id)] == ["ada", "bob"]


def test_a_success_after_a_failure_leaves_no_error(desk: Desk) -> None:
    claimed = desk.take()
    desk.retry(claimed, "boom")
    desk.complete(desk.retake(claimed.id))
    assert desk.job(claimed.id).error is None


def test_a_released_job_is_as_before_and_its_attempt_is_given_back(desk: Desk) -> None:
    claimed = desk.take(due_in=-7, priority=2)
    before = desk.job(claimed.id)
    desk.clock.advance(1)
    assert desk.release(claimed) is None
    job = desk.job(claimed.id)
    assert (job.state, job.attempt, job.due_at) == (State.SCHEDULED, 0, before.due_at)
    assert (job.worker, job.lease_until) == (None, None)
    assert desk.codes(claimed.id) == []
    again = desk.retake(claimed.id)
    assert (again.attempt, again.epoch) == (1, 2)
    assert desk.outcomes(claimed.id) == [(1, "released"), (1, None)]


def test_a_batch_of_settlements_names_the_refused_ones_only(desk: Desk) -> None:
    desk.add_many(6)
    done, failed, retried, released, dropped, late = desk.claim()
    desk.complete(late, b"first")
    settled = desk.store.settle(
        [
            settlement(done, Verb.COMPLETE, result=b"1"),
            settlement(late, Verb.COMPLETE, result=b"second"),
            settlement(failed, Verb.FAIL, error="x"),
            settlement(retried, Verb.RETRY, error="x", due_at=desk.now + 1),
            settlement(released, Verb.RELEASE),
            settlement(dropped, Verb.DROP),
            settlement(done._replace(id="nothing"), Verb.COMPLETE),
        ],
        desk.now,
    )
    assert {position: refusal.reason for position, refusal in settled.refused.items()} == {
        1: "completed",
        6: "unknown",
    }
    assert settled.states == {
        2: State.FAILED,
        3: State.SCHEDULED,
        4: State.SCHEDULED,
        5: State.CANCELLED,
    }
    assert [desk.state(claimed.id) for claimed in (done, failed, retried, released, dropped)] == [
        State.SUCCEEDED,
        State.FAILED,
        State.SCHEDULED,
        State.SCHEDULED,
        State.CANCELLED,
    ]
    assert desk.store.settle([], desk.now) == ({}, {})


def test_many_completions_without_result_are_settled_at_once(desk: Desk) -> None:
    desk.add_many(50)
    claims = desk.claim()
    desk.fail(claims[7])
    writes = [settlement(claimed, Verb.COMPLETE) for claimed in claims]
    refused, _ = desk.store.settle(writes, desk.now)
    assert {position: refusal.reason for position, refusal in refused.items()} == {7: "failed"}
    assert len(desk.listed(state=State.SUCCEEDED)) == 49
    assert list(desk.store.settle(writes, desk.now).refused) == [7]
    assert desk.outcomes(claims[0].id) == [(1, "succeeded")]


def test_several_claims_settled_twice_in_one_batch_are_settled_by_the_first(desk: Desk) -> None:
    desk.add_many(3)
    claims = desk.claim()
    first, other = (
        [settlement(one, Verb.COMPLETE, result=result) for one in claims] for result in (b"1", b"2")
    )
    refused = desk.store.settle([*first, *other], desk.now).refused
    assert {at: answer.reason for at, answer in refused.items()} == dict.fromkeys(
        (3, 4, 5), "completed"
    )
    assert [desk.job(one.id).result_json for one in claims] == [b"1"] * 3


def test_several_claims_released_and_failed_in_one_batch_are_released(desk: Desk) -> None:
    desk.add_many(3)
    claims = desk.claim()
    releases = [settlement(one, Verb.RELEASE) for one in claims]
    failures = [settlement(one, Verb.FAIL, error="boom") for one in claims]
    refused = desk.store.settle([*releases, *failures], desk.now).refused
    assert list(refused) == [3, 4, 5]
    assert {desk.state(one.id) for one in claims} == {State.SCHEDULED}


def test_a_claim_settled_twice_in_one_batch_is_settled_by_the_first(desk: Desk) -> None:
    claimed = desk.take()
    refused, _ = desk.store.settle(
        [
            settlement(claimed, Verb.COMPLETE, result=b"first"),
            settlement(claimed, Verb.COMPLETE, result=b"first"),
            settlement(claimed, Verb.COMPLETE, result=b"second"),
            settlement(claimed, Verb.FAIL, error="x"),
        ],
        desk.now,
    )
    assert list(refused) == [2, 3]
    assert desk.job(claimed.id).result_json == b"first"


SETTLEMENTS = [
    (Verb.COMPLETE, {"result": b"r"}),
    (Verb.COMPLETE, {"result": None}),
    (Verb.FAIL, {"error": "e"}),
    (Verb.RETRY, {"error": "e", "due_at": 0}),
    (Verb.RELEASE, {}),
    (Verb.DROP, {"error": "e"}),
]


@pytest.mark.parametrize(("verb", "content"), SETTLEMENTS)
def test_repeating_the_write_that_settled_a_claim_is_silent(
    desk: Desk, verb: Verb, content: dict[str, object]
) -> None:
    claimed = desk.take()
    assert desk.settle(claimed, verb, **content) is None
    job, history = desk.job(claimed.id), desk.store.history(claimed.id)
    desk.clock.advance(1)
    assert desk.settle(claimed, verb, **content) is None
    assert (desk.job(claimed.id), desk.store.history(claimed.id)) == (job, history)


@pytest.mark.parametrize(("verb", "content"), SETTLEMENTS)
def test_repeating_it_is_silent_also_when_a_later_attempt_has_begun_or_ended(
    desk: Desk, verb: Verb, content: dict[str, object]
) -> None:
    claimed = desk.take()
    desk.settle(claimed, verb, **content)
    if verb in (Verb.FAIL, Verb.DROP):
        desk.revive(claimed.id)
    if verb is Verb.COMPLETE:
        return
    again = desk.retake(claimed.id, queue=Q)
    job, history = desk.job(claimed.id), desk.store.history(claimed.id)
    assert desk.settle(claimed, verb, **content) is None
    assert (desk.job(claimed.id), desk.store.history(claimed.id)) == (job, history)
    desk.complete(again, b"second")
    assert desk.settle(claimed, verb, **content) is None
    assert desk.job(claimed.id).result_json == b"second"


def test_a_failure_is_the_same_write_whether_it_is_judged_final_or_not(desk: Desk) -> None:
    """The worker says only that it failed; the verdict on a repetition may come out otherwise."""
    claimed = desk.take()
    desk.retry(claimed, "boom")
    again = desk.retake(claimed.id)
    assert desk.fail(claimed, "boom") is None
    assert desk.state(claimed.id) is State.DISPATCHED
    desk.fail(again, "bang")
    assert desk.retry(again, "bang") is None
    assert desk.state(claimed.id) is State.FAILED


@pytest.mark.parametrize(
    ("verb", "content", "other"),
    [
        (Verb.COMPLETE, {"result": b"r"}, {"result": b"other"}),
        (Verb.COMPLETE, {"result": None}, {"result": b"other"}),
        (Verb.COMPLETE, {"result": b"r"}, {"result": None}),
        (Verb.FAIL, {"error": "e"}, {"error": "other"}),
        (Verb.RETRY, {"error": "e", "due_at": 0}, {"error": "other", "due_at": 0}),
    ],
)
def test_the_same_kind_of_write_with_other_content_is_refused(
    desk: Desk, verb: Verb, content: dict[str, object], other: dict[str, object]
) -> None:
    claimed = desk.take()
    desk.settle(claimed, verb, **content)
    before = desk.job(claimed.id)
    refused = desk.settle(claimed, verb, **other)
    assert isinstance(refused, Refused)
    assert refused.reason == ("completed" if verb is Verb.COMPLETE else "failed")
    assert desk.job(claimed.id) == before
    assert desk.codes(claimed.id).count("fenced") == 1
