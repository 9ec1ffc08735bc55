"""Claims for several takers at once, and claims whose answer got lost."""

from __future__ import annotations

import pytest

from oncue.core.job import Claimed
from oncue.core.lifecycle import State
from oncue.core.queue import Queue
from oncue.core.retry import after_lapse
from oncue.core.sharing import Taker
from oncue.ports.store import Store

from .desk import DELIVERY, LEASE, Desk, Q, ids

ADA, BOB, CLEO = Taker("ada", 2), Taker("bob", 2, 10.0), Taker("cleo", 2)
OTHER = Queue("other", lease_seconds=30)
LARGE = b'"' + b"x" * 5_000 + b'"'


def shared(desk: Desk, *takers: Taker, queues: tuple[Queue, ...] = (Q,)) -> list[list[str]]:
    claims = desk.store.claim(queues, takers, desk.now, nonce="n")
    return [ids(share) for share in claims]


def test_due_jobs_are_shared_out_in_the_order_of_the_takers(desk: Desk) -> None:
    added = desk.add_many(5)
    assert shared(desk, ADA, BOB, CLEO, Taker("dora", 9)) == [
        added[:2],
        added[2:4],
        added[4:],
        [],
    ]
    assert [desk.job(job_id).worker for job_id in added] == ["ada", "ada", "bob", "bob", "cleo"]


@pytest.mark.one_shard
def test_takers_share_what_is_behind_an_open_range(desk: Desk) -> None:
    desk.add(queue="d")
    assert desk.claim_range().jobs
    added = [desk.add(queue="d", due_in=1), desk.add(queue="d", due_in=2)]
    desk.clock.advance(2)
    takers = (Taker("ada", 1), Taker("bob", 1))
    assert shared(desk, *takers, queues=(DELIVERY,)) == [[added[0]], [added[1]]]


def test_nobody_asks_and_nothing_is_taken(desk: Desk) -> None:
    desk.add()
    assert desk.store.claim([Q], [], desk.now, nonce="n") == []
    assert desk.store.claim([], [ADA, BOB], desk.now, nonce="n") == [[], []]


def test_queues_with_timeouts_of_whole_seconds_and_of_parts_are_claimed_together(
    desk: Desk,
) -> None:
    queues = Queue("q", timeout_seconds=30), Queue("other", timeout_seconds=2.5)
    for queue in queues:
        desk.set(queue)
        desk.add(queue=queue.name)
    assert [one.queue for one in desk.claim(*queues)] == ["q", "other"]


def test_each_taker_has_its_own_lease(desk: Desk) -> None:
    desk.add_many(2)
    desk.add_many(2, queue="other")
    takers = (Taker("ada", 1), Taker("bob", 2, 10.0), Taker("cleo", 1))
    shares = desk.store.claim([Q, OTHER], takers, desk.now, nonce="n")
    leases = [[(one.queue, one.lease_until - desk.now) for one in share] for share in shares]
    assert leases == [[("q", 60_000)], [("q", 10_000), ("other", 10_000)], [("other", 30_000)]]
    stored = [desk.job(one.id).lease_until for share in shares for one in share]
    assert [round(at.timestamp() * 1000) if at else None for at in stored] == [
        one.lease_until for share in shares for one in share
    ]


def test_a_taker_that_got_one_job_holds_it_alone(desk: Desk) -> None:
    added = desk.add_many(3)
    shared(desk, ADA, BOB)
    desk.clock.advance(LEASE)
    alone = {lapse.id: lapse.alone for lapse in desk.lapses()}
    assert alone == {added[0]: False, added[1]: False, added[2]: True}


def test_the_limits_of_a_queue_hold_for_all_takers_together(desk: Desk) -> None:
    desk.set(Queue("q", concurrency=3))
    added = desk.add_many(5)
    others = desk.add_many(1, queue="other")
    assert shared(desk, ADA, BOB, CLEO, queues=(Q, OTHER)) == [
        added[:2],
        [added[2], others[0]],
        [],
    ]


def test_the_rate_of_a_queue_holds_for_all_takers_together(desk: Desk) -> None:
    desk.set(Queue("q", rate_per_second=30))
    added = desk.add_many(5)
    assert shared(desk, ADA, BOB, CLEO) == [added[:2], added[2:3], []]
    desk.clock.advance(0.034)
    assert shared(desk, ADA, BOB, CLEO) == [added[3:4], [], []]


def test_whoever_gets_reclaimed_work_gets_nothing_else(desk: Desk) -> None:
    lost = desk.add_many(3)
    desk.claim()
    desk.clock.advance(LEASE)
    for lapse in desk.lapses():
        desk.reclaim(lapse)
    waiting = desk.add_many(5)
    takers = (ADA, Taker("bob", 5, reclaimed_limit=2), CLEO, Taker("dora", 9))
    assert shared(desk, *takers) == [lost[:1], lost[1:], waiting[:2], waiting[2:]]


def test_the_rate_counts_reclaimed_and_other_work_of_one_call(desk: Desk) -> None:
    desk.set(Queue("q", concurrency=4, rate_per_second=100))
    [lost] = desk.add_many(1)
    desk.claim()
    desk.clock.advance(LEASE)
    desk.reclaim(desk.lapses()[0])
    waiting = desk.add_many(5)
    assert shared(desk, ADA, BOB, CLEO) == [[lost], waiting[:2], waiting[2:3]]


# -- answers that got lost -------------------------------------------------------------------------


def again(desk: Desk, store: Store, nonce: str, *takers: Taker) -> list[list[Claimed]]:
    return store.claim([Q, OTHER], takers, desk.now, nonce=nonce, again=True)


def test_a_repeated_claim_is_answered_as_the_first_and_takes_nothing(
    desk: Desk, twin: Store
) -> None:
    claimed = desk.take("with a step", due_in=-9)
    desk.put_operation(claimed, "step", result=b"1")
    desk.retry(claimed)
    desk.add_many(2, priority=1)
    desk.add_many(1, due_in=-1)
    desk.add_many(1, queue="other")
    desk.add_many(3, due_in=-2, queue="other")
    first = desk.store.claim([Q, OTHER], [ADA, BOB, CLEO], desk.now, nonce="first")
    desk.store.claim([Q, OTHER], [Taker("dora", 1)], desk.now, nonce="first of another")
    desk.clock.advance(1)
    for store in (twin, desk.store):
        repeated = again(desk, store, "first", ADA, BOB, CLEO)
        for share in repeated:
            share[:] = [one._replace(lease_until=one.lease_until - 1000) for one in share]
        assert repeated == first
    assert {one.attempt for share in first for one in share} == {1, 2}
    assert len(desk.listed(state=State.SCHEDULED)) == 1


def test_a_repeated_claim_has_large_payloads_and_results_of_steps(desk: Desk, twin: Store) -> None:
    claimed = desk.take(payload=LARGE)
    desk.put_operation(claimed, "step", result=LARGE)
    desk.retry(claimed)
    first = desk.store.claim([Q], [ADA], desk.now, nonce="n")
    for store in (twin, desk.store):
        assert again(desk, store, "n", ADA) == first


def test_a_job_that_was_handed_over_is_not_among_what_a_claim_holds(desk: Desk) -> None:
    desk.add_many(2)
    [[handed_over, other], _] = desk.store.claim([Q], [BOB, CLEO], desk.now, nonce="n")
    assert desk.hand_over(handed_over) is None
    assert again(desk, desk.store, "n", BOB, CLEO) == [[other], []]


def test_a_queue_that_is_named_twice_has_its_first_place(desk: Desk) -> None:
    desk.add_many(1)
    desk.add_many(1, queue="other")
    [first] = desk.store.claim([Q, OTHER, Q], [ADA], desk.now, nonce="n")
    [repeated] = desk.store.claim([Q, OTHER, Q], [ADA], desk.now, nonce="n", again=True)
    assert [one.queue for one in first] == [Q.name, OTHER.name]
    assert repeated == first


def test_what_no_longer_holds_is_left_out_of_the_answer(desk: Desk) -> None:
    desk.add_many(4)
    [mine, others] = desk.store.claim([Q], [ADA, BOB], desk.now, nonce="n")
    desk.complete(mine[0])
    desk.release(others[0])
    [retaken] = desk.claim(limit=1)
    assert retaken.id == others[0].id
    assert again(desk, desk.store, "n", ADA, BOB) == [mine[1:], others[1:]]


def test_a_call_that_was_never_applied_takes_jobs_when_it_is_repeated(desk: Desk) -> None:
    added = desk.add_many(3)
    taken = again(desk, desk.store, "n", ADA)
    assert [ids(share) for share in taken] == [added[:2]]
    assert again(desk, desk.store, "n", ADA) == taken


@pytest.mark.parametrize("limit", [0, 2])
def test_when_nothing_of_it_holds_jobs_are_taken_anew(desk: Desk, limit: int) -> None:
    desk.add_many(2)
    [first] = desk.store.claim([Q], [ADA], desk.now, nonce="n")
    for claimed in first:
        desk.release(claimed)
    [taken] = again(desk, desk.store, "n", ADA._replace(limit=limit))
    assert ids(taken) == ids(first)[:limit]
    assert all(one.epoch == 2 for one in taken)


def test_whoever_hears_of_a_claim_late_has_its_whole_lease(desk: Desk) -> None:
    job_id = desk.add()
    desk.store.claim([Q], [ADA], desk.now, nonce="n")
    desk.clock.advance(LEASE)
    lapse = desk.claim_on(job_id)
    assert lapse is not None
    [[taken]] = again(desk, desk.store, "n", ADA)
    assert taken.lease_until == desk.now + LEASE * 1000
    seen_before = [(lapse, after_lapse(lapse, Q, desk.now))]
    assert desk.store.reclaim(seen_before, desk.now), "a claim that goes on was taken away"
    desk.clock.advance(LEASE - 1)
    assert desk.lapses(10) == []
