"""Reading and listing."""

from __future__ import annotations

from functools import partial
from itertools import product
from random import Random

import pytest

from oncue.core.job import History, Job, JobFilter
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime
from oncue.core.queue import Queue
from oncue.usecases.queues import put_queue
from tests.contract.pruning import prune
from tests.stores.kinds import SERVED

from .desk import DELIVERY, Desk, ids
from .promises import every

LIMITS = (1, 2, 3, 7, 100)


def populate(desk: Desk) -> None:
    """Jobs of two queues in every state, with owners, keys, and many ties of due time."""
    for number in range(12):
        for queue in ("q", "d"):
            desk.add(
                f"{queue}-{number:02}",
                queue=queue,
                due_in=(number % 4) - 2,
                priority=number % 3,
                owner=("olga", "otto", None)[number % 3],
                key=f"key-{number % 5}-{number}" if number % 2 else None,
            )
    put_queue(desk.store, DELIVERY)
    claims = desk.claim(limit=6)
    assert len(claims) == 6
    desk.touch(claims[0])
    desk.complete(claims[1])
    desk.fail(claims[2])
    desk.drop(claims[3])
    desk.retry(claims[4], due_at=desk.now + 2_000)
    desk.cancel("d-11")
    desk.claim_range(limit=3)


def test_what_is_not_there_is_none_and_has_no_history(desk: Desk) -> None:
    assert desk.store.get("nothing") is None
    assert desk.store.history("nothing") == History()
    assert desk.listed() == []


def test_a_new_job_has_an_empty_history(desk: Desk) -> None:
    assert desk.store.history(desk.add()) == History()


@pytest.mark.parametrize("limit", LIMITS)
def test_paging_shows_every_job_once_ordered_by_due_time_then_id(desk: Desk, limit: int) -> None:
    populate(desk)
    jobs = [desk.job(f"{queue}-{number:02}") for queue in "qd" for number in range(12)]
    jobs.sort(key=lambda job: (job.due_at, job.id))
    assert desk.listed(limit) == [job.id for job in jobs]


def test_ties_of_due_time_are_ordered_by_id_across_queues_and_states(desk: Desk) -> None:
    for job_id, queue in (("c", "q"), ("a", "d"), ("d", "q"), ("b", "d")):
        desk.add(job_id, queue=queue)
    desk.claim(limit=1)
    for limit in LIMITS:
        assert desk.listed(limit) == ["a", "b", "c", "d"]


def test_every_filter_and_all_of_them_together_select_as_they_say(
    desk: Desk, request: pytest.FixtureRequest
) -> None:
    populate(desk)
    jobs = [desk.job(job_id) for job_id in desk.listed()]
    some_key = next(job.key for job in jobs if job.key is not None)
    queues = (None, "q", "d", "none")
    owners = (None, "olga", "nobody")
    keys = (None, some_key, "no such key")
    windows = ((None, None), (desk.now - 1_000, desk.now + 1_000), (desk.now, None))
    cases = list(product(queues, (None, *State), owners, keys, windows))
    if request.node.callspec.params["open_store"] in SERVED:  # each list waits for a server
        cases = Random(1).sample(cases, 120)
    for queue, state, owner, key, (after, before) in cases:
        expected = [
            job.id
            for job in jobs
            if queue in (None, job.queue)
            and state in (None, job.state)
            and owner in (None, job.owner)
            and key in (None, job.key)
            and (after is None or from_datetime(job.due_at) >= after)
            and (before is None or from_datetime(job.due_at) < before)
        ]
        wanted = {
            "queue": queue,
            "state": state,
            "owner": owner,
            "key": key,
            "due_after": after,
            "due_before": before,
        }
        for limit in (2, 100):
            assert desk.listed(limit, **wanted) == expected, wanted


def test_neighbouring_windows_of_due_time_share_nothing_and_miss_nothing(desk: Desk) -> None:
    added = [desk.add(due_in=second) for second in range(6)]
    middle = desk.now + 3_000
    before = desk.listed(due_before=middle)
    after = desk.listed(due_after=middle)
    assert before == added[:3]
    assert after == added[3:]


def test_a_job_inside_an_open_range_is_listed_as_dispatched_only(desk: Desk) -> None:
    inside, outside = desk.add("a", queue="d"), desk.add("b", queue="d")
    desk.claim_range(limit=1)
    assert desk.state(inside) is State.DISPATCHED
    for queue in (None, "d"):
        assert desk.listed(state=State.DISPATCHED, queue=queue) == [inside]
        assert desk.listed(state=State.SCHEDULED, queue=queue) == [outside]


def test_a_cursor_goes_on_after_its_job_even_when_that_is_gone(desk: Desk) -> None:
    added = desk.add_many(4)

    def remove(found: list[Job]) -> None:
        for job in found:
            desk.cancel(job.id)
        desk.clock.advance(1)
        prune(desk.store, "q", desk.now, desk.now, 10)

    assert ids(every(partial(desk.store.page, JobFilter("q")), 2, remove)) == added


def test_listing_survives_jobs_that_end_between_the_pages(desk: Desk) -> None:
    added = desk.add_many(6)
    read = partial(desk.store.page, JobFilter("q", State.SCHEDULED))
    found = ids(every(read, 2, lambda _: [desk.cancel(job_id) for job_id in added[:4]]))
    shown_before = len(found) - 2
    assert shown_before <= 2
    assert found == added[:shown_before] + added[4:]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize("state", [None, State.SCHEDULED, State.DISPATCHED, State.CANCELLED])
def test_a_listing_over_many_queues_is_in_order_and_misses_nothing(
    desk: Desk, limit: int, state: State | None
) -> None:
    """Also where jobs of different queues are due at the same moment."""
    places: dict[str, tuple[int, str]] = {}
    for number in range(60):
        due_in = -(number * 7 % 4)
        queue = "d" if number % 9 == 0 else "e" if number % 9 == 1 else f"q{number % 9}"
        job_id = desk.add(f"job-{number * 37 % 60:02}", queue=queue, due_in=due_in)
        places[job_id] = desk.now + due_in * 1000, job_id
    desk.claim(Queue("q2"), Queue("q3"), limit=9)
    desk.claim_range(limit=2)
    desk.claim_range(Queue("e", sink="log:"), "dan", limit=3)
    for job_id in ("job-04", "job-14", "job-25"):
        desk.cancel(job_id)
    wanted = [one for one in places if state in (None, desk.state(one))]
    assert desk.listed(limit, state=state) == sorted(wanted, key=lambda one: places[one])
