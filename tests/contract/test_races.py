"""Real threads. Each race is run with everybody starting at once."""

from __future__ import annotations

import pytest

from oncue.core.job import Claimed
from oncue.core.lease import Touched
from oncue.core.lifecycle import State, Verb

from .desk import DELIVERY, LEASE, Desk, Q, claim_due, ids, settlement, together, verdict

THREADS = 8


def test_every_job_is_claimed_exactly_once(desk: Desk) -> None:
    added = desk.add_many(400)

    def work(thread: int) -> list[Claimed]:
        mine: list[Claimed] = []
        while claims := claim_due(desk.store, [Q], f"worker {thread}", 7, desk.now):
            mine += claims
        return mine

    shares = together(THREADS, work)
    assert sorted(claimed.id for share in shares for claimed in share) == added
    assert {claimed.epoch for share in shares for claimed in share} == {1}
    for thread, share in enumerate(shares):
        assert all(desk.job(claimed.id).worker == f"worker {thread}" for claimed in share)


def test_jobs_inserted_while_others_claim_are_all_claimed_once(desk: Desk) -> None:
    done = []

    def work(thread: int) -> list[str]:
        if thread < 4:
            for number in range(50):
                desk.add(f"job-{thread}-{number:02}")
            done.append(thread)
            return []
        mine: list[str] = []
        while len(done) < 4:
            mine += ids(claim_due(desk.store, [Q], f"worker {thread}", 5, desk.now))
        return mine

    claimed = [job_id for share in together(THREADS, work) for job_id in share]
    claimed += desk.claimed_ids(limit=1000)
    assert len(claimed) == len(set(claimed)) == 200


@pytest.mark.parametrize("round_", range(5))
def test_a_job_is_either_cancelled_or_delivered(desk: Desk, round_: int) -> None:
    added = desk.add_many(60, queue="d")
    delivered: list[str] = []
    cancelled: list[str] = []

    def work(thread: int) -> None:
        if thread == 0:
            while desk.listed(queue="d", state=State.SCHEDULED):  # a cancel may be in the way
                if (claim := desk.claim_range(limit=7)).jobs:
                    delivered.extend(ids(claim.jobs))
                    assert desk.settle_range(claim)
            return
        for job_id in reversed(added[thread::4]):
            if desk.cancel(job_id).refused is None:
                cancelled.append(job_id)

    together(4, work)
    assert sorted(delivered + cancelled) == added
    assert desk.listed(state=State.CANCELLED) == sorted(cancelled)
    assert desk.listed(state=State.SUCCEEDED) == sorted(delivered)


@pytest.mark.one_shard
def test_of_dispatchers_that_ask_at_once_one_gets_the_range(desk: Desk) -> None:
    desk.add_many(20, queue="d")
    claims = together(THREADS, lambda thread: desk.claim_range(dispatcher=f"d{thread}"))
    winners = [claim for claim in claims if claim.jobs]
    assert len(winners) == 1
    assert all(claim.busy_until == desk.now + 60_000 for claim in claims if not claim.jobs)


@pytest.mark.one_shard
def test_of_dispatchers_that_take_over_at_once_one_settles(desk: Desk) -> None:
    added = desk.add_many(20, queue="d")
    desk.claim_range()
    desk.clock.advance(LEASE)
    claims = together(THREADS, lambda thread: desk.claim_range(dispatcher=f"d{thread}"))
    settled = together(THREADS, lambda thread: desk.settle_range(claims[thread]))
    assert settled.count(True) == 1
    assert [desk.outcomes(job_id) for job_id in added] == [[(1, "succeeded")]] * 20
    assert desk.claim_range(DELIVERY, "last").jobs in ((), [])


def test_a_claim_is_settled_by_one_of_the_threads_that_settle_it(desk: Desk) -> None:
    claimed = desk.take()
    answers = together(THREADS, lambda thread: desk.complete(claimed, b"%d" % thread))
    winners = [thread for thread, answer in enumerate(answers) if answer is None]
    assert len(winners) == 1
    assert desk.job(claimed.id).result_json == b"%d" % winners[0]
    assert desk.codes(claimed.id) == ["fenced"]
    assert desk.outcomes(claimed.id) == [(1, "succeeded")]


def test_the_same_settlement_from_many_threads_is_welcome(desk: Desk) -> None:
    claimed = desk.take()
    assert together(THREADS, lambda _: desk.complete(claimed, b"r")) == [None] * THREADS
    assert desk.codes(claimed.id) == []


def test_a_key_is_given_to_one_job(desk: Desk) -> None:
    def insert(thread: int) -> str | None:
        new = desk.new(f"job-{thread}", key="k")
        clash = desk.insert([new]).get(0)
        return None if clash is None else clash.job.id

    answers = together(THREADS, insert)
    (winner,) = desk.listed()
    assert answers.count(None) == 1
    assert {answer for answer in answers if answer is not None} == {winner}


def test_an_id_is_given_to_one_job(desk: Desk) -> None:
    def insert(thread: int) -> str | None:
        new = desk.new("mine", digest=b"d", payload=b"%d" % thread)
        clash = desk.insert([new]).get(0)
        return None if clash is None else clash.kind

    answers = together(THREADS, insert)
    assert sorted(answers, key=str) == [None] + ["existing"] * (THREADS - 1)
    assert desk.job("mine").payload_json == b"%d" % answers.index(None)


def test_a_lapse_is_reclaimed_by_one_of_the_reclaimers(desk: Desk) -> None:
    desk.add_many(10)
    desk.claim()
    desk.clock.advance(LEASE)
    verdicts = [(lapse, verdict(Verb.RECLAIM, desk.now)) for lapse in desk.lapses(10)]
    refused = together(THREADS, lambda _: desk.store.reclaim(verdicts, desk.now))
    assert sum(len(one) for one in refused) == 10 * (THREADS - 1)
    for lapse, _ in verdicts:
        assert desk.job(lapse.id).epoch == 2
        assert desk.codes(lapse.id) == ["timeout_dispatched"]


def test_a_worker_that_settles_during_the_reclaim_wins_or_loses_whole(desk: Desk) -> None:
    desk.add_many(40)
    claims = desk.claim()
    desk.clock.advance(LEASE)
    lapses = desk.lapses(100)
    assert len(lapses) == len(claims) == 40

    def work(thread: int) -> list[bool]:
        if thread == 0:
            return [desk.reclaim(lapse) is None for lapse in lapses]
        return [
            desk.store.settle([settlement(claimed, Verb.COMPLETE)], desk.now).refused == {}
            for claimed in claims
        ]

    reclaimed, completed = together(2, work)
    for claimed, lost, done in zip(claims, reclaimed, completed, strict=True):
        assert lost is not done
        expected = State.SUCCEEDED if done else State.SCHEDULED
        assert desk.state(claimed.id) is expected


def test_heartbeats_and_cancel_requests_do_not_lose_each_other(desk: Desk) -> None:
    desk.add_many(30)
    claims = desk.claim()

    def work(thread: int) -> None:
        for claimed in claims:
            if thread == 0:
                desk.request_cancel(claimed.id)
            else:
                assert isinstance(desk.touch(claimed, percent=float(thread)), Touched)

    together(4, work)
    for claimed in claims:
        job = desk.job(claimed.id)
        assert job.cancel_requested
        assert job.percent in (1.0, 2.0, 3.0)
