"""Whose lease it is: the dispatcher's ends with the hand-over, the worker's own stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from oncue.core.job import Claimed
from oncue.core.lease import Touched
from oncue.core.lifecycle import State
from oncue.core.queue import Queue

from .desk import LEASE, Desk, at, ids

Steps = Sequence[Callable[[Desk, Claimed], None]]
BOUNDED = Queue("q", timeout_seconds=600)


def hand_over(desk: Desk, claimed: Claimed) -> None:
    assert desk.hand_over(claimed) is None


def start(desk: Desk, claimed: Claimed) -> None:
    assert isinstance(desk.touch(claimed), Touched)


def heartbeat(desk: Desk, claimed: Claimed) -> None:
    assert isinstance(desk.touch(claimed, lease_seconds=30), Touched)


def renew(desk: Desk, claimed: Claimed, seconds: float = LEASE) -> None:
    """What a dispatcher does while it delivers."""
    assert isinstance(desk.touch(claimed, lease_seconds=seconds, start=False), Touched)


@pytest.mark.parametrize("steps", [(start, hand_over), (hand_over, start)])
def test_a_worker_that_only_starts_is_bound_by_the_timeout_alone(desk: Desk, steps: Steps) -> None:
    claimed = desk.take(queue=BOUNDED)
    for step in steps:
        step(desk, claimed)
    job = desk.job(claimed.id)
    assert (job.state, job.lease_until) == (State.EXECUTING, None)
    desk.clock.advance(599)
    assert desk.lapses(10) == []
    desk.clock.advance(1)
    assert ids(desk.lapses(10)) == [claimed.id]


def test_a_hand_over_that_is_repeated_changes_nothing(desk: Desk) -> None:
    claimed = desk.take()
    hand_over(desk, claimed)
    before = desk.job(claimed.id)
    desk.clock.advance(1)
    hand_over(desk, claimed)
    assert desk.job(claimed.id) == before


@pytest.mark.parametrize(
    "steps",
    [(heartbeat, hand_over), (hand_over, heartbeat), (heartbeat, hand_over, start)],
)
def test_a_lease_that_the_worker_asked_for_is_kept(desk: Desk, steps: Steps) -> None:
    claimed = desk.take()
    for step in steps:
        step(desk, claimed)
    job = desk.job(claimed.id)
    assert (job.state, job.lease_until) == (State.EXECUTING, at(desk.now + 30_000))


@pytest.mark.parametrize("seconds", [9, LEASE])
def test_a_dispatcher_holds_its_claims_without_starting_them(desk: Desk, seconds: float) -> None:
    claimed = desk.take()
    desk.clock.advance(1)
    renew(desk, claimed, seconds)
    job = desk.job(claimed.id)
    assert (job.state, job.lease_until) == (State.DISPATCHED, at(desk.now + round(seconds * 1000)))
    start(desk, claimed)
    renew(desk, claimed, seconds + 1)
    job = desk.job(claimed.id)
    assert (job.state, job.lease_until) == (
        State.EXECUTING,
        at(desk.now + round(seconds * 1000) + 1000),
    )


@pytest.mark.parametrize("seconds", [9, LEASE])
def test_a_renewal_changes_no_lease_that_the_worker_asked_for(desk: Desk, seconds: float) -> None:
    claimed = desk.take()
    heartbeat(desk, claimed)
    renew(desk, claimed, seconds)
    assert desk.job(claimed.id).lease_until == at(desk.now + 30_000)


def test_a_renewal_begins_no_lease_after_the_hand_over(desk: Desk) -> None:
    claimed = desk.take()
    hand_over(desk, claimed)
    renew(desk, claimed)
    assert desk.job(claimed.id).lease_until is None


def test_the_next_claim_begins_with_a_lease_that_nobody_asked_for(desk: Desk) -> None:
    claimed = desk.take()
    heartbeat(desk, claimed)
    desk.release(claimed)
    again = desk.retake(claimed.id)
    hand_over(desk, again)
    assert desk.job(claimed.id).lease_until is None
