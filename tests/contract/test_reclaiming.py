"""Lost and overlong claims: found, judged by the caller, applied once."""

from __future__ import annotations

import pytest

from oncue.core.fencing import Refused
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import to_datetime
from oncue.core.queue import Queue
from oncue.core.retry import after_lapse

from .desk import FLEETING, LEASE, Desk, Q, at, ids, verdict
from .promises import By


def test_a_claim_lapses_when_its_lease_ends_and_not_before(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(LEASE - 0.001)
    assert desk.lapses(10) == []
    assert desk.store.leases().next_lapse == By(desk.now + 1)
    desk.clock.advance(0.001)
    (lapse,) = desk.lapses(10)
    assert (lapse.id, lapse.queue, lapse.state) == (claimed.id, "q", State.DISPATCHED)
    assert (lapse.epoch, lapse.attempt, lapse.attempt_base, lapse.max_attempts) == (1, 1, 0, None)
    assert (lapse.strikes, lapse.cancel_requested, lapse.worker) == (0, False, "ada")
    assert (lapse.claimed_at, lapse.updated_at) == (claimed.claimed_at, claimed.claimed_at)
    assert (lapse.lease_until, lapse.overlong_at) == (claimed.lease_until, None)


def test_a_heartbeat_keeps_a_claim_alive(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(LEASE - 1)
    desk.touch(claimed, lease_seconds=LEASE)
    heard_at = desk.now
    desk.clock.advance(LEASE - 1)
    assert desk.lapses(10) == []
    lapse = desk.lapse(1)
    assert (lapse.state, lapse.updated_at) == (State.EXECUTING, heard_at)


def test_a_claim_is_overlong_in_spite_of_its_heartbeats(desk: Desk) -> None:
    claimed = desk.take(timeout_seconds=100)
    for _ in range(9):
        desk.clock.advance(11)
        desk.touch(claimed, lease_seconds=LEASE)
    assert desk.lapses(10) == []
    assert desk.store.leases().next_lapse == By(claimed.claimed_at + 100_000)
    lapse = desk.lapse(1)
    assert lapse.overlong_at == desk.now


def test_the_timeout_is_the_jobs_or_else_the_queues(desk: Desk) -> None:
    own, inherited, unbounded = (
        desk.take(queue=Queue("q", timeout_seconds=20), timeout_seconds=10),
        desk.take(queue=Queue("q", timeout_seconds=20)),
        desk.take(),
    )
    desk.clock.advance(LEASE)
    bounds = {lapse.id: lapse.overlong_at for lapse in desk.lapses(10)}
    claimed_at = own.claimed_at
    assert bounds == {
        own.id: claimed_at + 10_000,
        inherited.id: claimed_at + 20_000,
        unbounded.id: None,
    }


def test_a_timeout_is_right_to_the_millisecond(desk: Desk) -> None:
    desk.take(timeout_seconds=1.001)  # in binary, a little less
    assert desk.store.leases().next_lapse == By(desk.now + 1_001)


def test_the_oldest_lapses_come_first_and_not_more_than_asked_for(desk: Desk) -> None:
    claims = []
    for _ in range(4):
        claims.append(desk.take())
        desk.clock.advance(1)
    desk.clock.advance(LEASE)
    assert ids(desk.lapses(3)) == ids(claims[:3])


def test_waiting_and_finished_jobs_never_lapse(desk: Desk) -> None:
    desk.complete(desk.take())
    desk.release(desk.take())
    desk.clock.advance(1_000_000)
    assert desk.lapses(10) == []
    assert desk.store.leases().next_lapse is None


def test_the_next_expiry_counts_as_the_next_lapse(desk: Desk) -> None:
    desk.take()
    desk.add(due_in=5, expires_at=desk.now + 50_000)
    assert desk.store.leases().next_lapse == By(desk.now + 50_000)


def test_reclaimed_work_is_due_again_at_once_with_its_members_untouched(desk: Desk) -> None:
    claimed = desk.take(due_in=-5, priority=3)
    lapse = desk.lapse()
    assert desk.reclaim(lapse) is None
    job = desk.job(claimed.id)
    assert (job.state, job.epoch, job.attempt) == (State.SCHEDULED, 2, 1)
    assert (job.due_at, job.priority) == (to_datetime(claimed.due_at), 3)
    assert (job.worker, job.lease_until, job.finished_at) == (None, None, None)
    (diagnostic,) = desk.diagnostics(claimed.id)
    assert (diagnostic.code, diagnostic.detail) == ("timeout_dispatched", "Nothing was heard.")
    assert (diagnostic.attempt, diagnostic.epoch, diagnostic.at) == (1, 1, at(desk.now))
    (attempt,) = desk.attempts(claimed.id)
    assert (attempt.outcome, attempt.ended_at) == ("reclaimed", at(desk.now))
    again = desk.retake(claimed.id)
    assert (again.attempt, again.epoch) == (2, 3)


def test_a_claim_that_is_given_up_fails_and_its_error_is_the_diagnostic(desk: Desk) -> None:
    claimed = desk.take()
    desk.put_operation(claimed, "all of it", result=b"r")
    assert desk.reclaim(desk.lapse(), Verb.GIVE_UP) is None
    job = desk.job(claimed.id)
    assert (job.state, job.epoch, job.error) == (State.FAILED, 2, "Nothing was heard.")
    assert (job.finished_at, job.lease_until) == (at(desk.now), None)
    assert len(desk.diagnostics(claimed.id)) == 1
    assert desk.outcomes(claimed.id) == [(1, "reclaimed")]
    assert desk.lapses(10) == []


def test_a_claim_that_is_dropped_ends_cancelled(desk: Desk) -> None:
    claimed = desk.take()
    desk.request_cancel(claimed.id)
    lapse = desk.lapse()
    assert lapse.cancel_requested
    verdict = after_lapse(lapse, Q, desk.now)
    assert desk.store.reclaim([(lapse, verdict)], desk.now) == {}
    assert desk.state(claimed.id) is State.CANCELLED
    assert desk.codes(claimed.id) == ["timeout_dispatched"]
    assert desk.outcomes(claimed.id) == [(1, "reclaimed")]


@pytest.mark.parametrize("verb", [Verb.COMPLETE, Verb.FAIL, Verb.RETRY, Verb.RELEASE, Verb.DROP])
def test_a_job_that_settled_between_scan_and_reclaim_is_left_alone(desk: Desk, verb: Verb) -> None:
    claimed = desk.take()
    lapse = desk.lapse()
    desk.settle(claimed, verb, due_at=desk.now)
    job, history = desk.job(claimed.id), desk.store.history(claimed.id)
    assert desk.reclaim(lapse) == Refused("moved on", job.state)
    assert (desk.job(claimed.id), desk.store.history(claimed.id)) == (job, history)


def test_a_job_that_was_heard_between_scan_and_reclaim_is_left_alone(desk: Desk) -> None:
    claimed = desk.take()
    desk.touch(claimed)
    lapse = desk.lapse()
    desk.touch(claimed, lease_seconds=LEASE)
    job = desk.job(claimed.id)
    assert desk.reclaim(lapse) == Refused("moved on", State.EXECUTING)
    assert desk.job(claimed.id) == job
    assert desk.codes(claimed.id) == []
    assert desk.complete(claimed) is None


def test_a_cancel_requested_between_scan_and_reclaim_forces_a_new_decision(desk: Desk) -> None:
    claimed = desk.take()
    lapse = desk.lapse()
    desk.request_cancel(claimed.id)
    assert desk.reclaim(lapse) == Refused("moved on", State.DISPATCHED)
    (seen,) = desk.lapses(10)
    assert desk.reclaim(seen, Verb.DROP) is None
    assert desk.state(claimed.id) is State.CANCELLED


def test_a_job_that_was_taken_again_meanwhile_is_left_alone(desk: Desk) -> None:
    claimed = desk.take()
    lapse = desk.lapse()
    desk.release(claimed)
    desk.retake(claimed.id)
    job = desk.job(claimed.id)
    assert desk.reclaim(lapse) == Refused("moved on", State.DISPATCHED)
    assert desk.job(claimed.id) == job


def test_of_two_reclaimers_one_wins_and_one_diagnostic_is_left(desk: Desk) -> None:
    claimed = desk.take()
    lapse = desk.lapse()
    assert desk.reclaim(lapse) is None
    for verb in (Verb.RECLAIM, Verb.GIVE_UP, Verb.DROP):
        assert desk.reclaim(lapse, verb) == Refused("moved on", State.SCHEDULED)
    assert desk.codes(claimed.id) == ["timeout_dispatched"]
    assert desk.job(claimed.id).attempt == 1
    desk.retake(claimed.id)
    assert isinstance(desk.reclaim(lapse), Refused)
    assert desk.state(claimed.id) is State.DISPATCHED


def test_reclaiming_a_job_that_is_gone_is_refused(desk: Desk) -> None:
    claimed = desk.take(queue=FLEETING)
    lapse = desk.lapse()
    desk.complete(claimed)
    assert desk.reclaim(lapse) == Refused("unknown", None)


def test_a_batch_of_verdicts_names_the_refused_ones_only(desk: Desk) -> None:
    desk.add_many(3)
    claims = desk.claim()
    desk.clock.advance(LEASE)
    lapses = desk.lapses(10)
    desk.complete(claims[1])
    verbs = (Verb.RECLAIM, Verb.RECLAIM, Verb.GIVE_UP)
    verdicts = [(lapse, verdict(verb, desk.now)) for lapse, verb in zip(lapses, verbs, strict=True)]
    refused = desk.store.reclaim(verdicts, desk.now)
    assert {position: one.reason for position, one in refused.items()} == {1: "moved on"}
    states = [desk.state(claimed.id) for claimed in claims]
    assert states == [State.SCHEDULED, State.SUCCEEDED, State.FAILED]
    assert desk.store.reclaim([], desk.now) == {}


def test_strikes_count_reclaims_since_an_operation_last_succeeded(desk: Desk) -> None:
    job_id = desk.add()
    seen = []
    for number in range(5):
        claimed = desk.retake(job_id)
        desk.put_operation(claimed, "half", "executing")
        if number == 2:
            desk.put_operation(claimed, "step", result=b"r")
        if number == 3:
            desk.put_operation(claimed, "step", result=b"r")  # nothing new
        lapse = desk.lapse()
        seen.append(lapse.strikes)
        desk.reclaim(lapse, strike=True)
    assert seen == [0, 1, 0, 1, 2]


def test_a_reclaim_that_is_no_strike_leaves_the_strikes_alone(desk: Desk) -> None:
    job_id = desk.add()
    for strike in (True, False):
        desk.retake(job_id)
        desk.reclaim(desk.lapse(), strike=strike)
    desk.retake(job_id)
    assert desk.lapse().strikes == 1


def test_releases_and_retries_leave_the_strikes_alone(desk: Desk) -> None:
    job_id = desk.add()
    desk.retake(job_id)
    desk.reclaim(desk.lapse(), strike=True)
    desk.release(desk.retake(job_id))
    desk.retry(desk.retake(job_id))
    desk.retake(job_id)
    assert desk.lapse().strikes == 1


def test_a_job_that_kills_every_worker_comes_to_an_end(desk: Desk) -> None:
    job_id = desk.add(max_attempts=20)
    for _ in range(3):
        desk.touch(desk.retake(job_id))
        desk.clock.advance(LEASE)
        desk.judge()
    assert desk.state(job_id) is State.FAILED
    assert desk.codes(job_id) == ["timeout_executing", "timeout_executing", "poison"]
    assert desk.claim() == []


def test_the_last_attempt_that_times_out_fails_the_job(desk: Desk) -> None:
    job_id = desk.add(max_attempts=2)
    for _ in range(2):
        desk.touch(desk.retake(job_id))
        lapse = desk.lapse()
        desk.store.reclaim([(lapse, after_lapse(lapse, Q, desk.now))], desk.now)
    job = desk.job(job_id)
    assert (job.state, job.attempt) == (State.FAILED, 2)
    assert job.error == desk.diagnostics(job_id)[-1].detail
    assert desk.outcomes(job_id) == [(1, "reclaimed"), (2, "reclaimed")]


def test_epochs_only_rise(desk: Desk) -> None:
    job_id = desk.add()
    epochs = []
    for end in (desk.retry, desk.release, None, desk.fail, desk.drop, desk.complete):
        claimed = desk.retake(job_id)
        epochs.append(claimed.epoch)
        if end is None:
            desk.reclaim(desk.lapse())
        else:
            end(claimed)
        if desk.state(job_id) in (State.FAILED, State.CANCELLED):
            desk.revive(job_id)
    assert epochs == [1, 2, 3, 5, 6, 7]


def test_several_lapses_judged_twice_in_one_call_are_reclaimed_once(desk: Desk) -> None:
    added = desk.add_many(3)
    desk.claim()
    desk.clock.advance(LEASE)
    verdicts = [(lapse, verdict(Verb.RECLAIM, desk.now)) for lapse in desk.lapses()]
    refused = desk.store.reclaim(verdicts * 2, desk.now)
    assert {at: answer.reason for at, answer in refused.items()} == dict.fromkeys(
        (3, 4, 5), "moved on"
    )
    assert {len(desk.codes(job_id)) for job_id in added} == {1}
