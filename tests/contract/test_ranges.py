"""Dispatchers' range claims: one fenced record for a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncue.core.job import Delivery
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.ports.claims import RangeClaim
from oncue.usecases.queues import put_queue, set_paused
from tests.contract.changing import Amendment

from .desk import BOTH_IDS, DELIVERY, FLEETING_DELIVERY, LEASE, Desk, Q, at, ids
from .promises import By

pytestmark = BOTH_IDS


def add(desk: Desk, job_id: str | None = None, **fields: object) -> str:
    return desk.add(job_id, queue="d", **fields)


@pytest.mark.one_shard
def test_a_range_brings_the_first_due_jobs_in_order(desk: Desk) -> None:
    late, early = add(desk, "b", due_in=-1, payload=b"1"), add(desk, "c", due_in=-2)
    urgent, future = add(desk, "z", priority=1), add(desk, due_in=1)
    claim = desk.claim_range()
    assert list(claim.jobs) == [
        Delivery(urgent, desk.now, b"{}", 1, None, "d"),
        Delivery(early, desk.now - 2_000, b"{}", 1, None, "d"),
        Delivery(late, desk.now - 1_000, b"1", 1, None, "d"),
    ]
    assert claim.busy_until is None
    assert desk.state(future) is State.SCHEDULED


@pytest.mark.one_shard
def test_the_limit_is_kept_and_the_next_range_goes_on(desk: Desk) -> None:
    added = desk.add_many(10, queue="d")
    found = []
    for _ in range(4):
        claim = desk.claim_range(limit=3)
        found.append(ids(claim.jobs))
        assert desk.settle_range(claim)
    assert found == [added[:3], added[3:6], added[6:9], added[9:]]
    assert list(desk.claim_range().jobs) == []


def test_delivered_jobs_have_succeeded_with_an_attempt_by_the_dispatcher(desk: Desk) -> None:
    job_id = add(desk)
    claim = desk.claim_range()
    claimed_at = at(desk.now)
    desk.clock.advance(2)
    assert desk.settle_range(claim)
    job = desk.job(job_id)
    assert (job.state, job.attempt, job.finished_at) == (State.SUCCEEDED, 1, at(desk.now))
    assert (job.updated_at, job.error) == (at(desk.now), None)
    (attempt,) = desk.attempts(job_id)
    assert (attempt.attempt, attempt.worker) == (1, "dora")
    assert (attempt.claimed_at, attempt.ended_at) == (claimed_at, at(desk.now))
    assert attempt.outcome == "succeeded"
    assert desk.codes(job_id) == []


def test_refused_jobs_have_failed_with_the_sinks_answer(desk: Desk) -> None:
    job_id = add(desk)
    claim = desk.claim_range()
    assert desk.settle_range(claim, [], {job_id: "410 gone"})
    job = desk.job(job_id)
    assert (job.state, job.attempt, job.error) == (State.FAILED, 1, "410 gone")
    assert job.finished_at == at(desk.now)
    (diagnostic,) = desk.diagnostics(job_id)
    assert diagnostic.attempt == 1
    assert diagnostic.facts == {"worker": "dora", "error": "410 gone", "decision": "fail"}
    assert desk.outcomes(job_id) == [(1, "failed")]


@pytest.mark.one_shard
def test_what_was_neither_delivered_nor_refused_comes_again_with_the_same_attempt(
    desk: Desk,
) -> None:
    delivered, refused, left = add(desk), add(desk), add(desk)
    before = desk.job(left)
    claim = desk.claim_range()
    assert desk.settle_range(claim, [delivered], {refused: "no"})
    assert desk.job(left) == before
    assert desk.attempts(left) == ()
    again = desk.claim_range()
    assert [(job.id, job.attempt) for job in again.jobs] == [(left, 1)]
    assert desk.settle_range(again)
    assert desk.outcomes(left) == [(1, "succeeded")]


def test_a_job_that_was_refused_for_now_is_not_delivered_under_the_same_claim(desk: Desk) -> None:
    refused = add(desk)
    claim = desk.claim_range()
    assert desk.settle_range(claim, busy={refused: "busy"}, left=1)
    put_off = desk.job(refused)
    assert desk.settle_range(claim, [refused])
    assert desk.job(refused) == put_off


def test_ids_from_outside_the_range_are_not_settled(desk: Desk) -> None:
    inside = add(desk)
    future, elsewhere, taken = add(desk, due_in=60), desk.add(), desk.take(queue=Queue("w"))
    claim = desk.claim_range()
    names = [inside, future, elsewhere, taken.id, "nothing"]
    assert desk.settle_range(claim, names)
    assert desk.state(inside) is State.SUCCEEDED
    assert desk.state(elsewhere) is State.SCHEDULED
    assert desk.state(taken.id) is State.DISPATCHED


def test_nothing_due_opens_nothing(desk: Desk) -> None:
    add(desk, due_in=1)
    claim = desk.claim_range()
    assert (list(claim.jobs), claim.busy_until) == ([], None)
    desk.clock.advance(1)
    assert len(desk.claim_range(dispatcher="other").jobs) == 1


def test_a_paused_queue_is_not_delivered(desk: Desk) -> None:
    job_id = add(desk)
    set_paused(desk.store, "d", True)
    assert list(desk.claim_range().jobs) == []
    assert desk.state(job_id) is State.SCHEDULED
    set_paused(desk.store, "d", False)
    assert ids(desk.claim_range().jobs) == [job_id]


def test_a_range_that_is_open_when_the_queue_is_paused_can_be_settled(desk: Desk) -> None:
    job_id = add(desk)
    claim = desk.claim_range()
    set_paused(desk.store, "d", True)
    assert desk.settle_range(claim)
    assert desk.state(job_id) is State.SUCCEEDED


def test_a_paused_queue_lets_go_of_a_range_whose_dispatcher_is_gone(desk: Desk) -> None:
    """Somebody who pauses a queue in distress can then cancel what is in it."""
    job_id = add(desk)
    old = desk.claim_range()
    set_paused(desk.store, "d", True)
    desk.clock.advance(LEASE)
    assert list(desk.claim_range(dispatcher="dave").jobs) == []
    assert desk.cancel(job_id).refused is None
    assert not desk.settle_range(old)
    assert desk.state(job_id) is State.CANCELLED


def test_what_has_expired_is_cancelled_instead_of_delivered(desk: Desk) -> None:
    expired = add(desk, priority=5, expires_at=desk.now)
    fresh = add(desk)
    assert ids(desk.claim_range(limit=1).jobs) == [fresh]
    assert desk.state(expired) is State.CANCELLED
    assert desk.codes(expired) == ["expired"]


@pytest.mark.one_shard
@pytest.mark.parametrize("rate", [None, 1000.0])
def test_a_range_is_filled_with_those_behind_what_has_expired(
    desk: Desk, rate: float | None
) -> None:
    put_queue(desk.store, replace(DELIVERY, rate_per_second=rate))
    lives = [None, 0, 0, 0, None, 0, None, None]
    added = [
        add(desk, due_in=n - 9, expires_at=None if life is None else desk.now + life)
        for n, life in enumerate(lives)
    ]
    fresh = [job_id for job_id, life in zip(added, lives, strict=True) if life is None]
    assert ids(desk.claim_range(limit=3).jobs) == fresh[:3]
    others = [desk.state(job_id) for job_id in added if job_id not in fresh]
    assert others == [State.CANCELLED] * 4


def test_jobs_inside_an_open_range_count_as_dispatched(desk: Desk) -> None:
    job_id = add(desk, expires_at=desk.now + 1_000)
    claim = desk.claim_range()
    shown = desk.job(job_id)
    assert (shown.state, shown.attempt) == (State.DISPATCHED, 0)
    assert desk.cancel(job_id).refused == "state"
    assert desk.amend(job_id, Amendment(priority=9)).refused == "state"
    assert desk.revive(job_id).refused == "state"
    assert desk.claim(DELIVERY) == []
    assert desk.store.next_due(["d"]) == By(desk.now + LEASE * 1_000)
    desk.clock.advance(1)
    assert desk.store.expire(desk.now, 10) == 0
    assert desk.listed(queue="d", state=State.DISPATCHED) == [job_id]
    assert desk.listed(queue="d", state=State.SCHEDULED) == []
    assert desk.job(job_id) == shown
    assert desk.settle_range(claim)
    assert desk.state(job_id) is State.SUCCEEDED


def test_jobs_beyond_the_limit_of_a_range_are_free(desk: Desk) -> None:
    inside, outside = add(desk, "a"), add(desk, "b")
    claim = desk.claim_range(limit=1)
    assert ids(claim.jobs) == [inside]
    assert desk.store.next_due(["d"]) == By(desk.now)
    assert desk.cancel(outside).refused is None
    assert desk.state(outside) is State.CANCELLED


def test_jobs_in_a_range_of_another_queue_are_free(desk: Desk) -> None:
    add(desk)
    free = desk.add()
    desk.claim_range()
    assert desk.claimed_ids(Q) == [free]


@pytest.mark.one_shard
def test_another_dispatcher_waits_for_an_open_range(desk: Desk) -> None:
    desk.add_many(2, queue="d")
    desk.claim_range(limit=1)
    busy = desk.claim_range(dispatcher="dave")
    assert (list(busy.jobs), busy.busy_until) == ([], desk.now + 60_000)
    desk.clock.advance(LEASE - 0.001)
    assert desk.claim_range(dispatcher="dave").busy_until == desk.now + 1


def test_a_settled_range_is_open_to_all(desk: Desk) -> None:
    desk.add_many(2, queue="d")
    desk.settle_range(desk.claim_range(limit=1))
    assert len(desk.claim_range(dispatcher="dave").jobs) == 1


def test_a_lease_that_ran_out_still_covers_its_jobs_until_somebody_takes_over(desk: Desk) -> None:
    job_id = add(desk)
    claim = desk.claim_range()
    desk.clock.advance(LEASE * 10)
    assert desk.state(job_id) is State.DISPATCHED
    assert desk.cancel(job_id).refused == "state"
    assert desk.store.extend_range(claim, desk.now + 1_000)
    assert desk.claim_range(dispatcher="dave").busy_until == desk.now + 1_000
    assert desk.settle_range(claim)
    assert desk.state(job_id) is State.SUCCEEDED


def test_an_extended_range_is_held_longer(desk: Desk) -> None:
    add(desk)
    claim = desk.claim_range()
    assert desk.store.extend_range(claim, desk.now + 500_000)
    desk.clock.advance(499.999)
    assert desk.claim_range(dispatcher="dave").busy_until == desk.now + 1
    desk.clock.advance(0.001)
    assert len(desk.claim_range(dispatcher="dave").jobs) == 1


def test_a_takeover_brings_the_same_jobs_with_the_same_attempt_and_a_higher_fence(
    desk: Desk,
) -> None:
    desk.add_many(2, queue="d")
    first = desk.claim_range()
    desk.clock.advance(LEASE)
    second = desk.claim_range(dispatcher="dave")
    assert list(second.jobs) == list(first.jobs)
    assert second.fence > first.fence


def take_over(desk: Desk) -> RangeClaim:
    desk.clock.advance(LEASE)
    return desk.claim_range(dispatcher="dave")


def restart(desk: Desk) -> RangeClaim:
    return desk.claim_range(dispatcher="dora")


@pytest.mark.one_shard
@pytest.mark.parametrize("successor", [take_over, restart])
def test_a_fenced_dispatcher_can_do_nothing(
    desk: Desk, successor: Callable[[Desk], RangeClaim]
) -> None:
    delivered, refused = add(desk), add(desk)
    old = desk.claim_range()
    new = successor(desk)
    assert ids(new.jobs) == [delivered, refused]
    before = desk.job(delivered), desk.job(refused)
    assert not desk.store.extend_range(old, desk.now + 999_999)
    assert not desk.settle_range(old, [delivered], {refused: "no"})
    assert (desk.job(delivered), desk.job(refused)) == before
    assert desk.attempts(delivered) == ()
    assert desk.diagnostics(refused) == ()
    assert desk.settle_range(new)
    assert desk.outcomes(delivered) == [(1, "succeeded")]
    assert not desk.settle_range(old, [], {})
    assert desk.state(delivered) is State.SUCCEEDED


@pytest.mark.one_shard
def test_a_fence_is_not_reused_after_a_range_was_settled(desk: Desk) -> None:
    fences = []
    for _ in range(3):
        job_id = add(desk)
        claim = desk.claim_range()
        fences.append(claim.fence)
        assert desk.settle_range(claim)
        assert not desk.store.extend_range(claim, desk.now + 1_000)
        assert desk.state(job_id) is State.SUCCEEDED
    assert fences == sorted(set(fences))


def test_fences_of_different_queues_are_independent(desk: Desk) -> None:
    add(desk)
    other = desk.add(queue="e")
    here = desk.claim_range()
    there = desk.claim_range(Queue("e", sink="log:"))
    assert ids(there.jobs) == [other]
    assert desk.settle_range(here)
    assert desk.settle_range(there)
    assert desk.state(other) is State.SUCCEEDED


def test_a_takeover_frees_what_the_successor_did_not_take(desk: Desk) -> None:
    first, second = add(desk, "a"), add(desk, "b")
    desk.claim_range()
    desk.clock.advance(LEASE)
    assert ids(desk.claim_range(dispatcher="dave", limit=1).jobs) == [first]
    assert desk.state(second) is State.SCHEDULED
    assert desk.cancel(second).refused is None


def test_a_delivered_job_was_ahead_only_once(desk: Desk) -> None:
    """Reclaimed work of a queue whose completion changed goes first in its ranges too."""
    claimed = desk.take("z", queue=DELIVERY)
    desk.reclaim(desk.lapse())
    waiting = add(desk, "a")
    claim = desk.claim_range()
    assert [(job.id, job.attempt) for job in claim.jobs] == [(claimed.id, 2), (waiting, 1)]
    assert desk.settle_range(claim)
    assert desk.outcomes(claimed.id) == [(1, "reclaimed"), (2, "succeeded")]


def test_a_delivery_after_a_released_claim_keeps_both_attempts(desk: Desk) -> None:
    claimed = desk.take(queue=DELIVERY)
    desk.release(claimed)
    claim = desk.claim_range()
    assert desk.settle_range(claim, [], {claimed.id: "no"})
    assert desk.outcomes(claimed.id) == [(1, "released"), (1, "failed")]
    assert desk.revive(claimed.id).refused is None
    assert desk.outcomes(claimed.id) == [(1, "released"), (1, "failed")]
    again = desk.claim_range()
    assert [job.attempt for job in again.jobs] == [2]


def test_a_former_worker_is_fenced_by_how_its_own_claim_ended_not_by_the_delivery(
    desk: Desk,
) -> None:
    claimed = desk.take(queue=DELIVERY)
    desk.release(claimed)
    assert desk.settle_range(desk.claim_range())
    history = desk.store.history(claimed.id)
    assert desk.release(claimed) is None
    assert desk.store.history(claimed.id) == history
    refused = desk.complete(claimed)
    assert refused is not None
    assert (refused.reason, refused.state) == ("released", State.SUCCEEDED)


@pytest.mark.one_shard
def test_a_queue_without_history_forgets_what_was_delivered_or_refused(desk: Desk) -> None:
    desk.set(FLEETING_DELIVERY)
    delivered, refused, left = desk.add_many(3, queue="fd")
    claim = desk.claim_range(FLEETING_DELIVERY)
    assert desk.settle_range(claim, [delivered], {refused: "no"})
    assert desk.store.get(delivered) is None
    assert desk.store.get(refused) is None
    assert desk.state(left) is State.SCHEDULED
    assert desk.listed() == [left]


def test_the_key_is_free_after_delivery(desk: Desk) -> None:
    add(desk, key="k")
    claim = desk.claim_range()
    assert desk.insert([desk.new(queue="d", key="k")])[0].kind == "existing"
    desk.settle_range(claim)
    add(desk, key="k")


# -- several claims in flight ----------------------------------------------------------------------


@pytest.mark.one_shard
def test_a_dispatcher_takes_more_under_the_same_fence_while_the_first_is_in_flight(
    desk: Desk,
) -> None:
    added = desk.add_many(5, queue="d")
    first = desk.claim_range(limit=2)
    second = desk.claim_range(limit=2, in_flight=[first])
    third = desk.claim_range(limit=2, in_flight=[first, second])
    assert [ids(one.jobs) for one in (first, second, third)] == [added[:2], added[2:4], added[4:]]
    assert first.fence == second.fence == third.fence
    assert desk.settle_range(second, left=3)
    assert [desk.state(one) for one in added] == [
        State.DISPATCHED, State.DISPATCHED, State.SUCCEEDED, State.SUCCEEDED, State.DISPATCHED
    ]  # fmt: skip
    assert desk.settle_range(first, left=1)
    assert desk.settle_range(third)
    assert {desk.state(one) for one in added} == {State.SUCCEEDED}
    assert len(desk.attempts(added[0])) == 1


@pytest.mark.one_shard
def test_others_wait_for_a_shard_in_which_something_is_in_flight(desk: Desk) -> None:
    desk.add_many(3, queue="d")
    first = desk.claim_range(limit=1)
    second = desk.claim_range(limit=1, in_flight=[first])
    assert desk.settle_range(first, left=1)
    busy = desk.claim_range(dispatcher="dave")
    assert (list(busy.jobs), busy.busy_until) == ([], desk.now + 60_000)
    assert desk.settle_range(second)
    assert len(desk.claim_range(dispatcher="dave").jobs) == 1


@pytest.mark.one_shard
def test_what_comes_in_before_the_jobs_in_flight_is_taken_next(desk: Desk) -> None:
    behind = add(desk, "m")
    first = desk.claim_range()
    urgent = add(desk, "u", priority=5)
    early = add(desk, "e", due_in=-5)
    assert desk.state(early) is State.DISPATCHED
    second = desk.claim_range(in_flight=[first])
    assert ids(second.jobs) == [urgent, early]
    assert desk.claim_range(in_flight=[first, second]).jobs == ()
    assert desk.settle_range(first, left=2)
    assert desk.settle_range(second)
    assert {desk.state(one) for one in (behind, urgent, early)} == {State.SUCCEEDED}


def test_each_claim_remembers_when_it_was_made(desk: Desk) -> None:
    one, two = add(desk, "a"), add(desk, "b")
    first = desk.claim_range(limit=1)
    began = at(desk.now)
    desk.clock.advance(2)
    second = desk.claim_range(in_flight=[first])
    assert desk.settle_range(first, left=1)
    assert desk.settle_range(second)
    [attempt], [later] = desk.attempts(one), desk.attempts(two)
    assert (attempt.claimed_at, later.claimed_at) == (began, at(desk.now))


@pytest.mark.one_shard
def test_going_on_renews_the_lease(desk: Desk) -> None:
    desk.add_many(2, queue="d")
    first = desk.claim_range(limit=1)
    desk.clock.advance(LEASE - 1)
    desk.claim_range(limit=1, in_flight=[first])
    assert desk.claim_range(dispatcher="dave").busy_until == desk.now + 60_000


def test_a_claim_whose_answer_was_lost_is_made_again(desk: Desk) -> None:
    """The dispatcher does not know what it holds, and asks again under its name."""
    added = desk.add_many(2, queue="d")
    desk.claim_range(limit=1)
    again = desk.claim_range(limit=1)
    assert ids(again.jobs) == added[:1]
    desk.claim_range(limit=1, in_flight=[again])
    more = desk.claim_range(limit=1, in_flight=[again])
    assert (ids(more.jobs), more.fence) == (added[1:], again.fence)
    assert desk.settle_range(again, left=1)
    assert desk.settle_range(more)
    assert {desk.state(one) for one in added} == {State.SUCCEEDED}


@pytest.mark.one_shard
def test_a_settlement_whose_answer_was_lost_is_answered_again(desk: Desk) -> None:
    delivered, failed, put_off, left = (add(desk, name) for name in "abcd")
    claim = desk.claim_range()
    for remaining in (1, 1, 0, 0):
        assert desk.settle_range(
            claim, [delivered], {failed: "no"}, {put_off: "busy"}, left=remaining
        )
    assert desk.outcomes(delivered) == [(1, "succeeded")]
    assert desk.outcomes(failed) == [(1, "failed")]
    assert len(desk.diagnostics(failed)) == 1
    assert desk.state(left) is State.SCHEDULED


def test_a_repeated_settlement_does_not_end_a_job_that_was_revived_meanwhile(desk: Desk) -> None:
    failed, other = add(desk, "a"), add(desk, "b")
    claim = desk.claim_range()
    assert desk.settle_range(claim, [], {failed: "no"}, left=1)
    assert desk.revive(failed).refused is None
    assert desk.settle_range(claim, [], {failed: "no"}, left=1)
    assert desk.outcomes(failed) == [(1, "failed")]
    assert desk.settle_range(claim, [other])
    assert desk.state(failed) is State.SCHEDULED


@pytest.mark.one_shard
def test_a_takeover_fences_everything_that_was_in_flight(desk: Desk) -> None:
    added = desk.add_many(3, queue="d")
    first = desk.claim_range(limit=1)
    second = desk.claim_range(limit=1, in_flight=[first])
    desk.clock.advance(LEASE)
    new = desk.claim_range(dispatcher="dave")
    assert ids(new.jobs) == added
    assert not desk.settle_range(first, left=1)
    assert not desk.settle_range(second)
    late = desk.claim_range(in_flight=[first, second])
    assert (list(late.jobs), late.busy_until) == ([], desk.now + 60_000)
    assert desk.settle_range(new)


@pytest.mark.one_shard
def test_a_shard_is_let_go_though_nothing_of_it_is_left_to_settle(desk: Desk) -> None:
    waiting = desk.add_many(2, queue="d")
    claim = desk.claim_range(limit=1)
    assert desk.settle_range(claim, left=1)
    assert desk.claim_range(dispatcher="dave").busy_until is not None
    assert desk.settle_range(claim, [])
    assert ids(desk.claim_range(dispatcher="dave").jobs) == waiting[1:]


def test_two_dispatchers_share_a_queue_with_shards(desk: Desk) -> None:
    """Where a store keeps a queue in one shard, the second waits for the first."""
    spread = Queue("d", sink="log:", shards=4)
    put_queue(desk.store, spread)
    added = desk.add_many(40, queue="d")
    taken: list[str] = []
    holders: dict[tuple[int, int], str] = {}
    claims: dict[str, list[RangeClaim]] = {"dora": [], "dave": []}
    while len(taken) < len(added):
        for name, in_flight in claims.items():
            claim = desk.claim_range(spread, name, limit=3, in_flight=in_flight)
            if claim.jobs:
                assert holders.setdefault((claim.shard, claim.fence), name) == name
                in_flight.append(claim)
                taken += ids(claim.jobs)
        for in_flight in claims.values():
            while len(in_flight) > 2:
                done = in_flight.pop(0)
                same = [one for one in in_flight if one.shard == done.shard]
                assert desk.settle_range(done, left=sum(len(one.jobs) for one in same))
    assert sorted(taken) == sorted(added)


def test_order_holds_within_a_shard(desk: Desk) -> None:
    spread = Queue("d", sink="log:", shards=4)
    put_queue(desk.store, spread)
    added = desk.add_many(40, queue="d")
    by_shard: dict[int, list[str]] = {}
    in_flight: list[RangeClaim] = []
    while (claim := desk.claim_range(spread, limit=3, in_flight=in_flight)).jobs:
        in_flight.append(claim)
        by_shard.setdefault(claim.shard, []).extend(ids(claim.jobs))
    assert sorted(one for found in by_shard.values() for one in found) == added
    assert all(found == sorted(found) for found in by_shard.values())


def test_a_change_of_shards_takes_nothing_away(desk: Desk) -> None:
    """What is in flight is settled; jobs that come later are handed over by the new shards."""
    spread = Queue("d", sink="log:", shards=4)
    put_queue(desk.store, spread)
    added = desk.add_many(40, queue="d")
    in_flight = [desk.claim_range(spread, limit=3)]
    in_flight.append(desk.claim_range(spread, limit=3, in_flight=in_flight))
    fewer = replace(spread, shards=2)
    put_queue(desk.store, fewer)
    taken = [job_id for claim in in_flight for job_id in ids(claim.jobs)]
    assert not {*taken} & {*ids(desk.claim_range(fewer, "dave").jobs)}
    for claim in in_flight:
        shared = in_flight[0].shard == in_flight[1].shard and claim is in_flight[0]
        assert desk.settle_range(claim, left=3 if shared else 0)
    assert {desk.state(job_id) for job_id in taken} == {State.SUCCEEDED}
    later: list[RangeClaim] = []
    while (claim := desk.claim_range(fewer, "dave", in_flight=later)).jobs:
        later.append(claim)
        taken += ids(claim.jobs)
    assert sorted(taken) == sorted(added)
    for claim in later:
        assert desk.settle_range(claim, left=0 if claim is later[-1] else 1)
    desk.add_many(10, queue="d")
    assert desk.claim_range(fewer, "eve").shard in (0, 1)
