"""Jobs that a worker takes together, to settle them by one call. A store may keep one record for
all of their claims; nobody may notice that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncue.core.changes import ChangeVerb, JobChange, NotChanged
from oncue.core.fencing import Refused
from oncue.core.job import Claimed
from oncue.core.lease import Touch
from oncue.core.lifecycle import State, Verb
from oncue.core.missed import Look, Missed, moved_lease, moved_stamp
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.sharing import Taker
from oncue.ports.claims import ClaimFilter
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import worker_ranges

from .conftest import OpenAnother
from .desk import BOTH_IDS, FLEETING, LEASE, Desk, Q, at, ids, settlement
from .promises import By, every, exported

BATCH = Taker("ada", 100, is_near=True, together=True)


@pytest.fixture(autouse=True)
def one_record_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_ranges, "LEAST", 2)


def take(desk: Desk, queue: Queue = Q, number: int = 4, nonce: str = "n") -> list[Claimed]:
    """Add jobs and take them together."""
    desk.set(queue)
    added = desk.add_many(number, queue=queue.name)
    claims = claim(desk.store, desk.now, queue, nonce)
    assert sorted(ids(claims)) == sorted(added)
    return claims


def claim(
    store: Store, now: Moment, queue: Queue = Q, nonce: str = "n", *, again: bool = False
) -> list[Claimed]:
    [claims] = store.claim([queue], [BATCH], now, nonce=nonce, again=again)
    return claims


def complete(desk: Desk, claims: Sequence[Claimed]) -> dict[int, str]:
    """Complete them by one call. Why some were refused, by place."""
    writes = [settlement(one, Verb.COMPLETE) for one in claims]
    answers = desk.store.settle(writes, desk.now).refused
    return {place: answer.reason for place, answer in answers.items()}


def states(desk: Desk, claims: Sequence[Claimed]) -> list[State]:
    return [desk.state(one.id) for one in claims]


@BOTH_IDS
@pytest.mark.parametrize("queue", [Q, FLEETING], ids=["kept", "not kept"])
def test_all_are_completed_by_one_call(desk: Desk, queue: Queue) -> None:
    claims = take(desk, queue)
    desk.clock.advance(2)
    assert complete(desk, claims) == {}
    assert desk.store.stats(queue.name).counts.get(State.DISPATCHED, 0) == 0
    assert claim(desk.store, desk.now, queue, "later") == []
    kept = [desk.store.get(one.id) for one in claims]
    if queue is FLEETING:
        assert not any(kept)
        return
    for job in kept:
        assert job is not None
        assert (job.state, job.worker, job.attempt) == (State.SUCCEEDED, "ada", 1)
        assert (job.finished_at, job.lease_until) == (at(desk.now), None)
        [attempt] = desk.attempts(job.id)
        assert (attempt.claimed_at, attempt.ended_at) == (at(desk.now - 2_000), at(desk.now))
        assert (attempt.epoch, attempt.outcome) == (claims[0].epoch, "succeeded")


@BOTH_IDS
@pytest.mark.parametrize("queue", [Q, FLEETING], ids=["kept", "not kept"])
def test_a_repeated_completion_is_answered_as_the_first(desk: Desk, queue: Queue) -> None:
    claims = take(desk, queue)
    assert complete(desk, claims) == {}
    desk.clock.advance(1)
    assert complete(desk, claims) == {}


@BOTH_IDS
def test_they_are_dispatched_for_every_reader(desk: Desk) -> None:
    claims = take(desk)
    assert states(desk, claims) == [State.DISPATCHED] * 4


@BOTH_IDS
def test_they_are_listed_as_dispatched(desk: Desk) -> None:
    claims = take(desk)
    assert sorted(desk.listed(state=State.DISPATCHED)) == sorted(ids(claims))


@pytest.mark.needs("counts")
def test_they_are_counted_as_dispatched(desk: Desk) -> None:
    take(desk)
    assert desk.store.stats("q").counts[State.DISPATCHED] == 4


def test_the_attempt_under_way_is_visible(desk: Desk) -> None:
    [first, *_] = take(desk)
    [attempt] = desk.attempts(first.id)
    assert (attempt.worker, attempt.claimed_at) == ("ada", at(desk.now))
    assert (attempt.outcome, attempt.ended_at) == (None, None)


def test_their_claims_are_seen(desk: Desk) -> None:
    claims = take(desk)
    seen = every(lambda after, limit: desk.store.live_claims(ClaimFilter(), after, limit))
    assert sorted(ids(seen)) == sorted(ids(claims))


def test_nobody_else_gets_them(desk: Desk) -> None:
    take(desk)
    assert desk.claim(worker="bob") == []
    assert claim(desk.store, desk.now, nonce="another") == []


def test_a_repeated_claim_gets_the_same_jobs(desk: Desk) -> None:
    claims = take(desk)
    desk.clock.advance(5)
    again = claim(desk.store, desk.now, again=True)
    assert ids(again) == ids(claims)
    assert {one.epoch for one in again} == {one.epoch for one in claims}
    assert {one.lease_until for one in again} == {desk.now + round(LEASE * 1000)}
    assert complete(desk, again) == {}


def test_a_heartbeat_of_one_renews_only_its_lease(desk: Desk) -> None:
    claims = take(desk)
    desk.clock.advance(30)
    desk.touch(claims[1], renew=True)
    assert desk.job(claims[1].id).lease_until == at(desk.now + 60_000)
    assert desk.job(claims[0].id).lease_until == at(desk.now + 30_000)
    assert complete(desk, claims) == {}


def test_heartbeats_of_all_keep_the_claims(desk: Desk) -> None:
    claims = take(desk)
    desk.clock.advance(50)
    desk.store.touch([Touch(one.id, one.epoch, renew=True) for one in claims], desk.now)
    desk.clock.advance(50)
    assert desk.lapses() == []
    assert complete(desk, claims) == {}


def test_one_may_fail_and_the_others_be_completed(desk: Desk) -> None:
    claims = take(desk)
    assert desk.fail(claims[2]) is None
    assert complete(desk, [*claims[:2], claims[3]]) == {}
    done = State.SUCCEEDED
    assert states(desk, claims) == [done, done, State.FAILED, done]


def test_one_call_may_settle_them_differently(desk: Desk) -> None:
    claims = take(desk)
    writes = [settlement(one, Verb.COMPLETE, result=b"1") for one in claims[:3]]
    writes.append(settlement(claims[3], Verb.RELEASE))
    assert desk.store.settle(writes, desk.now).refused == {}
    assert states(desk, claims) == [State.SUCCEEDED] * 3 + [State.SCHEDULED]
    assert desk.job(claims[0].id).result == 1


def test_completions_in_another_order_are_completions(desk: Desk) -> None:
    claims = take(desk)
    assert complete(desk, claims[::-1]) == {}
    assert states(desk, claims) == [State.SUCCEEDED] * 4


def test_a_cancel_is_requested_of_one(desk: Desk) -> None:
    claims = take(desk)
    desk.request_cancel(claims[0].id)
    assert desk.job(claims[0].id).cancel_requested
    assert not desk.job(claims[1].id).cancel_requested
    assert complete(desk, claims) == {}


@pytest.mark.parametrize("verb", [ChangeVerb.CANCEL, ChangeVerb.RUN])
def test_what_needs_a_waiting_job_is_refused_while_they_are_under_way(
    desk: Desk, verb: ChangeVerb
) -> None:
    [first, *_] = take(desk)
    changed = desk.store.change([first.id], JobChange(verb), desk.now)
    assert changed.refused == {0: NotChanged("state", State.DISPATCHED)}
    assert desk.state(first.id) is State.DISPATCHED


def test_what_lapses_is_reclaimed_and_the_zombie_refused(desk: Desk) -> None:
    claims = take(desk)
    desk.clock.advance(LEASE)
    assert sorted(ids(desk.lapses())) == sorted(ids(claims))
    assert {lapse.alone for lapse in desk.lapses()} == {False}
    desk.judge()
    assert set(complete(desk, claims).values()) == {"reclaimed"}
    assert states(desk, claims) == [State.SCHEDULED] * 4
    again = [desk.claim(limit=1)[0] for _ in claims]  # reclaimed work is taken alone
    assert all(after.epoch > before.epoch for after, before in zip(again, claims, strict=True))
    assert isinstance(desk.touch(claims[0]), Refused)


def test_a_lease_that_has_lapsed_is_not_taken_over_by_a_claim(desk: Desk) -> None:
    claims = take(desk)
    desk.clock.advance(LEASE)
    assert desk.claim(worker="bob") == []
    assert complete(desk, claims) == {}


@pytest.mark.parametrize("turned", [-3_600, -30, 0, 5])
@pytest.mark.parametrize("missed", [Missed(), Missed(20_000, 0), Missed(20_000, 10_000)])
def test_their_leases_move_as_those_of_other_claims(
    desk: Desk, turned: float, missed: Missed
) -> None:
    claims = take(desk)
    desk.clock.advance(5)
    desk.clock.set(desk.now + round(turned * 1000))
    judged = Look("0", 0, desk.now), missed
    assert desk.store.judge_leases(lambda recorded: judged) == missed
    now = desk.now
    for one in claims:
        job = desk.job(one.id)
        lease_until = moved_lease(one.lease_until, round(LEASE * 1000), missed.claims_ms, now)
        heard_at = at(moved_stamp(one.claimed_at, now))
        assert (job.lease_until, job.updated_at) == (at(lease_until), heard_at)
        assert desk.attempts(one.id)[-1].claimed_at == heard_at


def test_the_end_of_the_lease_is_known_before_it_comes(desk: Desk) -> None:
    take(desk)
    leases = desk.store.leases()
    assert leases.next_lapse == By(desk.now + round(LEASE * 1000))


def test_a_job_that_comes_before_the_last_of_them_is_taken_by_the_next(desk: Desk) -> None:
    claims = take(desk)
    urgent = desk.add("urgent", priority=9)
    earlier = desk.add("earlier", due_in=-5)
    assert desk.state(urgent) is State.SCHEDULED
    assert desk.claimed_ids(worker="bob") == [urgent, earlier]
    assert complete(desk, claims) == {}
    assert desk.state(urgent) is State.DISPATCHED


def test_a_job_that_came_meanwhile_is_not_completed_with_them(desk: Desk) -> None:
    claims = take(desk)
    earlier = desk.add("earlier", due_in=-5)
    assert complete(desk, claims) == {}
    assert desk.state(earlier) is State.SCHEDULED
    assert desk.claimed_ids() == [earlier]


def test_a_job_that_came_among_them_can_be_changed(desk: Desk) -> None:
    claims = take(desk)
    urgent = desk.add("urgent", priority=9)
    desk.cancel(urgent)
    assert desk.state(urgent) is State.CANCELLED
    assert complete(desk, claims) == {}


def test_a_key_of_one_that_came_among_them_can_be_replaced(desk: Desk) -> None:
    claims = take(desk)
    urgent = desk.add("urgent", priority=9, key="k")
    [clash] = desk.insert([desk.new("other", key="k", replace=True)]).values()
    assert (clash.kind, clash.job.id) == ("replaced", urgent)
    assert complete(desk, claims) == {}


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_job_that_clashes_with_one_of_them_shows_it_dispatched(desk: Desk, by: str) -> None:
    new = desk.new("mine", key="k")
    desk.insert([new, desk.new()])
    claims = claim(desk.store, desk.now)
    [clash] = desk.insert([new if by == "id" else new._replace(id="another")]).values()
    assert (clash.job.id, clash.job.state, clash.job.attempt) == ("mine", State.DISPATCHED, 1)
    assert (clash.job.worker, clash.job.lease_until) == ("ada", at(claims[0].lease_until))
    assert complete(desk, claims) == {}


@pytest.mark.parametrize("queue", [Queue("q", concurrency=3), Queue("q", rate_per_second=30)])
def test_limits_hold(desk: Desk, queue: Queue) -> None:
    desk.set(queue)
    desk.add_many(5)
    claims = claim(desk.store, desk.now, queue)
    assert len(claims) == 3
    assert complete(desk, claims) == {}


def test_another_node_sees_and_settles_them(desk: Desk, another: OpenAnother) -> None:
    claims = take(desk)
    twin = another()
    seen = twin.get(claims[0].id)
    assert seen is not None
    assert seen.state is State.DISPATCHED
    writes = [settlement(one, Verb.COMPLETE) for one in claims]
    assert twin.settle(writes, desk.now).refused == {}
    assert states(desk, claims) == [State.SUCCEEDED] * 4


def test_a_dump_contains_them_as_they_are(desk: Desk) -> None:
    claims = take(desk)
    dumped = exported(desk.store)
    assert {one.job.state for one in dumped} == {State.DISPATCHED}
    other = MemoryStore(desk.clock)
    assert other.admit(dumped) == 4
    assert other.settle([settlement(one, Verb.COMPLETE) for one in claims], desk.now).refused == {}


def test_a_timeout_counts_from_the_claim(desk: Desk) -> None:
    queue = Queue("q", timeout_seconds=5)
    claims = take(desk, queue)
    desk.clock.advance(6)
    assert {lapse.overlong_at for lapse in desk.lapses()} == {desk.now - 1_000}
    assert sorted(ids(desk.lapses())) == sorted(ids(claims))
