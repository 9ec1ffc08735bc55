"""Rate and concurrency of a queue: they hold whoever takes, and whoever waits is told in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncue.core.job import Claimed
from oncue.core.lifecycle import State, Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.ports.store import Store
from oncue.usecases.queues import put_queue, set_paused

from .desk import LEASE, Desk, claim_due, ids, together
from .promises import By, Listening

PULLED = Queue("q", concurrency=3)
SENT = Queue("d", sink="log:", concurrency=3)
RATED = Queue("q", rate_per_second=10)
SENT_RATED = Queue("d", sink="log:", rate_per_second=10)


def put(desk: Desk, queue: Queue, jobs: int = 10, **fields: object) -> list[str]:
    """A queue with so many due jobs."""
    put_queue(desk.store, queue)
    return desk.add_many(jobs, queue=queue.name, **fields)


# -- concurrency ---------------------------------------------------------------------------------


def test_no_more_jobs_are_claimed_than_may_be_under_way(desk: Desk) -> None:
    added = put(desk, PULLED)
    assert desk.claimed_ids(limit=2) == added[:2]
    assert desk.claimed_ids(limit=2, worker="bob") == added[2:3]
    assert desk.claimed_ids() == []


def test_the_limits_are_the_stores_and_not_the_callers(desk: Desk) -> None:
    put(desk, PULLED)
    assert len(desk.claim(Queue("q", concurrency=9))) == 3
    put_queue(desk.store, Queue("q"))
    assert len(desk.claim(PULLED)) == 7


def test_a_job_that_started_is_still_under_way(desk: Desk) -> None:
    put(desk, PULLED)
    for claimed in desk.claim():
        desk.touch(claimed)
    assert desk.claim() == []


def lapse_and(verb: Verb) -> Callable[[Desk, Claimed], object]:
    def end(desk: Desk, claimed: Claimed) -> object:
        desk.clock.advance(LEASE)
        [lapse] = [one for one in desk.lapses(10) if one.id == claimed.id]
        return desk.reclaim(lapse, verb)

    return end


def complete_without_history(desk: Desk, claimed: Claimed) -> object:
    desk.set(replace(PULLED, retention_seconds=0))
    return desk.complete(claimed)


ENDS: dict[str, Callable[[Desk, Claimed], object]] = {
    "complete": Desk.complete,
    "complete with a result": lambda desk, claimed: desk.complete(claimed, b"1"),
    "complete without history": complete_without_history,
    "fail": Desk.fail,
    "retry later": lambda desk, claimed: desk.retry(claimed, due_at=desk.now + 90_000),
    "release": Desk.release,
    "drop": Desk.drop,
    "reclaim": lapse_and(Verb.RECLAIM),
    "give up": lapse_and(Verb.GIVE_UP),
    "drop when lapsed": lapse_and(Verb.DROP),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_whatever_ends_a_claim_makes_room_and_is_told(
    desk: Desk, end: Callable[[Desk, Claimed], object]
) -> None:
    put(desk, PULLED)
    first, *_ = desk.claim()
    assert desk.claim() == []
    assert desk.store.next_due(["q"]) is None
    listening = Listening(desk.store)
    assert end(desk, first) is None
    assert listening.has_heard_of("q", 0)
    waiting = (job_due(desk, job_id) for job_id in desk.listed(state=State.SCHEDULED))
    assert desk.store.next_due(["q"]) == By(min(desk.now, *waiting))
    assert len(desk.claim()) == 1


def job_due(desk: Desk, job_id: str) -> Moment:
    return round(desk.job(job_id).due_at.timestamp() * 1000)


def test_the_end_of_a_job_of_another_queue_wakes_nobody(desk: Desk) -> None:
    put(desk, PULLED)
    desk.claim()
    other = desk.take(queue=Queue("other"))
    listening = Listening(desk.store)
    desk.complete(other)
    assert not listening.has_heard_of("q", 0)


@pytest.mark.one_shard
def test_a_range_takes_what_is_left_and_counts_until_it_is_settled(desk: Desk) -> None:
    added = put(desk, SENT)
    assert desk.claimed_ids(SENT, limit=1) == added[:1]
    claim = desk.claim_range(SENT)
    assert ids(claim.jobs) == added[1:3]
    assert desk.claim(SENT) == []
    assert desk.settle_range(claim)
    assert ids(desk.claim_range(SENT).jobs) == added[3:5]


@pytest.mark.one_shard
def test_what_comes_into_an_open_range_is_not_in_flight(desk: Desk) -> None:
    put_queue(desk.store, SENT)
    desk.add_many(2, queue="d", due_in=1)
    desk.add(queue="d", priority=5, due_in=90)
    desk.clock.advance(5)
    claim = desk.claim_range(SENT)
    assert len(claim.jobs) == 2
    desk.add(queue="d", due_in=-5)
    desk.add(queue="d", priority=5, due_in=-2)
    desk.add_many(2, queue="d")
    assert len(desk.claim(SENT, limit=3)) == 1
    assert desk.store.next_due(["d"]) == By(desk.now + 60_000)
    assert desk.claim_range(SENT, in_flight=[claim]).jobs == ()
    desk.settle_range(claim)
    assert len(desk.claim(SENT, limit=3)) == 2


@pytest.mark.one_shard
def test_at_its_concurrency_a_range_is_waited_for_until_its_lease_ends(desk: Desk) -> None:
    added = put(desk, SENT)
    desk.claim_range(SENT)
    assert desk.store.next_due(["d"]) == By(desk.now + 60_000)
    desk.clock.advance(LEASE)
    assert ids(desk.claim_range(SENT, "next").jobs) == added[:3]


@pytest.mark.parametrize("delivered", [True, False])
def test_the_end_of_a_range_is_told(desk: Desk, delivered: bool) -> None:
    put(desk, SENT)
    claim = desk.claim_range(SENT)
    listening = Listening(desk.store)
    assert desk.settle_range(claim, None if delivered else [])
    assert listening.has_heard_of("d", 0)
    assert desk.store.next_due(["d"]) == By(desk.now)


def test_raising_or_removing_a_limit_is_told(desk: Desk) -> None:
    put(desk, PULLED)
    desk.claim()
    for queue, more in ((Queue("q", concurrency=5), 2), (Queue("q"), 5)):
        listening = Listening(desk.store)
        put_queue(desk.store, queue)
        assert listening.has_heard_of("q", 0)
        assert desk.store.next_due(["q"]) == By(desk.now)
        assert len(desk.claim()) == more


def test_a_lower_concurrency_waits_until_enough_have_ended(desk: Desk) -> None:
    put(desk, PULLED)
    claims = desk.claim()
    put_queue(desk.store, Queue("q", concurrency=2))
    desk.complete(claims[0])
    assert desk.claim() == []
    desk.complete(claims[1])
    assert len(desk.claim()) == 1


def test_a_full_queue_does_not_keep_the_others_waiting(desk: Desk) -> None:
    put(desk, PULLED)
    desk.claim()
    other = desk.add(queue="other")
    assert desk.claimed_ids(PULLED, Queue("other")) == [other]
    assert desk.store.next_due(["q"]) is None
    later = desk.add(queue="other", due_in=5)
    assert desk.store.next_due(["q", "other"]) == By(desk.now + 5_000)
    assert desk.state(later) is State.SCHEDULED


def test_reclaimed_work_comes_first_and_alone_in_a_limited_queue_too(desk: Desk) -> None:
    added = put(desk, PULLED)
    desk.claim(limit=2)
    desk.clock.advance(LEASE)
    for lapse in desk.lapses(10):
        desk.reclaim(lapse)
    assert desk.claimed_ids(reclaimed_limit=1) == added[:1]
    assert desk.claimed_ids() == added[1:2]
    assert desk.claimed_ids() == added[2:3]
    assert desk.claimed_ids() == []


def test_a_limited_queue_goes_by_priority_and_leaves_out_what_expired(desk: Desk) -> None:
    put_queue(desk.store, PULLED)
    plain = desk.add_many(3)
    urgent = desk.add(priority=9)
    stale = desk.add(priority=9, expires_at=desk.now + 1_000)
    desk.clock.advance(1)
    assert desk.claimed_ids() == [urgent, *plain[:2]]
    assert desk.state(stale) is State.CANCELLED


def test_a_paused_queue_with_limits_gives_nothing(desk: Desk) -> None:
    put(desk, Queue("q", concurrency=3, rate_per_second=10))
    set_paused(desk.store, "q", True)
    assert desk.claim() == []
    assert desk.store.next_due(["q"]) is None
    set_paused(desk.store, "q", False)
    assert len(desk.claim()) == 1


# -- rate ----------------------------------------------------------------------------------------


def test_jobs_are_claimed_no_faster_than_the_rate_allows(desk: Desk) -> None:
    added = put(desk, RATED, 30)
    taken: list[str] = []
    for _ in range(100):  # 1 s, in steps of 10 ms
        taken += desk.claimed_ids(limit=5)
        desk.clock.advance(0.01)
    assert taken == added[:10]


def test_ranges_are_no_faster_either(desk: Desk) -> None:
    added = put(desk, SENT_RATED, 30)
    taken: list[str] = []
    for _ in range(100):
        claim = desk.claim_range(SENT_RATED)
        taken += ids(claim.jobs)
        desk.settle_range(claim)
        desk.clock.advance(0.01)
    assert taken == added[:10]


def test_workers_and_dispatchers_share_the_rate(desk: Desk) -> None:
    put(desk, Queue("d", sink="log:", rate_per_second=50))
    claim = desk.claim_range(SENT_RATED, limit=2)
    assert len(claim.jobs) == 2
    assert len(desk.claim(SENT_RATED)) == 3
    assert desk.claim(SENT_RATED) == []


def test_a_tenth_of_a_second_may_be_taken_at_once_and_no_more_is_saved_up(desk: Desk) -> None:
    put(desk, Queue("q", rate_per_second=50), 30)
    desk.clock.advance(3600)
    assert len(desk.claim()) == 5
    desk.clock.advance(3600)
    assert len(desk.claim()) == 5


def test_the_next_due_time_is_when_the_rate_allows_one_more(desk: Desk) -> None:
    put(desk, RATED)
    assert desk.store.next_due(["q"]) == desk.now
    assert len(desk.claim()) == 1
    due_at = desk.store.next_due(["q"])
    assert due_at == desk.now + 100
    desk.clock.advance(0.099)
    assert desk.claim() == []
    assert desk.store.next_due(["q"]) == due_at
    desk.clock.advance(0.001)
    assert len(desk.claim()) == 1


def test_with_nothing_waiting_the_rate_has_no_next_moment(desk: Desk) -> None:
    put(desk, RATED, 1)
    desk.claim()
    assert desk.store.next_due(["q"]) is None
    desk.add(due_in=60)
    assert desk.store.next_due(["q"]) == By(desk.now + 60_000)


def test_what_is_given_back_does_not_give_its_turn_back(desk: Desk) -> None:
    put(desk, RATED)
    [claimed] = desk.claim()
    desk.release(claimed)
    assert desk.claim() == []
    put(desk, SENT_RATED)
    desk.settle_range(desk.claim_range(SENT_RATED), [])
    assert desk.claim_range(SENT_RATED).jobs in ((), [])


@pytest.mark.parametrize("seconds", [0.5, 3600])
def test_a_clock_that_is_set_back_does_not_stall_the_queue(desk: Desk, seconds: float) -> None:
    put(desk, RATED, 40, due_in=-7200)
    assert len(desk.claim()) == 1
    desk.clock.set(desk.now - round(seconds * 1000))
    taken = 0
    for _ in range(40):  # 2 s
        desk.clock.advance(0.05)
        taken += len(desk.claim())
    assert 9 <= taken <= 20


def test_callers_that_overtake_each_other_gain_nothing(desk: Desk) -> None:
    put(desk, Queue("q", rate_per_second=1000), 1000)
    taken = len(claim_due(desk.store, [RATED], "ada", 1000, desk.now))
    for _ in range(50):
        for late in (100, 0):
            taken += len(claim_due(desk.store, [RATED], "ada", 1000, desk.now - late))
    assert taken == 100


def test_a_new_rate_holds_at_once(desk: Desk) -> None:
    put(desk, Queue("q", rate_per_second=0.001))
    assert len(desk.claim()) == 1
    assert desk.store.next_due(["q"]) == By(desk.now + 1_000_000)
    put_queue(desk.store, RATED)
    assert desk.store.next_due(["q"]) == By(desk.now + 100)
    put_queue(desk.store, Queue("q"))
    assert len(desk.claim()) == 9


def test_rate_and_concurrency_hold_together(desk: Desk) -> None:
    put(desk, Queue("q", rate_per_second=20, concurrency=3), 30)
    counts = []
    for _ in range(4):
        counts.append(len(desk.claim()))
        desk.clock.advance(1)
    assert counts == [2, 1, 0, 0]
    assert desk.store.next_due(["q"]) is None


# -- side by side --------------------------------------------------------------------------------

THREADS = 6


def test_threads_that_claim_at_once_never_exceed_the_concurrency(desk: Desk) -> None:
    added = put(desk, PULLED, 120)
    most: list[int] = []
    at_work: set[str] = set()

    def work(thread: int) -> list[str]:
        done: list[str] = []
        while desk.store.next_due(["q"]) is not None or desk.listed(state=State.DISPATCHED):
            for claimed in claim_due(desk.store, [PULLED], f"worker {thread}", 2, desk.now):
                at_work.add(claimed.id)
                most.append(len(at_work))
                at_work.discard(claimed.id)
                assert desk.complete(claimed) is None
                done.append(claimed.id)
        return done

    shares = together(THREADS, work)
    assert sorted(job_id for share in shares for job_id in share) == added
    assert max(most) <= 3


def test_threads_that_claim_at_once_never_exceed_the_rate(desk: Desk) -> None:
    put(desk, Queue("q", rate_per_second=70), 100)
    taken = together(THREADS, lambda thread: desk.claim(worker=f"worker {thread}"))
    assert sum(map(len, taken)) == 7


def test_two_nodes_never_exceed_the_limits_together(desk: Desk, twin: Store) -> None:
    nodes = (desk, Desk(twin, desk.clock))
    put(desk, PULLED, 50)
    put(desk, Queue("d", sink="log:", rate_per_second=70), 50)

    def work(thread: int) -> tuple[int, int]:
        mine = nodes[thread % 2]
        pulled = sum(len(mine.claim(worker=f"w{thread}", limit=1)) for _ in range(5))
        sent = sum(len(mine.claim(SENT_RATED, worker=f"w{thread}", limit=2)) for _ in range(5))
        return pulled, sent

    shares = together(THREADS, work)
    assert sum(pulled for pulled, _ in shares) == 3
    assert sum(sent for _, sent in shares) == 7
