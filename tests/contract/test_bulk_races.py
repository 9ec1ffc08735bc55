"""Bulk verbs, and what happens between finding jobs and changing them."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.core.bulk import BulkVerb
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.usecases.bulk import BulkDone
from tests.contract.pruning import prune

from .bulk import CANCEL, MOVE, REPRIORITISE, RETRY, RUN, bulk
from .desk import DELIVERY, LEASE, Desk, ids, together


@pytest.mark.parametrize("verb", [CANCEL, RUN, MOVE, REPRIORITISE])
def test_a_job_claimed_in_between_is_not_changed(desk: Desk, verb: BulkVerb) -> None:
    job_id, other = desk.add(), desk.add(due_in=60)
    changing = bulk(desk, verb, queue="q")
    found = changing.found()
    assert found == [job_id, other]
    desk.retake(job_id)
    before = desk.job(job_id)
    assert changing.apply(found) == BulkDone(1)
    assert desk.job(job_id) == before


def test_a_job_that_no_longer_fits_is_not_changed(desk: Desk) -> None:
    job_id = desk.add(due_in=60)
    window: dict[str, Any] = {"queue": "q", "due_before": desk.now + 61_000}
    cancelling = bulk(desk, CANCEL, **window)
    found = cancelling.found()
    bulk(desk, MOVE, queue="q").carry_out()
    assert cancelling.apply(found) == BulkDone(0)
    bulk(desk, MOVE, how={"queue": "q"}, queue="target").carry_out()
    assert cancelling.apply(found) == BulkDone(1)
    assert desk.state(job_id) is State.CANCELLED


def test_a_job_that_expired_in_between_stays_expired(desk: Desk) -> None:
    job_id = desk.add(due_in=60, expires_at=desk.now + 1_000)
    running = bulk(desk, RUN, queue="q")
    found = running.found()
    desk.clock.advance(1)
    assert desk.store.expire(desk.now, 10) == 1
    assert running.apply(found) == BulkDone(0)
    assert desk.codes(job_id) == ["expired"]


def test_a_job_made_due_that_expires_is_cancelled_rather_than_handed_over(desk: Desk) -> None:
    job_id = desk.add(due_in=60, expires_at=desk.now + 1_000)
    assert bulk(desk, RUN, queue="q").carry_out() == BulkDone(1)
    desk.clock.advance(1)
    assert desk.claim() == []
    assert desk.state(job_id) is State.CANCELLED


def test_a_retried_job_does_not_expire_at_once_again(desk: Desk) -> None:
    job_id = desk.add(expires_at=desk.now + 1_000)
    desk.clock.advance(1)
    desk.store.expire(desk.now, 10)
    assert bulk(desk, RETRY, queue="q").carry_out() == BulkDone(1)
    assert desk.store.expire(desk.now, 10) == 0
    assert desk.claimed_ids() == [job_id]


def test_a_job_that_is_not_seen_any_more_is_not_retried(desk: Desk) -> None:
    job_id = desk.add(digest=b"d")
    desk.cancel(job_id)
    retrying = bulk(desk, RETRY, queue="q")
    found = retrying.found()
    desk.clock.advance(1)
    assert prune(desk.store, "q", desk.now, desk.now, 10) == 1
    assert retrying.found() == []
    assert retrying.apply(found) == BulkDone(0)


def test_a_reclaimed_job_keeps_its_place_ahead_when_it_is_moved(desk: Desk) -> None:
    claimed = desk.take("z")
    desk.reclaim(desk.lapse(LEASE))
    waiting = desk.add("a", queue="target", priority=9)
    assert bulk(desk, MOVE, queue="q").carry_out() == BulkDone(1)
    assert desk.claimed_ids(Queue("target")) == [claimed.id]
    assert desk.claimed_ids(Queue("target")) == [waiting]


@pytest.mark.parametrize("round_", range(3))
def test_a_job_is_either_cancelled_or_claimed(desk: Desk, round_: int) -> None:
    added = desk.add_many(120)
    cancelling = bulk(desk, CANCEL, queue="q")

    def work(thread: int) -> list[str] | int:
        if thread == 0:
            return cancelling.carry_out(limit=5).changed
        mine: list[str] = []
        while claimed := desk.claimed_ids(limit=3, worker=f"worker {thread}"):
            mine += claimed
        return mine

    changed, *shares = together(4, work)
    claimed = [job_id for share in shares if isinstance(share, list) for job_id in share]
    cancelled = desk.listed(state=State.CANCELLED)
    assert sorted(claimed + cancelled) == added
    assert changed == len(cancelled)


@pytest.mark.parametrize("round_", range(3))
def test_a_job_is_either_moved_or_delivered(desk: Desk, round_: int) -> None:
    added = desk.add_many(120, queue=DELIVERY.name)
    moving = bulk(desk, MOVE, queue=DELIVERY.name)
    delivered: list[str] = []

    def work(thread: int) -> None:
        if thread == 0:
            moving.carry_out(limit=5)
            return
        while (claim := desk.claim_range(limit=7)).jobs:
            delivered.extend(ids(claim.jobs))
            assert desk.settle_range(claim)

    together(2, work)
    moved = desk.listed(queue="target")
    assert sorted(delivered + moved) == added
    assert desk.listed(state=State.SUCCEEDED) == sorted(delivered)


def test_bulk_verbs_at_the_same_time_change_each_job_once(desk: Desk) -> None:
    desk.add_many(100)
    cancelling = bulk(desk, CANCEL, queue="q")
    done = together(4, lambda _: cancelling.carry_out(limit=7))
    assert sum(one.changed for one in done) == 100
