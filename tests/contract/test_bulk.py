"""Bulk verbs: all jobs that fit a filter, page by page, each by compare-and-set."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from typing import Any

import pytest

from oncue.core.bulk import BulkVerb
from oncue.core.errors import InvalidInput
from oncue.core.lease import Touched
from oncue.core.lifecycle import FINAL, State
from oncue.usecases.bulk import BulkDone

from .bulk import CANCEL, MOVE, REPRIORITISE, RETRY, RUN, bulk
from .desk import Desk, at, ids
from .promises import By, Listening, every

# -- finding ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "how", "states"),
    [
        (CANCEL, {}, {State.SCHEDULED}),
        (CANCEL, {"running": True}, {State.SCHEDULED, State.DISPATCHED, State.EXECUTING}),
        (RUN, {}, {State.SCHEDULED}),
        (RETRY, {}, {State.FAILED, State.CANCELLED}),
        (MOVE, {}, {State.SCHEDULED}),
        (REPRIORITISE, {}, {State.SCHEDULED}),
    ],
)
@pytest.mark.parametrize("by", ["queue", "owner", "key", "nothing"])
def test_a_verb_finds_jobs_in_the_states_in_which_it_applies(
    desk: Desk, verb: BulkVerb, how: dict[str, Any], states: set[State], by: str
) -> None:
    jobs: dict[State, str] = {}
    for state in (*FINAL, State.DISPATCHED, State.EXECUTING, State.SCHEDULED):
        key = "k" if state in FINAL else f"k-{state}"
        claimed = desk.take(owner="ada", key=key)
        match state:
            case State.SUCCEEDED:
                desk.complete(claimed)
            case State.FAILED:
                desk.fail(claimed)
            case State.CANCELLED:
                desk.drop(claimed)
            case State.EXECUTING:
                desk.touch(claimed)
            case State.SCHEDULED:
                desk.release(claimed)
        jobs[state] = claimed.id
    assert {state: desk.state(job_id) for state, job_id in jobs.items()} == {s: s for s in jobs}
    filters: dict[str, dict[str, Any]] = {
        "queue": {"queue": "q"},
        "owner": {"owner": "ada"},
        "nothing": {},
    }
    if by != "key":
        expected = sorted(job_id for state, job_id in jobs.items() if state in states)
        assert sorted(bulk(desk, verb, how=how, **filters[by]).found()) == expected
    for state, job_id in jobs.items():
        own = filters.get(by, {"key": desk.job(job_id).key})
        expected = [job_id] if state in states else []
        assert bulk(desk, verb, how=how, **own, state=state).found() == expected


def test_all_filters_narrow_it_down_together(desk: Desk) -> None:
    wanted = desk.add(queue="a", owner="ada", key="k", due_in=10)
    desk.add(queue="b", owner="ada", key="k", due_in=10)
    desk.add(queue="a", owner="bob", key="l", due_in=10)
    desk.add(queue="a", owner="ada", key="m", due_in=10)
    late = desk.add(queue="c", owner="ada", key="k", due_in=20)
    soon, then = desk.now + 10_000, desk.now + 10_001
    full: dict[str, Any] = {
        "queue": "a",
        "owner": "ada",
        "key": "k",
        "due_after": soon,
        "due_before": then,
    }
    assert bulk(desk, CANCEL, **full, state=State.SCHEDULED).found() == [wanted]
    assert bulk(desk, CANCEL, key="k", due_after=then).found() == [late]
    assert bulk(desk, CANCEL, due_after=then).found() == [late]
    assert len(bulk(desk, CANCEL, due_before=then).found()) == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("by", [{"queue": "q"}, {"owner": "ada"}, {}])
def test_pages_miss_nothing_and_repeat_nothing(desk: Desk, limit: int, by: dict[str, Any]) -> None:
    added = [
        desk.add(due_in=due_in, priority=priority, owner="ada")
        for priority in (0, 9, 3)
        for due_in in (30, 10, 10, 20)
    ]
    assert sorted(bulk(desk, CANCEL, **by).found(limit)) == sorted(added)


def test_nothing_is_found_where_nothing_fits(desk: Desk) -> None:
    desk.add()
    assert bulk(desk, CANCEL, queue="other").found() == []
    assert bulk(desk, RETRY, queue="q").found() == []


def test_what_is_being_delivered_is_neither_found_nor_changed(desk: Desk) -> None:
    delivered, waiting = desk.add(queue="d"), desk.add(queue="d", due_in=60)
    before = {verb: bulk(desk, verb, queue="d") for verb in (CANCEL, RUN, MOVE, REPRIORITISE)}
    asking = bulk(desk, CANCEL, how={"running": True}, queue="d")
    claim = desk.claim_range()
    assert ids(claim.jobs) == [delivered]
    for one in [*before.values(), asking]:
        assert one.found() == [waiting]
        assert one.apply([delivered]) == BulkDone(0)
    assert bulk(desk, CANCEL, how={"running": True}, state=State.DISPATCHED).found() == []
    assert desk.settle_range(claim)
    assert desk.state(delivered) is State.SUCCEEDED


# -- changing --------------------------------------------------------------------------------------


def test_scheduled_jobs_are_cancelled_and_never_handed_over(desk: Desk) -> None:
    added = desk.add_many(7)
    other = desk.add(queue="other")
    desk.clock.advance(1)
    assert bulk(desk, CANCEL, queue="q").carry_out(limit=3) == BulkDone(7)
    for job_id in added:
        job = desk.job(job_id)
        assert (job.state, job.finished_at, job.updated_at) == (
            *(State.CANCELLED, at(desk.now)),
            at(desk.now),
        )
    assert desk.claim() == []
    assert desk.state(other) is State.SCHEDULED


def test_taken_jobs_are_asked_to_stop_once_if_that_is_wanted(desk: Desk) -> None:
    claimed, waiting = desk.take(), desk.add(due_in=60)
    assert bulk(desk, CANCEL, queue="q", due_before=desk.now + 1).carry_out() == BulkDone(0)
    asking = bulk(desk, CANCEL, how={"running": True}, queue="q")
    assert asking.found() == sorted([claimed.id, waiting])
    assert asking.carry_out() == BulkDone(2)
    assert desk.state(waiting) is State.CANCELLED
    touched = desk.touch(claimed)
    assert isinstance(touched, Touched)
    assert touched.cancel_requested
    assert asking.carry_out() == BulkDone(0)


def test_jobs_are_made_due_now_and_due_ones_keep_their_place(desk: Desk) -> None:
    due = desk.add()
    desk.clock.advance(1)
    ahead = desk.add_many(3, due_in=60)
    running = bulk(desk, RUN, queue="q")
    assert running.found() == sorted([due, *ahead])
    assert running.carry_out(limit=2) == BulkDone(3)
    assert {desk.job(job_id).due_at for job_id in ahead} == {at(desk.now)}
    assert desk.job(due).due_at < at(desk.now)
    assert desk.claimed_ids() == [due, *ahead]


def test_jobs_made_due_are_not_looked_at_again(desk: Desk) -> None:
    added = desk.add_many(5, due_in=60)
    running = bulk(desk, RUN, queue="q")
    read = partial(desk.store.find_all, running.change, running.wanted)
    assert sorted(every(read, 2, running.apply)) == added


def test_failed_and_cancelled_jobs_are_due_again_as_the_single_verb_would_have_it(
    desk: Desk,
) -> None:
    claimed = desk.take(max_attempts=1, expires_at=desk.now + 90_000)
    desk.put_operation(claimed, "download", result=b"file")
    desk.fail(claimed, "boom")
    single = desk.take(max_attempts=1, expires_at=desk.now + 90_000)
    desk.put_operation(single, "download", result=b"file")
    desk.fail(single, "boom")
    cancelled = desk.add(due_in=60)
    desk.cancel(cancelled)
    desk.clock.advance(10)
    desk.revive(single.id)
    assert bulk(desk, RETRY, queue="q").carry_out() == BulkDone(2)
    expected = desk.job(single.id)
    assert desk.job(claimed.id) == expected._replace(
        id=claimed.id, created_at=desk.job(claimed.id).created_at
    )
    assert desk.store.history(claimed.id) == desk.store.history(single.id)
    assert desk.claimed_ids() == sorted([claimed.id, single.id, cancelled])


def test_an_earlier_life_is_kept_with_its_end_by_a_bulk_retry(desk: Desk) -> None:
    claimed = desk.take()
    desk.clock.advance(5)
    desk.fail(claimed)
    ended_at = at(desk.now)
    desk.clock.advance(5)
    bulk(desk, RETRY, queue="q").carry_out()
    assert [(one.outcome, one.ended_at) for one in desk.attempts(claimed.id)] == [
        ("failed", ended_at)
    ]


def test_of_very_many_attempts_a_bulk_retry_keeps_the_first_and_the_last(desk: Desk) -> None:
    claimed = desk.take(max_attempts=1)
    for _ in range(104):
        desk.fail(claimed)
        assert bulk(desk, RETRY, queue="q").carry_out() == BulkDone(1)
        claimed = desk.retake(claimed.id)
    numbers = [attempt.attempt for attempt in desk.attempts(claimed.id)]
    assert numbers == [*range(1, 51), *range(55, 106)]


def test_what_fails_again_meanwhile_is_not_retried_again(desk: Desk) -> None:
    claimed = desk.take(max_attempts=1)
    desk.fail(claimed)
    retrying = bulk(desk, RETRY, queue="q")
    assert retrying.carry_out() == BulkDone(1)
    desk.clock.advance(1)
    desk.fail(desk.retake(claimed.id))
    assert retrying.found() == []
    assert retrying.apply([claimed.id]) == BulkDone(0)
    assert bulk(desk, RETRY, queue="q").carry_out() == BulkDone(1)


def test_a_key_is_given_to_one_of_the_jobs_that_a_retry_finds(desk: Desk) -> None:
    later, earlier = desk.add("a", key="k", due_in=2), ""
    desk.cancel(later)
    earlier = desk.add("b", key="k", due_in=1)
    desk.cancel(earlier)
    elsewhere = desk.add("c", queue="other", key="k", due_in=3)
    desk.cancel(elsewhere)
    assert bulk(desk, RETRY, key="k").carry_out() == BulkDone(2, key_taken=1)
    assert desk.state(earlier) is State.SCHEDULED
    assert desk.state(elsewhere) is State.SCHEDULED
    assert desk.state(later) is State.CANCELLED
    assert bulk(desk, RETRY, key="k").carry_out() == BulkDone(0, key_taken=1)


def test_jobs_are_moved_to_another_queue_with_all_that_belongs_to_them(desk: Desk) -> None:
    added = desk.add_many(3, priority=4, owner="ada", payload=b"1")
    before = desk.job(added[0])
    desk.clock.advance(1)
    assert bulk(desk, MOVE, queue="q").carry_out(limit=2) == BulkDone(3)
    assert desk.job(added[0]) == before._replace(queue="target", updated_at=at(desk.now))
    assert "target" in [queue.name for queue in desk.store.queues()]
    assert desk.claim() == []
    assert desk.listed(queue="target") == added
    assert desk.store.next_due(["target"]) == By(desk.now - 1_000)


def test_what_is_in_that_queue_already_is_found_but_not_changed(desk: Desk) -> None:
    there, here = desk.add(queue="target", owner="ada"), desk.add(owner="ada")
    moving = bulk(desk, MOVE, owner="ada")
    assert moving.found() == sorted([there, here])
    before = desk.job(there)
    assert moving.carry_out() == BulkDone(1)
    assert desk.job(there) == before


def test_a_job_whose_key_is_taken_there_stays(desk: Desk) -> None:
    desk.add(queue="target", key="k")
    clashing, free = desk.add(key="k"), desk.add(key="l")
    assert bulk(desk, MOVE, queue="q").carry_out() == BulkDone(1, key_taken=1)
    assert desk.job(clashing).queue == "q"
    assert desk.job(free).queue == "target"
    assert desk.insert([desk.new(key="l")]) == {}
    clash = desk.insert([desk.new(queue="target", key="l")])[0]
    assert (clash.kind, clash.job.id) == ("existing", free)


def test_of_jobs_with_one_key_the_first_in_order_is_moved(desk: Desk) -> None:
    later = desk.add("a", queue="q1", key="k", owner="ada", due_in=2)
    earlier = desk.add("b", queue="q2", key="k", owner="ada", due_in=1)
    assert bulk(desk, MOVE, owner="ada").carry_out() == BulkDone(1, key_taken=1)
    assert (desk.job(earlier).queue, desk.job(later).queue) == ("target", "q1")


def test_jobs_get_another_priority_and_go_first(desk: Desk) -> None:
    first, second, third = desk.add(), desk.add(owner="ada"), desk.add(owner="ada", priority=7)
    raising = bulk(desk, REPRIORITISE, owner="ada")
    assert raising.carry_out() == BulkDone(1)
    assert [desk.job(job_id).priority for job_id in (first, second, third)] == [0, 7, 7]
    assert desk.claimed_ids() == [second, third, first]


@pytest.mark.parametrize("verb", [RUN, RETRY, MOVE])
def test_listeners_are_told_of_what_has_become_due(desk: Desk, verb: BulkVerb) -> None:
    job_id = desk.add(due_in=60)
    if verb is RETRY:
        desk.cancel(job_id)
    listening = Listening(desk.store)
    assert bulk(desk, verb, queue="q").carry_out() == BulkDone(1)
    due_at = desk.now + 60_000 if verb is MOVE else desk.now
    assert listening.has_heard_of("target" if verb is MOVE else "q", due_at)


@pytest.mark.parametrize("verb", list(BulkVerb))
def test_nothing_is_changed_about_what_is_not_there(desk: Desk, verb: BulkVerb) -> None:
    nothing = bulk(desk, verb, queue="q")
    assert nothing.apply(["unknown"]) == BulkDone(0)
    assert nothing.apply([]) == BulkDone(0)
    assert desk.store.queues() == []


# -- walking ---------------------------------------------------------------------------------------


@pytest.mark.needs("all-jobs")
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("verb", [CANCEL, RUN, MOVE, REPRIORITISE])
def test_a_walk_over_many_queues_meets_each_job_once_although_the_change_moves_it(
    desk: Desk, verb: BulkVerb, limit: int
) -> None:
    queues = ("a", "b", "target", "z")
    added = [
        desk.add(queue=queue, priority=priority, due_in=due_in)
        for queue in queues
        for priority in (0, 7, 9)
        for due_in in (-5, 60)
    ]
    walk = bulk(desk, verb)
    met = every(partial(desk.store.find_all, walk.change, walk.wanted), limit, walk.apply)
    assert sorted(met) == sorted(added)
    if verb is MOVE:
        assert {desk.job(job_id).queue for job_id in added} == {"target"}
    if verb is REPRIORITISE:
        assert {desk.job(job_id).priority for job_id in added} == {7}


def refuse(desk: Desk, *job_ids: str) -> None:
    """Their sink refuses these for now, and takes nothing else."""
    assert desk.settle_range(desk.claim_range(), busy=dict.fromkeys(job_ids, "busy"))


@pytest.mark.needs("all-jobs")
@pytest.mark.parametrize("limit", [1, 3, 7])
@pytest.mark.parametrize("verb", [CANCEL, RUN, MOVE, REPRIORITISE])
def test_a_walk_meets_each_job_once_although_jobs_are_put_off_and_return(
    desk: Desk, verb: BulkVerb, limit: int
) -> None:
    off = desk.add_many(5, queue="d", due_in=-5)
    refuse(desk, *off)
    far = desk.add_many(5, queue="d", due_in=60)
    others = desk.add_many(3, queue="z", due_in=60)
    walk = bulk(desk, verb)

    def meanwhile(found: list[str]) -> None:
        """Some come back, and some of these are put off again."""
        walk.apply(found)
        desk.clock.advance(1.5)
        back = desk.claim_range()
        desk.settle_range(back, [], busy=dict.fromkeys(ids(back.jobs)[::2], "busy"))

    met = every(partial(desk.store.find_all, walk.change, walk.wanted), limit, meanwhile)
    assert sorted(met) == sorted([*off, *far, *others])


def test_a_walk_leaves_out_what_is_due_outside_the_window_in_every_queue(desk: Desk) -> None:
    wanted = []
    for queue in ("a", "b", "c"):
        for priority in (0, 5):
            desk.add(queue=queue, priority=priority, due_in=10)
            wanted += desk.add_many(2, queue=queue, priority=priority, due_in=20)
            desk.add(queue=queue, priority=priority, due_in=30)
    window: dict[str, Any] = {"due_after": desk.now + 20_000, "due_before": desk.now + 30_000}
    for limit in (1, 2, 5, 100):
        assert bulk(desk, CANCEL, **window).found(limit) == sorted(wanted)


@pytest.mark.parametrize("wanted", [{"queue": "q"}, {"owner": "ada"}], ids=str)
def test_a_short_page_looks_past_jobs_that_do_not_fit(desk: Desk, wanted: Any) -> None:
    for _ in range(20):
        desk.complete(desk.take(owner="ada"))
    failed = desk.take(owner="ada")
    desk.fail(failed)
    pages: list[list[str]] = []
    retrying = bulk(desk, RETRY, **wanted)
    read = partial(desk.store.find_all, retrying.change, retrying.wanted)
    assert every(read, 1, pages.append) == [failed.id]
    assert len(pages) <= 10


@pytest.mark.parametrize(
    "text",
    ["", "1800000000000.a", "[]", "{}", "[1]", "null", '["waiting"]', '[1e400,"a"]', '["a","b"]',
     f'[{10**30},"a"]', '["nowhere","q",1,1,"a"]', '["owned",1,"a"]', "[" * 100_000,
     '["waiting","p",1,1,"a"]', '["waiting","\\ud800",1,1,"a"]', '[1,"\\ud800"]'],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_a_text_that_is_no_place_of_the_walk_is_refused(desk: Desk, text: str) -> None:
    desk.add()
    walk = bulk(desk, CANCEL, queue="q")
    for cursor in (text, urlsafe_b64encode(text.encode()).decode()):
        with pytest.raises(InvalidInput, match="not a cursor"):
            desk.store.find_all(walk.change, walk.wanted, cursor, 10)
