"""What a claim does beside taking jobs: it does it to what it may take, and to nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.usecases.queues import put_queue, set_paused

from .desk import DELIVERY, Desk, Q, at, ids
from .promises import By

BOUNDED = replace(DELIVERY, concurrency=1)
SLOW = replace(DELIVERY, rate_per_second=0.1)

Claim = Callable[[Desk, Queue], list[str]]


def by_worker(desk: Desk, queue: Queue) -> list[str]:
    return desk.claimed_ids(queue)


def by_dispatcher(desk: Desk, queue: Queue) -> list[str]:
    return ids(desk.claim_range(queue).jobs)


either = pytest.mark.parametrize("claim", [by_worker, by_dispatcher])


def pause(desk: Desk) -> Queue:
    set_paused(desk.store, "d", True)
    return DELIVERY


def fill(desk: Desk) -> Queue:
    """One job is under way, which is as many as may be."""
    put_queue(desk.store, BOUNDED)
    desk.take("first", queue=BOUNDED, due_in=-10)
    return BOUNDED


def use_up(desk: Desk) -> Queue:
    """The rate allows none for some seconds."""
    put_queue(desk.store, SLOW)
    desk.take("first", queue=SLOW, due_in=-10)
    return SLOW


shut = pytest.mark.parametrize("shut", [pause, fill, use_up])


def put_off(desk: Desk, job_id: str, **fields: object) -> Job:
    """A job that its sink refused for now."""
    desk.add(job_id, queue="d", **fields)
    assert desk.settle_range(desk.claim_range(), busy={job_id: "busy"})
    return desk.job(job_id)


@either
@shut
def test_a_claim_that_may_take_nothing_leaves_what_has_expired(
    desk: Desk, shut: Callable[[Desk], Queue], claim: Claim
) -> None:
    desk.add("old", queue="d", expires_at=desk.now + 1_000)
    queue = shut(desk)
    desk.clock.advance(2)
    assert claim(desk, queue) == []
    assert desk.state("old") is State.SCHEDULED
    assert desk.store.expire(desk.now, 10) == 1


@either
@shut
def test_a_claim_that_may_take_nothing_leaves_what_is_put_off(
    desk: Desk, shut: Callable[[Desk], Queue], claim: Claim
) -> None:
    before = put_off(desk, "stuck")
    queue = shut(desk)
    desk.clock.advance(2)
    assert claim(desk, queue) == []
    assert desk.job("stuck") == before


@either
def test_what_has_expired_while_put_off_is_left_until_its_moment(desk: Desk, claim: Claim) -> None:
    before = put_off(desk, "old", expires_at=desk.now + 100)
    desk.add("good", queue="d")
    desk.clock.advance(0.2)
    assert before.not_before is not None
    assert before.not_before > at(desk.now)
    assert claim(desk, DELIVERY) == ["good"]
    assert desk.job("old") == before
    desk.clock.advance(1)
    assert "old" not in claim(desk, DELIVERY)
    assert desk.state("old") is State.CANCELLED
    assert desk.codes("old") == ["expired"]


@pytest.mark.one_shard
def test_a_queue_that_is_held_is_left_as_it_is(desk: Desk) -> None:
    desk.add_many(2, queue="d", due_in=-10)
    held = desk.claim_range(limit=1)
    desk.add("old", queue="d", expires_at=desk.now + 100)
    desk.clock.advance(1)
    assert desk.claim_range(dispatcher="dan").busy_until is not None
    assert desk.state("old") is State.SCHEDULED
    assert desk.settle_range(held)
    assert ids(desk.claim_range(dispatcher="dan").jobs) == ["job-0002"]
    assert desk.state("old") is State.CANCELLED


def test_what_is_taken_ahead_of_time_has_not_expired(desk: Desk) -> None:
    desk.add("old", queue="d", due_in=2, expires_at=desk.now + 100)
    desk.add("good", queue="d", due_in=2)
    desk.clock.advance(1)
    claim = desk.store.claim_range(
        DELIVERY, "dora", 10, desk.now, lease_seconds=60, due_until=desk.now + 2_000
    )
    assert ids(claim.jobs) == ["good"]
    assert desk.state("old") is State.CANCELLED


@either
def test_a_rate_begins_again_after_the_clock_was_set_back_when_something_waits(
    desk: Desk, claim: Claim
) -> None:
    queue = use_up(desk)
    desk.clock.set(desk.now - 3_600_000)
    desk.add("next", queue="d", due_in=1)
    claim(desk, queue)
    assert desk.store.next_due(["d"]) == By(desk.now + 3_610_000)
    desk.clock.advance(1)
    assert claim(desk, queue) == []
    assert desk.store.next_due(["d"]) == By(desk.now + 10_000)


def test_a_queue_named_twice_has_the_room_of_one(desk: Desk) -> None:
    bounded = replace(Q, concurrency=1)
    put_queue(desk.store, bounded)
    desk.add_many(2)
    assert len(desk.claim(bounded, bounded)) == 1
