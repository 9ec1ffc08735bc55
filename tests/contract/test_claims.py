"""Workers' claims: what is taken, in which order, and what the worker gets."""

from __future__ import annotations

import random

from oncue.core.fencing import Refused, Settlement
from oncue.core.job import Claimed
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue
from oncue.usecases.queues import set_paused

from .board import Board, cron, cron_at, seconds
from .desk import DELIVERY, LEASE, Desk, Q, at, claim_due, ids
from .promises import By

OTHER = Queue("other")


def test_a_claim_takes_the_job_and_tells_the_worker_all_about_it(desk: Desk) -> None:
    desk.add(
        "mine",
        payload=b"work",
        priority=4,
        owner="olga",
        key="k",
        max_attempts=2,
        timeout_seconds=9.5,
        due_in=-3,
    )
    desk.clock.advance(2)
    assert desk.claim() == [
        Claimed(
            id="mine",
            queue="q",
            due_at=desk.now - 5_000,
            payload=b"work",
            priority=4,
            owner="olga",
            key="k",
            attempt=1,
            attempt_base=0,
            max_attempts=2,
            timeout_seconds=9.5,
            epoch=1,
            claimed_at=desk.now,
            lease_until=desk.now + 60_000,
            created_at=desk.now - 2_000,
            operations=(),
        )
    ]
    job = desk.job("mine")
    assert (job.state, job.worker, job.attempt, job.epoch) == (State.DISPATCHED, "ada", 1, 1)
    assert (job.lease_until, job.updated_at) == (at(desk.now + 60_000), at(desk.now))
    assert desk.claim() == []


def test_the_claim_of_a_fired_job_has_its_rule_and_instant(board: Board) -> None:
    board.rule(cron(), name="nightly", queue="q")
    board.post(cron_at(10.000001))
    [claimed] = claim_due(board.store, [Q], "ada", 1, board.now)
    assert (claimed.rule, claimed.instant) == ("nightly", seconds(10.000001))


def test_the_attempt_under_way_is_visible(desk: Desk) -> None:
    claimed = desk.take()
    (attempt,) = desk.attempts(claimed.id)
    assert (attempt.attempt, attempt.epoch, attempt.worker) == (1, 1, "ada")
    assert (attempt.claimed_at, attempt.outcome, attempt.ended_at) == (at(desk.now), None, None)


def test_the_lease_is_the_claims_or_else_the_queues(desk: Desk) -> None:
    desk.add_many(2)
    queue = Queue("q", lease_seconds=7)
    (first,) = desk.claim(queue, limit=1)
    (second,) = desk.claim(queue, limit=1, lease_seconds=0.5)
    assert first.lease_until == desk.now + 7_000
    assert second.lease_until == desk.now + 500


def test_nothing_is_taken_early_not_even_by_a_millisecond(desk: Desk) -> None:
    job_id = desk.add(due_in=10)
    desk.clock.advance(9.999)
    assert desk.claim() == []
    assert desk.store.next_due(["q"]) == By(desk.now + 1)
    desk.clock.advance(0.001)
    assert desk.claimed_ids() == [job_id]


def test_nothing_is_early_after_the_clock_was_turned_back(desk: Desk) -> None:
    job_id = desk.add(due_in=10)
    desk.clock.advance(10)
    desk.store.next_due(["q"])
    desk.clock.set(desk.now - 5_000)
    assert desk.claim() == []
    desk.clock.advance(5)
    assert desk.claimed_ids() == [job_id]


def test_the_order_is_priority_then_due_time_then_id(desk: Desk) -> None:
    jobs = [
        desk.new(f"{name}{number}", priority=priority, due_in=due)
        for number, (priority, due) in enumerate((p, d) for p in (9, 5, 0) for d in (-2, -1, 0))
        for name in "ba"
    ]
    expected = sorted(jobs, key=lambda job: (-job.priority, job.due_at, job.id))
    random.Random(1).shuffle(jobs)
    desk.store.insert(jobs, desk.now)
    assert desk.claimed_ids(limit=7) == ids(expected)[:7]
    assert desk.claimed_ids() == ids(expected)[7:]


def test_a_high_priority_that_is_not_due_hinders_nobody(desk: Desk) -> None:
    desk.add(priority=9, due_in=60)
    due = desk.add(priority=0)
    assert desk.claimed_ids() == [due]


def test_reclaimed_work_goes_first_and_alone(desk: Desk) -> None:
    lost = [desk.take("z-low"), desk.take("y-high", priority=3)]
    desk.clock.advance(LEASE)
    for lapse in desk.lapses(10):
        assert desk.reclaim(lapse) is None
    waiting = desk.add("a", priority=9)
    assert desk.claimed_ids() == [lost[1].id]
    assert desk.claimed_ids() == [lost[0].id]
    assert desk.claimed_ids() == [waiting]


def test_reclaimed_work_is_not_taken_in_bulk(desk: Desk) -> None:
    lost = [desk.take(name) for name in ("x", "y", "z")]
    desk.clock.advance(LEASE)
    for lapse in desk.lapses(10):
        desk.reclaim(lapse)
    waiting = desk.add("a")
    assert desk.claimed_ids() == [lost[0].id]
    assert desk.claimed_ids(reclaimed_limit=5) == [lost[1].id, lost[2].id]
    assert desk.claimed_ids(reclaimed_limit=5) == [waiting]


def test_a_claim_over_several_queues_mixes_reclaimed_work_with_nothing(desk: Desk) -> None:
    lost = desk.take()
    desk.reclaim(desk.lapse())
    elsewhere = [desk.add(queue="other"), desk.add(queue="other")]
    assert desk.claimed_ids(OTHER, Q) == [lost.id]
    assert desk.claimed_ids(OTHER, Q) == elsewhere


def test_reclaimed_work_that_cannot_be_taken_hinders_nobody(desk: Desk) -> None:
    desk.take()
    desk.reclaim(desk.lapse())
    set_paused(desk.store, "q", True)
    elsewhere = [desk.add(queue="other"), desk.add(queue="other")]
    assert desk.claimed_ids(Q, OTHER) == elsewhere


def test_reclaimed_work_inside_an_open_range_hinders_nobody(desk: Desk) -> None:
    desk.take(queue=DELIVERY)
    desk.reclaim(desk.lapse())
    desk.claim_range(DELIVERY)
    others = desk.add_many(2, queue="d")
    assert desk.claimed_ids(DELIVERY) == others


def test_a_queue_that_is_named_twice_is_gone_through_once(desk: Desk) -> None:
    added = desk.add_many(2)
    assert desk.claimed_ids(Q, Q) == added
    assert [desk.job(job_id).attempt for job_id in added] == [1, 1]


def test_the_limit_of_reclaimed_work_does_not_bind_other_work(desk: Desk) -> None:
    added = desk.add_many(5)
    assert desk.claimed_ids(limit=4) == added[:4]


def test_reclaimed_work_stays_ahead_when_released_but_not_when_retried(desk: Desk) -> None:
    released, retried = desk.take("y"), desk.take("z")
    desk.clock.advance(LEASE)
    for lapse in desk.lapses(10):
        desk.reclaim(lapse)
    first, second = desk.claim(reclaimed_limit=2)
    desk.release(first)
    desk.retry(second)
    waiting = desk.add("a", due_in=-100)
    assert desk.claimed_ids() == [released.id]
    # Both wait like any other now, the retried one by its new due time.
    assert desk.claimed_ids() == [waiting, retried.id]


def test_queues_are_gone_through_in_the_order_given(desk: Desk) -> None:
    here, there = desk.add_many(2, queue="q"), desk.add_many(2, queue="other", priority=9)
    assert desk.claimed_ids(Q, OTHER, limit=3) == [*here, there[0]]
    assert desk.claimed_ids(Q, OTHER, limit=3) == [there[1]]


def test_only_the_queues_asked_for_are_touched(desk: Desk) -> None:
    desk.add(queue="other")
    assert desk.claim(Q) == []
    assert claim_due(desk.store, [], "ada", 5, desk.now) == []


def test_a_limit_of_nothing_takes_nothing(desk: Desk) -> None:
    job_id = desk.add()
    assert desk.claim(limit=0) == []
    assert desk.state(job_id) is State.SCHEDULED


def test_a_paused_queue_gives_nothing_whatever_the_caller_believes(desk: Desk) -> None:
    job_id = desk.add()
    elsewhere = desk.add(queue="other")
    set_paused(desk.store, "q", True)
    assert desk.claimed_ids(Queue("q", paused=False), OTHER) == [elsewhere]
    assert desk.state(job_id) is State.SCHEDULED
    set_paused(desk.store, "q", False)
    assert desk.claimed_ids() == [job_id]


def test_pausing_does_not_disturb_claims_under_way(desk: Desk) -> None:
    claimed = desk.take()
    set_paused(desk.store, "q", True)
    assert isinstance(desk.touch(claimed), Touched)
    assert desk.complete(claimed) is None


def test_what_has_expired_is_cancelled_instead_of_taken(desk: Desk) -> None:
    expired = desk.add(priority=9, expires_at=desk.now + 1_000)
    fresh = desk.add(expires_at=desk.now + 1_001)
    desk.clock.advance(1)
    assert desk.claimed_ids(limit=1) == [fresh]
    job = desk.job(expired)
    assert (job.state, job.attempt, job.finished_at) == (State.CANCELLED, 0, at(desk.now))
    assert desk.codes(expired) == ["expired"]


def test_expiry_ends_waiting_jobs_only_and_is_counted(desk: Desk) -> None:
    taken = desk.take(expires_at=desk.now + 1_000)
    waiting = [desk.add(expires_at=desk.now + 1_000, due_in=due) for due in (0, 60)]
    immortal = desk.add()
    desk.clock.advance(0.999)
    assert desk.store.expire(desk.now, 10) == 0
    desk.clock.advance(0.001)
    assert desk.store.expire(desk.now, 1) == 1
    assert desk.store.expire(desk.now, 10) == 1
    assert desk.store.expire(desk.now, 10) == 0
    assert [desk.state(job_id) for job_id in waiting] == [State.CANCELLED] * 2
    assert [desk.codes(job_id) for job_id in waiting] == [["expired"]] * 2
    assert desk.state(taken.id) is State.DISPATCHED
    assert desk.state(immortal) is State.SCHEDULED


def test_expiry_frees_the_key(desk: Desk) -> None:
    desk.add(key="k", expires_at=desk.now + 1_000)
    desk.clock.advance(1)
    desk.store.expire(desk.now, 10)
    desk.add(key="k")


def test_the_next_due_time_is_the_earliest_of_open_queues(desk: Desk) -> None:
    assert desk.store.next_due(["q", "other"]) is None
    desk.add(due_in=50, priority=9)
    desk.add(due_in=40)
    desk.add(due_in=20, queue="other")
    desk.add(due_in=10, queue="third")
    now = desk.now
    assert desk.store.next_due([]) is None
    assert desk.store.next_due(["q"]) == By(now + 40_000)
    assert desk.store.next_due(["q", "other"]) == By(now + 20_000)
    set_paused(desk.store, "other", True)
    assert desk.store.next_due(["q", "other"]) == By(now + 40_000)
    assert desk.store.next_due(["other"]) is None


def test_the_next_due_time_does_not_count_what_is_taken(desk: Desk) -> None:
    desk.take()
    assert desk.store.next_due(["q"]) is None


def test_an_open_range_can_next_be_taken_when_its_lease_ends(desk: Desk) -> None:
    desk.add(queue="d")
    desk.claim_range(DELIVERY)
    assert desk.store.next_due(["q", "d"]) == By(desk.now + LEASE * 1_000)
    soon = desk.add(queue="d", due_in=1)
    assert desk.store.next_due(["q", "d"]) == By(desk.now + 1_000)
    assert soon in desk.listed(state=State.SCHEDULED)


def test_signs_of_life_start_the_job_and_are_stored(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(5)
    assert desk.touch(claimed) == Touched(claimed.lease_until, False)
    job = desk.job(claimed.id)
    assert (job.state, job.updated_at, job.message) == (State.EXECUTING, at(desk.now), None)
    told = desk.touch(claimed, lease_seconds=100, message="half", percent=50.0)
    assert told == Touched(desk.now + 100_000, False)
    desk.touch(claimed)
    job = desk.job(claimed.id)
    assert (job.message, job.percent, job.lease_until) == ("half", 50.0, at(desk.now + 100_000))


def test_many_signs_of_life_are_answered_one_by_one(desk: Desk) -> None:
    desk.add_many(3)
    claims = desk.claim()
    desk.complete(claims[1])
    touches = [
        Touch(claimed.id, claimed.epoch, percent=float(n)) for n, claimed in enumerate(claims)
    ]
    answers = desk.store.touch([*touches, Touch("nothing", 1)], desk.now)
    kinds = [Touched, Refused, Touched, Refused]
    assert [type(answer) for answer in answers] == kinds
    assert [desk.job(claimed.id).percent for claimed in claims] == [0.0, None, 2.0]
    assert desk.store.touch([], desk.now) == []


def test_signs_of_life_of_one_job_in_one_call_follow_each_other(desk: Desk) -> None:
    one, two = desk.add_many(2)
    first, second = desk.claim()
    touches = [
        Touch(two, second.epoch, 90, "now"),
        Touch(one, first.epoch, 30, "before"),
        Touch(one, first.epoch, 90, "now"),
        Touch(one, first.epoch),
    ]
    answers = desk.store.touch(touches, desk.now)
    assert answers[-1] == Touched(desk.now + 90_000, False)
    assert (desk.job(one).message, desk.job(one).lease_until) == ("now", at(desk.now + 90_000))


def test_a_start_after_a_heartbeat_in_the_same_call_leaves_the_lease_of_every_job(
    desk: Desk,
) -> None:
    desk.add_many(3)
    claims = desk.claim()
    beats = [Touch(one.id, one.epoch, lease_seconds=600) for one in claims]
    starts = [Touch(one.id, one.epoch) for one in claims]
    until = desk.now + 600_000
    assert desk.store.touch([*beats, *starts], desk.now) == [Touched(until, False)] * 6
    assert {desk.job(one.id).lease_until for one in claims} == {at(until)}


def test_a_handed_over_claim_has_no_lease_until_the_worker_takes_one(desk: Desk) -> None:
    queue = Queue("q", timeout_seconds=600)
    claimed = desk.take(queue=queue)
    assert desk.hand_over(claimed) is None
    assert desk.job(claimed.id).lease_until is None
    assert desk.state(claimed.id) is State.DISPATCHED
    desk.clock.advance(599)
    assert desk.lapses(10) == []
    assert desk.touch(claimed) == Touched(None, False)
    assert desk.touch(claimed, lease_seconds=30) == Touched(desk.now + 30_000, False)
    desk.clock.advance(1)
    assert ids(desk.lapses(10)) == [claimed.id]


def test_handing_over_names_the_claims_that_are_over(desk: Desk) -> None:
    desk.add_many(2)
    kept, lost = desk.claim()
    desk.release(lost)
    named = (lost.id, kept.id, "nothing")
    settlements = [Settlement(job_id, 1, Verb.HAND_OVER) for job_id in named]
    answer = desk.store.settle(settlements, desk.now).refused
    assert {position: refused.reason for position, refused in answer.items()} == {
        0: "released",
        2: "unknown",
    }
    assert desk.job(kept.id).lease_until is None
    assert desk.store.settle([], desk.now).refused == {}
