"""Jobs that their sink refused for now: put off by themselves, while the others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment, from_datetime
from oncue.core.queue import Queue, RetryPolicy
from oncue.usecases.bulk import change_all
from oncue.usecases.queues import put_queue
from tests.contract.changing import Amendment

from .desk import DELIVERY, Desk, Q, at, ids
from .promises import By, Listening, every

WORKED = replace(DELIVERY, completion="worker")


def by_range(desk: Desk, *busy: str) -> None:
    """A dispatcher delivers what is due; the sink refuses these for now and takes the others."""
    assert desk.settle_range(desk.claim_range(), busy=dict.fromkeys(busy, "busy"))


def by_claim(desk: Desk, *busy: str) -> None:
    """The same in a queue whose jobs a worker completes."""
    for claimed in desk.claim(WORKED):
        if claimed.id in busy:
            release = {"error": "busy", "put_off": True}
            assert desk.settle(claimed, Verb.RELEASE, **release) is None
        else:
            assert desk.hand_over(claimed) is None


Deliver = Callable[..., None]
both_ways = pytest.mark.parametrize("deliver", [by_range, by_claim])


def not_before(desk: Desk, job_id: str) -> Moment:
    job = desk.job(job_id)
    assert job.not_before is not None
    return from_datetime(job.not_before)


def wait_for(desk: Desk, job_id: str) -> None:
    desk.clock.advance((not_before(desk, job_id) - desk.now) / 1000)


@pytest.fixture
def stuck(desk: Desk) -> str:
    """A job that is put off."""
    desk.add("stuck", queue="d", due_in=-5)
    by_range(desk, "stuck")
    return "stuck"


@pytest.mark.one_shard
@both_ways
def test_a_job_refused_for_now_waits_and_the_others_go_on(desk: Desk, deliver: Deliver) -> None:
    desk.add("stuck", queue="d", due_in=-5)
    good = desk.add_many(3, queue="d")
    before = desk.job("stuck")
    deliver(desk, "stuck")
    job = desk.job("stuck")
    assert (job.state, job.attempt, job.due_at) == (State.SCHEDULED, 0, before.due_at)
    assert (job.error, job.refusals, job.updated_at) == ("busy", 1, at(desk.now))
    assert desk.now < not_before(desk, "stuck") <= desk.now + 1_000
    assert State.SCHEDULED not in {desk.state(job_id) for job_id in good}
    desk.add("later", queue="d")
    assert ids(desk.claim_range().jobs) == ["later"]


@both_ways
def test_it_is_handed_over_at_its_moment_and_not_before(desk: Desk, deliver: Deliver) -> None:
    desk.add("stuck", queue="d")
    deliver(desk, "stuck")
    moment = not_before(desk, "stuck")
    assert desk.store.next_due(["d"]) == By(moment)
    desk.clock.advance((moment - desk.now - 1) / 1000)
    assert list(desk.claim_range().jobs) == []
    assert desk.claim(WORKED) == []
    desk.clock.advance(0.001)
    assert [(job.id, job.attempt) for job in desk.claim_range().jobs] == [("stuck", 1)]
    assert desk.job("stuck").not_before is None


@pytest.mark.one_shard
def test_it_does_not_wait_for_a_job_that_has_expired(desk: Desk, stuck: str) -> None:
    desk.add(queue="d", due_in=-4, expires_at=desk.now + 1)
    wait_for(desk, stuck)
    assert ids(desk.claim_range().jobs) == [stuck]


@pytest.mark.one_shard
def test_it_does_not_wait_for_a_job_that_another_delivers(desk: Desk, stuck: str) -> None:
    taken = desk.add(queue="d", due_in=-6)
    assert ids(desk.claim_range().jobs) == [taken]
    wait_for(desk, stuck)
    assert ids(desk.claim(WORKED)) == [stuck]


@pytest.mark.one_shard
def test_it_waits_for_one_that_arrived_among_jobs_in_flight(desk: Desk, stuck: str) -> None:
    desk.add(queue="d")
    flying = [desk.claim_range()]
    arrived = desk.add(queue="d", due_in=-1)
    wait_for(desk, stuck)
    for expected in (arrived, stuck):
        flying.append(desk.claim_range(limit=1, in_flight=flying))
        assert ids(flying[-1].jobs) == [expected]


@both_ways
def test_every_refusal_in_a_row_is_counted_and_makes_it_wait_longer(
    desk: Desk, deliver: Deliver
) -> None:
    desk.add("stuck", queue="d")
    waits = []
    for refusals in range(1, 6):
        deliver(desk, "stuck")
        assert desk.job("stuck").refusals == refusals
        waits.append(not_before(desk, "stuck") - desk.now)
        wait_for(desk, "stuck")
    assert all(longer > 1.2 * shorter for shorter, longer in zip(waits, waits[2:], strict=False))
    assert desk.job("stuck").attempt == 0


def test_a_hand_over_to_a_worker_ends_the_row(desk: Desk) -> None:
    desk.add("stuck", queue="d")
    by_claim(desk, "stuck")
    wait_for(desk, "stuck")
    by_claim(desk)
    job = desk.job("stuck")
    assert (job.state, job.refusals, job.attempt) == (State.DISPATCHED, 0, 1)


def test_a_delivery_ends_the_row_and_leaves_no_error(desk: Desk, stuck: str) -> None:
    wait_for(desk, stuck)
    by_range(desk)
    job = desk.job(stuck)
    assert (job.state, job.error, job.refusals) == (State.SUCCEEDED, None, 0)


@pytest.mark.one_shard
def test_it_has_its_place_in_the_order_again(desk: Desk) -> None:
    for job_id, due_in in (("b", -2), ("a", -3), ("c", -1)):
        desk.add(job_id, queue="d", due_in=due_in)
    urgent = desk.add("urgent", queue="d", priority=5)
    by_range(desk, "a", "b", "c", urgent)
    desk.clock.advance(1)
    fresh = desk.add("fresh", queue="d")
    desk.clock.advance(1)
    assert ids(desk.claim_range().jobs) == [urgent, "a", "b", "c", fresh]


def test_what_has_been_due_longer_than_its_moment_goes_first(desk: Desk, stuck: str) -> None:
    """Otherwise jobs that return again and again would keep a slow queue from all others."""
    good = [desk.add(queue="d", due_in=0.001 * number) for number in range(1, 4)]
    desk.clock.advance(2)
    found = []
    for _ in range(4):
        claim = desk.claim_range(limit=1)
        found += ids(claim.jobs)
        desk.settle_range(claim)
    assert found == [*good, stuck]


@pytest.mark.one_shard
def test_that_is_so_while_batches_are_in_flight(desk: Desk) -> None:
    stuck = [desk.add(f"stuck-{n}", queue="d", due_in=-5) for n in range(3)]
    by_range(desk, *stuck)
    good = [desk.add(queue="d", due_in=0.001 * n) for n in range(6)]
    desk.clock.advance(0.2)
    flying = [desk.claim_range(limit=2)]
    order = ids(flying[0].jobs)
    desk.clock.advance(2)
    for _ in range(3):
        flying.append(desk.claim_range(limit=2, in_flight=flying))
        order += ids(flying[-1].jobs)
        assert desk.settle_range(flying.pop(0), left=len(flying[-1].jobs))
    assert order[:6] == good
    assert set(order[6:]) <= set(stuck)


@pytest.mark.one_shard
def test_a_better_priority_goes_first_although_others_have_been_due_longer(desk: Desk) -> None:
    desk.add("urgent", queue="d", due_in=-1, priority=8)
    by_range(desk, "urgent")
    low = desk.add_many(3, queue="d", due_in=-60)
    wait_for(desk, "urgent")
    assert ids(desk.claim_range(limit=2).jobs) == ["urgent", low[0]]


def test_a_worse_priority_does_not_come_between(desk: Desk) -> None:
    desk.add("low", queue="d", due_in=-1)
    by_range(desk, "low")
    high = desk.add("high", queue="d", due_in=-60, priority=8)
    wait_for(desk, "low")
    claim = desk.claim_range(limit=5)
    assert ids(claim.jobs) == [high]
    desk.settle_range(claim)
    assert ids(desk.claim_range(limit=5).jobs) == ["low"]


@pytest.mark.one_shard
def test_those_that_are_back_are_handed_over_in_the_order_of_the_queue(desk: Desk) -> None:
    low = desk.add_many(30, queue="d")
    urgent = [desk.add(f"urgent-{number}", queue="d", priority=9) for number in range(2)]
    by_range(desk, *low, *urgent)
    desk.clock.advance(60)
    order = []
    for _ in range(32):
        claim = desk.claim_range(limit=1)
        order += ids(claim.jobs)
        desk.settle_range(claim)
    assert order == [*urgent, *low]


def test_a_retried_claim_is_not_put_off(desk: Desk) -> None:
    claimed = desk.take()
    desk.retry(claimed)
    assert (desk.job(claimed.id).not_before, desk.job(claimed.id).refusals) == (None, 0)
    assert desk.claimed_ids() == [claimed.id]


def run_now(desk: Desk) -> None:
    desk.amend("stuck", Amendment(due_at=desk.now))


def run_in_bulk(desk: Desk) -> None:
    change = BulkChange(BulkVerb.RUN, desk.now)
    wanted = JobFilter(queue="d")
    assert every(partial(desk.store.find_all, change, wanted)) == ["stuck"]
    assert change_all(desk.store, change, wanted, ["stuck"], desk.now).changed == 1
    assert change_all(desk.store, change, wanted, ["stuck"], desk.now).changed == 0


def revive(desk: Desk) -> None:
    assert desk.cancel("stuck").refused is None
    assert desk.job("stuck").not_before is None
    assert desk.revive("stuck").refused is None


def replace_it(desk: Desk) -> None:
    new = desk.new("new", queue="d", key="k", replace=True)
    assert desk.insert([new])[0].kind == "replaced"


@pytest.mark.parametrize("change", [run_now, run_in_bulk, revive, replace_it])
def test_a_new_due_time_or_life_puts_it_in_line_at_once(
    desk: Desk, change: Callable[[Desk], None]
) -> None:
    desk.add("stuck", queue="d", due_in=-5, key="k")
    by_range(desk, "stuck")
    change(desk)
    job = desk.job("stuck")
    assert (job.not_before, job.refusals) == (None, 0)
    assert ids(desk.claim_range().jobs) == ["stuck"]


def test_running_it_in_bulk_leaves_its_due_time(desk: Desk, stuck: str) -> None:
    before = desk.job(stuck).due_at
    run_in_bulk(desk)
    assert desk.job(stuck).due_at == before


def test_in_another_queue_it_is_in_line_at_once(desk: Desk, stuck: str) -> None:
    change = BulkChange(BulkVerb.MOVE, desk.now, queue="other")
    assert change_all(desk.store, change, JobFilter(queue="d"), [stuck], desk.now).changed == 1
    job = desk.job(stuck)
    assert (job.queue, job.not_before, job.refusals) == ("other", None, 0)
    assert desk.claimed_ids(Queue("other")) == [stuck]


@pytest.mark.one_shard
def test_another_priority_or_payload_leaves_it_put_off(desk: Desk, stuck: str) -> None:
    before = desk.job(stuck)
    desk.amend(stuck, Amendment(priority=7, payload=b"1"))
    change = BulkChange(BulkVerb.REPRIORITISE, desk.now, priority=3)
    assert change_all(desk.store, change, JobFilter(), [stuck], desk.now).changed == 1
    after = desk.job(stuck)
    assert (after.not_before, after.refusals) == (before.not_before, 1)
    assert list(desk.claim_range().jobs) == []
    desk.add("plain", queue="d", due_in=-9)
    wait_for(desk, stuck)
    assert ids(desk.claim_range().jobs) == [stuck, "plain"]


def test_a_cancelled_one_is_never_delivered(desk: Desk, stuck: str) -> None:
    wait_for(desk, stuck)
    change = desk.cancel(stuck)
    assert change.refused is None
    assert (desk.state(stuck), desk.job(stuck).not_before) == (State.CANCELLED, None)
    assert list(desk.claim_range().jobs) == []
    assert desk.store.next_due(["d"]) is None


def test_it_is_cancelled_in_bulk(desk: Desk, stuck: str) -> None:
    change = BulkChange(BulkVerb.CANCEL, desk.now)
    assert every(partial(desk.store.find_all, change, JobFilter(queue="d"))) == [stuck]
    assert change_all(desk.store, change, JobFilter(queue="d"), [stuck], desk.now).changed == 1
    assert desk.state(stuck) is State.CANCELLED


def test_it_expires_while_it_is_put_off(desk: Desk) -> None:
    desk.add("stuck", queue="d", expires_at=desk.now + 300)
    by_range(desk, "stuck")
    assert desk.store.leases().next_lapse == By(desk.now + 300)
    desk.clock.advance(0.3)
    assert desk.store.expire(desk.now, 10) == 1
    assert (desk.state("stuck"), desk.codes("stuck")) == (State.CANCELLED, ["expired"])
    assert desk.job("stuck").not_before is None


@pytest.mark.needs("counts")
def test_it_is_listed_and_counted_like_any_scheduled_job(desk: Desk, stuck: str) -> None:
    other = desk.add(queue="d")
    assert desk.listed(queue="d", state=State.SCHEDULED) == [stuck, other]
    assert desk.listed() == [stuck, other]
    stats = desk.store.stats("d")
    assert stats.counts[State.SCHEDULED] == 2
    assert stats.put_off == 1
    start = desk.now - 10_000
    assert sum(desk.store.due_counts("d", start, desk.now + 1, 1_000).values()) == 2


@pytest.mark.needs("counts")
def test_it_is_late_only_once_it_may_be_offered_again(desk: Desk, stuck: str) -> None:
    assert desk.store.stats("d").oldest_due_at == not_before(desk, stuck)
    desk.add(queue="d", due_in=-1)
    assert desk.store.stats("d").oldest_due_at == desk.now - 1_000


def test_no_open_range_covers_it(desk: Desk, stuck: str) -> None:
    desk.add("good", queue="d", due_in=0.001)
    desk.clock.advance(0.001)
    claim = desk.claim_range()
    assert ids(claim.jobs) == ["good"]
    assert desk.state(stuck) is State.SCHEDULED
    assert desk.cancel(stuck).refused is None
    assert desk.settle_range(claim)


def test_it_takes_no_room_of_a_queue_with_a_concurrency(desk: Desk) -> None:
    one = Queue("one", sink="log:", concurrency=1)
    put_queue(desk.store, one)
    desk.add("stuck", queue="one")
    desk.settle_range(desk.claim_range(one), busy={"stuck": "busy"})
    desk.add("good", queue="one", due_in=0.001)
    desk.clock.advance(0.001)
    assert ids(desk.claim_range(one).jobs) == ["good"]


def test_a_refusal_uses_a_turn_of_the_rate_and_no_more(desk: Desk) -> None:
    rated = Queue("rated", sink="log:", rate_per_second=1)
    put_queue(desk.store, rated)
    desk.add("stuck", queue="rated")
    desk.settle_range(desk.claim_range(rated), busy={"stuck": "busy"})
    desk.add("good", queue="rated")
    assert desk.store.next_due(["rated"]) == By(desk.now + 1_000)
    desk.clock.advance(1)
    assert len(desk.claim_range(rated).jobs) == 1


def test_a_dispatcher_that_was_fenced_puts_nothing_off(desk: Desk) -> None:
    desk.add("stuck", queue="d")
    old = desk.claim_range()
    desk.clock.advance(61)
    new = desk.claim_range(dispatcher="other")
    assert not desk.settle_range(old, busy={"stuck": "busy"})
    assert desk.job("stuck").refusals == 0
    assert desk.settle_range(new, busy={"stuck": "busy"})
    assert desk.job("stuck").refusals == 1


def test_two_dispatchers_share_the_delay(desk: Desk, stuck: str) -> None:
    assert list(desk.claim_range(dispatcher="other").jobs) == []
    wait_for(desk, stuck)
    assert ids(desk.claim_range(dispatcher="other").jobs) == [stuck]
    assert list(desk.claim_range().jobs) == []


def test_a_cancel_request_is_not_lost_when_the_sink_refuses(desk: Desk) -> None:
    claimed = desk.take(queue=WORKED)
    desk.request_cancel(claimed.id)
    assert desk.settle(claimed, Verb.RELEASE, error="busy", put_off=True) is None
    assert desk.state(claimed.id) is State.CANCELLED
    assert desk.job(claimed.id).refusals == 0


def test_what_ended_by_that_cancel_request_may_be_repeated(desk: Desk) -> None:
    claimed = desk.take(queue=WORKED)
    desk.request_cancel(claimed.id)
    for _ in range(2):
        assert desk.settle(claimed, Verb.RELEASE, error="busy", put_off=True) is None
    assert desk.codes(claimed.id) == ["cancelled"]


@pytest.mark.one_shard
def test_repeating_the_settlement_of_a_range_leaves_a_cancelled_and_a_moved_job_alone(
    desk: Desk,
) -> None:
    cancelled, moved, _ = desk.add_many(3, queue="d")
    claim = desk.claim_range()

    def settle() -> bool:
        busy = {cancelled: "busy", moved: "busy"}
        return desk.settle_range(claim, delivered=[], busy=busy, left=1)

    assert settle()
    desk.cancel(cancelled)
    move = JobChange(ChangeVerb.MOVE, queue="other")
    assert desk.store.change([moved], move, desk.now).refused == {}
    before = [desk.job(cancelled), desk.job(moved)]
    desk.clock.advance(0.01)
    assert settle()
    assert [desk.job(cancelled), desk.job(moved)] == before


def test_it_waits_by_the_policy_that_its_queue_has_in_the_store(desk: Desk) -> None:
    claimed = desk.take(queue=WORKED)
    desk.set(replace(WORKED, retry=RetryPolicy(1000, 1.0, 1000)))
    assert desk.settle(claimed, Verb.RELEASE, error="busy", put_off=True) is None
    not_before = desk.job(claimed.id).not_before
    assert not_before is not None
    assert from_datetime(not_before) >= desk.now + 300_000


def test_repeating_the_settlement_changes_nothing(desk: Desk) -> None:
    claimed = desk.take(queue=WORKED)
    for _ in range(2):
        assert desk.settle(claimed, Verb.RELEASE, error="busy", put_off=True) is None
        desk.clock.advance(0.01)
    assert desk.job(claimed.id).refusals == 1


@pytest.mark.one_shard
def test_it_moves_house_as_it_is(desk: Desk, stuck: str) -> None:
    [dumped] = every(desk.store.export)
    job = dumped.job
    assert (job.not_before, job.refusals) == (desk.job(stuck).not_before, 1)
    moved = replace(dumped, job=job._replace(id="moved"))
    assert desk.store.admit([moved]) == 1
    found: Job = desk.job("moved")
    assert (found.not_before, found.refusals, found.error) == (job.not_before, 1, "busy")
    assert list(desk.claim_range().jobs) == []
    wait_for(desk, stuck)
    assert sorted(ids(desk.claim_range().jobs)) == ["moved", stuck]


def test_its_moment_is_told_to_listeners(desk: Desk) -> None:
    desk.add("stuck", queue="d")
    claim = desk.claim_range()
    listening = Listening(desk.store)
    desk.settle_range(claim, busy={"stuck": "busy"})
    moment = not_before(desk, "stuck")
    assert listening.has_heard_of("d", moment)


def test_workers_are_not_concerned(desk: Desk) -> None:
    claimed = desk.take()
    desk.release(claimed)
    assert desk.claimed_ids(Q) == [claimed.id]


@pytest.mark.parametrize(
    "policy", [RetryPolicy(1.0, 1e20, 1.0), RetryPolicy(1e17, 2.0, 1e18), RetryPolicy(1e12)]
)
def test_an_old_policy_without_bounds_stops_nothing(desk: Desk, policy: RetryPolicy) -> None:
    endless = replace(DELIVERY, retry=policy)
    put_queue(desk.store, endless)
    desk.add("a", queue="d")
    for _ in range(20):
        claim = desk.claim_range(endless)
        assert desk.settle_range(claim, busy=dict.fromkeys(ids(claim.jobs), "busy"))
        wait_for(desk, "a")
    assert desk.job("a").refusals == 20


@pytest.mark.one_shard
def test_one_that_is_back_before_jobs_in_flight_is_taken_beside_them(desk: Desk) -> None:
    desk.add("stuck", queue="d", due_in=-5)
    by_range(desk, "stuck")
    desk.add("other", queue="d", due_in=-1)
    flying = desk.claim_range()
    assert ids(flying.jobs) == ["other"]
    wait_for(desk, "stuck")
    assert ids(desk.claim_range(in_flight=[flying]).jobs) == ["stuck"]
