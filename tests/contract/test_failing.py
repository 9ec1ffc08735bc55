"""Failures that workers report: the store decides, by the policy of the queue, what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.core.job import Claimed
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue, RetryPolicy
from oncue.core.retry import Failure
from oncue.ports.claims import Settled
from oncue.ports.store import Store

from .desk import Desk, at, settlement

STRICT = Queue("q", max_attempts=2, retry=RetryPolicy(8.0, 2.0, 100.0))


def fail(
    desk: Desk, claimed: Claimed, *, store: Store | None = None, error: str = "boom", **told: Any
) -> Settled:
    failure = Failure(**{"spread": 0.5, **told})
    write = settlement(claimed, Verb.FAIL, error=error, failure=failure)
    return (store or desk.store).settle([write], desk.now)


def left(state: State) -> Settled:
    return Settled({}, {0: state})


def test_a_failure_is_tried_again_by_the_policy_of_the_queue_and_then_no_more(desk: Desk) -> None:
    claimed = desk.take(queue=STRICT)
    assert fail(desk, claimed) == left(State.SCHEDULED)
    job = desk.job(claimed.id)
    assert (job.state, job.error, job.due_at) == (State.SCHEDULED, "boom", at(desk.now + 6_000))
    desk.clock.advance(6)
    again = desk.retake(claimed.id)
    assert fail(desk, again) == left(State.FAILED)
    details = [one.detail for one in desk.diagnostics(claimed.id)]
    assert details == ["Failed; due again in 6 s.", "Failed: no attempt is left."]


def test_the_settings_count_that_the_store_has_now(desk: Desk) -> None:
    claimed = desk.take(queue=STRICT)
    desk.set(replace(STRICT, max_attempts=1))
    assert fail(desk, claimed) == left(State.FAILED)


def test_a_job_may_have_its_own_number_of_attempts(desk: Desk) -> None:
    claimed = desk.take(queue=STRICT, max_attempts=1)
    assert fail(desk, claimed) == left(State.FAILED)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"retryable": False}, State.FAILED),
        ({"retry_after_seconds": 0.0}, State.SCHEDULED),
    ],
)
def test_the_worker_may_know_better(desk: Desk, told: dict[str, Any], state: State) -> None:
    claimed = desk.take()
    assert fail(desk, claimed, **told) == left(state)
    assert desk.state(claimed.id) is state
    if state is State.SCHEDULED:
        assert desk.job(claimed.id).due_at == at(desk.now)


def test_a_job_that_was_to_be_cancelled_ends_cancelled(desk: Desk) -> None:
    claimed = desk.take()
    desk.request_cancel(claimed.id)
    assert fail(desk, claimed) == left(State.CANCELLED)
    assert desk.state(claimed.id) is State.CANCELLED


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("end", ["retried", "failed", "cancelled"])
def test_a_repeated_failure_is_answered_as_the_first_and_changes_nothing(
    desk: Desk, twin: Store, end: str, kept: bool
) -> None:
    """Also when another attempt has ended the job since, and when the job is gone."""
    claimed = desk.take(queue=STRICT if kept else replace(STRICT, retention_seconds=0))
    if end == "cancelled":
        desk.request_cancel(claimed.id)
    first = fail(desk, claimed, retryable=end != "failed")
    if end == "retried":
        desk.clock.advance(6)
        desk.complete(desk.retake(claimed.id))
    job, history = desk.store.get(claimed.id), desk.store.history(claimed.id)
    assert (job is None) is not kept
    for store in (desk.store, twin):
        assert fail(desk, claimed, store=store, spread=0.1) == first
    assert (desk.store.get(claimed.id), desk.store.history(claimed.id)) == (job, history)
    assert fail(desk, claimed, error="bang").states == {}


@pytest.mark.parametrize("cancelled", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_a_repeated_release_is_answered_as_the_first(
    desk: Desk, twin: Store, cancelled: bool, kept: bool
) -> None:
    claimed = desk.take(queue=STRICT if kept else replace(STRICT, retention_seconds=0))
    if cancelled:
        desk.request_cancel(claimed.id)
    write = settlement(claimed, Verb.RELEASE)
    first = desk.store.settle([write], desk.now)
    assert first == left(State.CANCELLED if cancelled else State.SCHEDULED)
    if not cancelled:
        desk.complete(desk.retake(claimed.id))
    assert twin.settle([write], desk.now) == first


def test_a_heartbeat_may_renew_the_lease_by_the_setting_of_the_queue(desk: Desk) -> None:
    claimed = desk.take()
    desk.set(replace(STRICT, lease_seconds=25))
    desk.clock.advance(1)
    desk.touch(claimed)
    assert desk.job(claimed.id).lease_until == at(claimed.lease_until)
    desk.touch(claimed, renew=True)
    assert desk.job(claimed.id).lease_until == at(desk.now + 25_000)
    desk.touch(claimed, renew=True, lease_seconds=7)
    assert desk.job(claimed.id).lease_until == at(desk.now + 7_000)
