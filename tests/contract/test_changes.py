"""What people change: amend, cancel, request a cancel, revive."""

from __future__ import annotations

from oncue.core.changes import ChangeVerb, JobChange, NotChanged
from oncue.core.job import JobFilter
from oncue.core.lease import Touched
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime
from oncue.ports.jobs import Changed
from tests.contract.changing import CANCEL, STOP, Amendment, Change, amend

from .desk import Desk, at

RUN = JobChange(ChangeVerb.RUN)
STAY = JobChange(ChangeVerb.MOVE, queue="q")


def test_nothing_can_be_changed_about_what_is_not_there(desk: Desk) -> None:
    nothing = Change(None)
    assert desk.amend("x", Amendment(priority=1)) == nothing
    assert desk.cancel("x") == nothing
    assert desk.request_cancel("x") == nothing
    assert desk.revive("x") == nothing


def test_an_id_that_no_job_can_have_is_unknown(desk: Desk) -> None:
    desk.add("a")
    for job_id in ("a\0b", "\0", ""):
        unknown = Changed({0: NotChanged("unknown")}, None)
        assert desk.store.change([job_id], CANCEL, desk.now) == unknown
    assert desk.state("a") is State.SCHEDULED


def test_each_job_that_is_not_changed_is_told_by_position_with_the_reason(desk: Desk) -> None:
    waiting, taken = desk.add(owner="ada", due_in=9), desk.take(owner="ada").id
    covered, other = desk.add(queue="d", owner="ada"), desk.add(due_in=9)
    desk.claim_range()
    wanted = JobChange(ChangeVerb.CANCEL, JobFilter(owner="ada"))
    changed = desk.store.change([waiting, "x", taken, covered, other], wanted, desk.now)
    assert changed.refused == {
        1: NotChanged("unknown"),
        2: NotChanged("state", State.DISPATCHED),
        3: NotChanged("state", State.DISPATCHED),
        4: NotChanged("filter", State.SCHEDULED),
    }
    assert desk.state(waiting) is State.CANCELLED


def test_a_job_that_is_as_wanted_is_left_alone(desk: Desk) -> None:
    taken, waiting = desk.take().id, desk.add(priority=3)
    desk.request_cancel(taken)
    before = desk.job(waiting), desk.job(taken)
    desk.clock.advance(1)
    same = amend(Amendment(due_at=from_datetime(before[0].due_at), priority=3))
    for job_id, wanted in ((waiting, same), (waiting, RUN), (waiting, STAY), (taken, STOP)):
        state = desk.state(job_id)
        told = Changed({0: NotChanged("as wanted", state)}, desk.job(job_id))
        assert desk.store.change([job_id], wanted, desk.now) == told
    assert (desk.job(waiting), desk.job(taken)) == before


def test_an_amendment_changes_what_it_names_and_leaves_the_rest(desk: Desk) -> None:
    job_id = desk.add(priority=3, payload=b"old", due_in=60)
    desk.clock.advance(1)
    change = desk.amend(job_id, Amendment(due_at=desk.now + 5_000))
    job = desk.job(job_id)
    assert change == Change(job)
    assert (job.due_at, job.priority, job.payload_json) == (at(desk.now + 5_000), 3, b"old")
    assert job.updated_at == at(desk.now)
    desk.amend(job_id, Amendment(priority=0, payload=b""))
    job = desk.job(job_id)
    assert (job.due_at, job.priority, job.payload_json) == (at(desk.now + 5_000), 0, b"")


def test_a_job_that_was_moved_is_claimed_at_its_new_time_only(desk: Desk) -> None:
    later, sooner = desk.add(), desk.add(due_in=100)
    desk.amend(later, Amendment(due_at=desk.now + 100_000))
    desk.amend(sooner, Amendment(due_at=desk.now))
    assert desk.claimed_ids() == [sooner]
    desk.clock.advance(100)
    assert desk.claimed_ids() == [later]


def test_a_job_whose_priority_was_raised_goes_first(desk: Desk) -> None:
    first, second = desk.add(), desk.add()
    desk.amend(second, Amendment(priority=1))
    assert desk.claimed_ids() == [second, first]


def test_a_cancelled_job_is_never_claimed(desk: Desk) -> None:
    job_id = desk.add()
    change = desk.cancel(job_id)
    job = desk.job(job_id)
    assert change == Change(job)
    assert (job.state, job.finished_at) == (State.CANCELLED, at(desk.now))
    desk.clock.advance(1_000)
    assert desk.claim() == []
    assert desk.claim_range().jobs in ((), [])
    assert desk.store.next_due(["q"]) is None


def test_cancelling_twice_is_refused_the_second_time(desk: Desk) -> None:
    job_id = desk.add()
    desk.cancel(job_id)
    assert desk.cancel(job_id) == Change(desk.job(job_id), "state")


def test_a_cancel_request_reaches_the_worker_by_its_next_sign_of_life(desk: Desk) -> None:
    claimed = desk.take()
    assert desk.touch(claimed) == Touched(claimed.lease_until, cancel_requested=False)
    change = desk.request_cancel(claimed.id)
    assert change.refused is None
    assert change.job is not None
    assert change.job.cancel_requested
    assert desk.state(claimed.id) is State.EXECUTING
    assert desk.touch(claimed) == Touched(claimed.lease_until, cancel_requested=True)


def test_a_cancel_is_requested_of_taken_jobs_only(desk: Desk) -> None:
    waiting, claimed = desk.add(due_in=60), desk.take()
    assert desk.request_cancel(waiting).refused == "state"
    assert desk.request_cancel(claimed.id).refused is None
    desk.complete(claimed)
    assert desk.request_cancel(claimed.id).refused == "state"


def test_a_cancel_request_cannot_reach_a_job_that_is_being_delivered(desk: Desk) -> None:
    job_id = desk.add(queue="d")
    claim = desk.claim_range()
    assert desk.request_cancel(job_id).refused == "state"
    assert not desk.job(job_id).cancel_requested
    assert desk.settle_range(claim)


def test_a_job_whose_cancel_was_requested_is_not_sent_back_but_ends_cancelled(desk: Desk) -> None:
    for settle, code in ((desk.retry, "failure"), (desk.release, "cancelled")):
        claimed = desk.take()
        desk.request_cancel(claimed.id)
        assert settle(claimed) is None
        assert desk.state(claimed.id) is State.CANCELLED
        assert desk.codes(claimed.id) == [code]


def test_a_worker_may_complete_or_fail_a_job_in_spite_of_the_request(desk: Desk) -> None:
    for settle, state in ((desk.complete, State.SUCCEEDED), (desk.fail, State.FAILED)):
        claimed = desk.take()
        desk.request_cancel(claimed.id)
        assert settle(claimed) is None
        assert desk.state(claimed.id) is state


def test_a_revived_job_is_due_now_with_a_new_allowance_and_its_operations(desk: Desk) -> None:
    claimed = desk.take(max_attempts=1, payload=b"work")
    desk.put_operation(claimed, "download", result=b"file")
    desk.request_cancel(claimed.id)
    desk.fail(claimed, "boom")
    desk.clock.advance(10)
    change = desk.revive(claimed.id)
    job = desk.job(claimed.id)
    assert change == Change(job)
    assert (job.state, job.due_at, job.finished_at) == (State.SCHEDULED, at(desk.now), None)
    assert (job.result_json, job.error, job.cancel_requested) == (None, None, False)
    assert (job.attempt, job.attempt_base, job.payload_json) == (1, 1, b"work")
    again = desk.retake(claimed.id)
    assert (again.attempt, again.attempt_base, again.epoch) == (2, 1, 2)
    assert [operation.result for operation in again.operations] == [b"file"]
    desk.complete(again)
    assert desk.outcomes(claimed.id) == [(1, "failed"), (2, "succeeded")]


def test_an_earlier_life_keeps_the_moment_of_its_end(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(5)
    desk.fail(claimed)
    ended_at = at(desk.now)
    desk.clock.advance(5)
    desk.revive(claimed.id)
    assert [attempt.ended_at for attempt in desk.attempts(claimed.id)] == [ended_at]


def test_a_cancelled_job_can_be_revived_and_counts_from_nothing(desk: Desk) -> None:
    job_id = desk.add(due_in=60)
    desk.cancel(job_id)
    assert desk.revive(job_id).refused is None
    assert desk.retake(job_id).attempt == 1


def test_a_job_that_expired_can_be_revived_and_does_not_expire_at_once_again(desk: Desk) -> None:
    job_id = desk.add(expires_at=desk.now + 1_000)
    desk.clock.advance(1)
    assert desk.store.expire(desk.now, 10) == 1
    assert desk.revive(job_id).refused is None
    assert desk.store.expire(desk.now, 10) == 0
    assert desk.claimed_ids() == [job_id]


def test_reviving_is_refused_while_the_key_is_taken(desk: Desk) -> None:
    first = desk.add(key="k")
    desk.cancel(first)
    second = desk.add(key="k")
    assert desk.revive(first) == Change(desk.job(first), "key")
    assert desk.state(first) is State.CANCELLED
    desk.cancel(second)
    assert desk.revive(first).refused is None
    assert desk.revive(second).refused == "key"


def test_reviving_forgets_that_a_job_was_reclaimed(desk: Desk) -> None:
    claimed = desk.take("z")
    desk.reclaim(desk.lapse())
    desk.cancel(claimed.id)
    other = desk.add("a")
    desk.revive(claimed.id)
    assert desk.claimed_ids() == [other, claimed.id]
    desk.clock.advance(60)
    assert [lapse.strikes for lapse in desk.lapses(10)] == [0, 0]
