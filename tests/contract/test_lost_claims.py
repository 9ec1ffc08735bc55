"""What a lost claim costs: one job may kill its worker without harm to those fetched with it."""

from __future__ import annotations

from oncue.core.lifecycle import State
from oncue.core.queue import Queue

from .desk import LEASE, Desk, Q

ONCE = Queue("q", max_attempts=1)
OTHER = Queue("other")


def test_a_claim_remembers_whether_it_held_one_job_alone(desk: Desk) -> None:
    desk.add_many(2)
    desk.claim(limit=2)
    alone = desk.take()
    desk.add()
    desk.add(queue="other")
    desk.claim(Q, OTHER)
    desk.clock.advance(LEASE)
    found = {lapse.id: lapse.alone for lapse in desk.lapses(10)}
    assert [job_id for job_id, was_alone in found.items() if was_alone] == [alone.id]
    assert len(found) == 5
    lapse = desk.claim_on(alone.id)
    assert lapse is not None
    assert lapse.alone


def test_a_later_claim_forgets_how_the_earlier_one_was(desk: Desk) -> None:
    first, second = desk.add_many(2)
    for claimed in desk.claim():
        desk.release(claimed)
    for expected in (True, False):
        claims = desk.claim(limit=1 if expected else 2)
        lapse = desk.claim_on(first)
        assert lapse is not None
        assert lapse.alone is expected
        for claimed in claims:
            desk.release(claimed)
    assert desk.claimed_ids() == [first, second]


def test_jobs_that_were_only_fetched_together_keep_their_attempts(desk: Desk) -> None:
    added = desk.add_many(3)
    desk.claim(ONCE)
    desk.clock.advance(LEASE)
    desk.judge(ONCE)
    for job_id in added:
        job = desk.job(job_id)
        assert (job.state, job.attempt, job.attempt_base) == (State.SCHEDULED, 1, 1)
        [diagnostic] = desk.diagnostics(job_id)
        assert "fetched together with others: no attempt is used" in diagnostic.detail
        assert diagnostic.facts["uses_attempt"] is False
        assert desk.outcomes(job_id) == [(1, "reclaimed")]


def test_a_lost_claim_that_held_one_job_uses_its_attempt(desk: Desk) -> None:
    job_id = desk.take(queue=ONCE).id
    desk.clock.advance(LEASE)
    desk.judge(ONCE)
    assert desk.state(job_id) is State.FAILED


def test_a_job_that_started_uses_its_attempt_whoever_was_fetched_with_it(desk: Desk) -> None:
    started, fetched = desk.add_many(2)
    desk.touch(desk.claim(ONCE)[0])
    desk.clock.advance(LEASE)
    desk.judge(ONCE)
    assert (desk.state(started), desk.state(fetched)) == (State.FAILED, State.SCHEDULED)


def test_a_job_that_was_handed_over_uses_its_attempt(desk: Desk) -> None:
    queue = Queue("q", max_attempts=1, timeout_seconds=600)
    desk.add_many(2)
    handed, kept = desk.claim(queue)
    desk.hand_over(handed)
    desk.clock.advance(600)
    desk.judge(queue)
    assert (desk.state(handed.id), desk.state(kept.id)) == (State.FAILED, State.SCHEDULED)


def test_every_hand_over_has_a_number_of_its_own(desk: Desk) -> None:
    job_id, _ = desk.add_many(2, max_attempts=2)
    numbers = []
    for _ in range(3):
        numbers += [claimed.attempt for claimed in desk.claim() if claimed.id == job_id]
        desk.clock.advance(LEASE)
        desk.judge()
    # The first was lost together with another: it is not one of the two attempts.
    assert numbers == [1, 2, 3]
    assert desk.state(job_id) is State.FAILED


def test_one_that_kills_its_worker_ends_and_takes_nobody_with_it(desk: Desk) -> None:
    poison = desk.add("a-poison", priority=9)
    others = desk.add_many(99)
    for _ in range(4 + len(others)):
        for claimed in desk.claim(limit=100):
            if claimed.id == poison:
                break  # the worker dies
            desk.complete(claimed)
        desk.clock.advance(LEASE)
        desk.judge()
    assert desk.state(poison) is State.FAILED
    assert {desk.state(job_id) for job_id in others} == {State.SUCCEEDED}
    # One claim with all of them, then its three attempts, one at a time.
    assert desk.outcomes(poison) == [(number, "reclaimed") for number in (1, 2, 3, 4)]


def test_a_revived_job_has_all_its_attempts_again(desk: Desk) -> None:
    job_id = desk.take(queue=ONCE).id
    desk.clock.advance(LEASE)
    desk.judge(ONCE)
    desk.revive(job_id)
    again = desk.retake(job_id, queue=ONCE)
    assert (again.attempt, again.attempt_base) == (2, 1)
