"""The scheduler: creating jobs, one and many."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from oncue import (
    Conflict,
    IdTaken,
    InvalidInput,
    KeyTaken,
    NotFound,
    Scheduler,
    State,
)
from oncue.clock import FakeClock

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scheduler]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Scheduler(url, clock=FakeClock()) as cue:
        yield cue


def test_a_job_is_there_when_schedule_returns(cue: Scheduler) -> None:
    job = cue.schedule({"to": "ada"}, queue="mail", delay=60, owner="ada", priority=3)
    assert cue.job(job.id) == job
    assert (job.queue, job.state, job.due_at) == ("mail", State.SCHEDULED, NOW + timedelta(0, 60))
    assert (job.payload, job.owner, job.priority, job.attempt) == ({"to": "ada"}, "ada", 3, 0)


def test_a_job_may_be_due_at_a_moment_after_a_delay_or_now(cue: Scheduler) -> None:
    assert cue.schedule().due_at == NOW
    assert cue.schedule(at="2027-01-15T10:00:00+01:00").due_at == NOW + timedelta(hours=1)
    assert cue.schedule(at=NOW + timedelta(microseconds=1)).due_at == NOW + timedelta(0, 0, 1000)
    assert cue.schedule(delay=timedelta(days=30)).due_at == NOW + timedelta(days=30)
    assert cue.schedule(delay="PT15M").due_at == NOW + timedelta(minutes=15)


def test_what_is_wrong_is_refused_and_nothing_is_stored(cue: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="^/queue: "):
        cue.schedule(queue="no such name!")
    with pytest.raises(InvalidInput, match="^/at: .*has no time zone"):
        cue.schedule(at=datetime(2027, 1, 1))
    assert list(cue.jobs()) == []


def test_a_job_that_is_not_there_is_not_found_whatever_its_name(cue: Scheduler) -> None:
    for unknown in ("nobody", "", "a\0b", "\ud800", "' OR 1=1 --"):
        with pytest.raises(NotFound, match="there is no job"):
            cue.job(unknown)
        with pytest.raises(NotFound):
            cue.cancel(unknown)
        with pytest.raises(NotFound):
            cue.retry(unknown)


class TestKeys:
    def test_a_key_that_is_taken_answers_the_job_that_has_it(self, cue: Scheduler) -> None:
        first = cue.schedule(1, key="k", delay=60)
        again = cue.schedule(2, key="k", delay=120)
        assert (again.id, again.payload, again.due_at) == (first.id, 1, first.due_at)
        assert len(list(cue.jobs())) == 1

    def test_replace_gives_the_job_the_new_time_and_payload(self, cue: Scheduler) -> None:
        first = cue.schedule(1, key="k", delay=60)
        again = cue.schedule(2, key="k", delay=120, if_exists="replace")
        assert (again.id, again.payload) == (first.id, 2)
        assert again.due_at == NOW + timedelta(seconds=120)
        assert cue.job(first.id).payload == 2

    def test_the_same_key_in_another_queue_is_another_job(self, cue: Scheduler) -> None:
        assert cue.schedule(key="k").id != cue.schedule(key="k", queue="other").id

    def test_a_taken_job_is_kept_but_no_longer_replaced(self, cue: Scheduler) -> None:
        first = cue.schedule(1, key="k")
        cue.claim("default", "ada")
        assert cue.schedule(2, key="k").id == first.id
        with pytest.raises(KeyTaken, match=f"belongs to job {first.id}, which is dispatched"):
            cue.schedule(2, key="k", if_exists="replace")

    def test_the_key_is_free_again_when_the_job_has_ended(self, cue: Scheduler) -> None:
        first = cue.schedule(key="k")
        cue.cancel(first.id)
        assert cue.schedule(key="k").id != first.id
        with pytest.raises(KeyTaken, match="Cancel that one first"):
            cue.retry(first.id)


class TestIds:
    def test_the_same_request_again_answers_the_first_job(self, cue: Scheduler) -> None:
        first = cue.schedule({"a": 1, "b": 2}, id="order-7", delay=60)
        again = cue.schedule({"b": 2, "a": 1}, id="order-7", delay=60)
        assert (first.id, again) == ("order-7", first)

    def test_other_members_under_the_same_id_are_refused(self, cue: Scheduler) -> None:
        cue.schedule(1, id="order-7")
        with pytest.raises(IdTaken, match="'order-7' exists and was created with other fields"):
            cue.schedule(2, id="order-7")
        assert cue.job("order-7").payload == 1

    def test_one_and_many_say_the_same_thing(self, cue: Scheduler) -> None:
        cue.schedule({"a": 1}, id="x")
        tally = cue.schedule_many([{"id": "x", "payload": {"a": 1}}])
        assert (tally.accepted, tally.existing, tally.ids) == (1, 1, ["x"])

    def test_a_finished_job_still_answers_for_its_id(self, cue: Scheduler) -> None:
        cue.schedule(1, id="x")
        cue.cancel("x")
        assert cue.schedule(1, id="x").state is State.CANCELLED


class TestMany:
    def test_many_jobs_are_stored_in_order(self, cue: Scheduler) -> None:
        tally = cue.schedule_many(({"payload": n} for n in range(100)), queue="q", delay=5)
        assert (tally.accepted, tally.existing, len(tally.ids)) == (100, 0, 100)
        assert [job.payload for job in cue.jobs(queue="q")] == list(range(100))
        assert [job.id for job in cue.jobs(queue="q")] == tally.ids

    def test_an_item_overrules_the_defaults(self, cue: Scheduler) -> None:
        tally = cue.schedule_many([{}, {"queue": "b"}], queue="a")
        assert [cue.job(one).queue for one in tally.ids] == ["a", "b"]

    def test_of_twelve_thousand_all_are_stored_but_no_ids_kept(self, cue: Scheduler) -> None:
        tally = cue.schedule_many({"payload": n} for n in range(12_000))
        assert (tally.accepted, tally.ids) == (12_000, [])
        assert cue.stats("default").counts[State.SCHEDULED] == 12_000

    def test_of_ten_thousand_all_ids_are_kept(self, cue: Scheduler) -> None:
        tally = cue.schedule_many({} for _ in range(10_000))
        assert len(set(tally.ids)) == 10_000

    def test_nothing_to_store_is_no_trouble(self, cue: Scheduler) -> None:
        assert cue.schedule_many([]).accepted == 0

    def test_a_bad_item_is_named_with_what_is_stored(self, cue: Scheduler) -> None:
        items: list[dict[str, Any]] = [{} for _ in range(6000)]
        items[5500] = {"priority": 10}
        with pytest.raises(
            InvalidInput, match="^item 5501/priority: .*The first 5,000 are"
        ) as caught:
            cue.schedule_many(items)
        assert caught.value.pointer == "item 5501/priority"
        assert cue.stats("default").counts[State.SCHEDULED] == 5000

    @pytest.mark.parametrize("item", [5, None, "payload", [1, 2]])
    def test_an_item_that_is_no_mapping_is_named(self, cue: Scheduler, item: Any) -> None:
        for defaults in ({}, {"queue": "q"}):
            with pytest.raises(InvalidInput, match="^item 2: must be a mapping"):
                cue.schedule_many([{}, item], **defaults)

    def test_an_unknown_default_is_named(self, cue: Scheduler) -> None:
        with pytest.raises(InvalidInput, match="^item 1/colour: there is no such field"):
            cue.schedule_many([{}], colour="red")

    def test_keys_and_ids_that_are_there_count_as_existing(self, cue: Scheduler) -> None:
        cue.schedule(1, key="k")
        items: list[dict[str, Any]] = [{"key": "k"}, {"id": "a"}, {"id": "a"}, {"payload": 5}]
        tally = cue.schedule_many(items)
        assert (tally.accepted, tally.existing) == (4, 2)
        assert tally.ids[0] == next(job.id for job in cue.jobs(key="k"))
        assert tally.ids[1:3] == ["a", "a"]

    def test_a_clash_is_named_with_what_is_stored(self, cue: Scheduler) -> None:
        cue.schedule(1, id="x")
        with pytest.raises(Conflict, match=r"^item 2: .*'x' exists.*The others among the first 3"):
            cue.schedule_many([{"id": "w"}, {"id": "x", "payload": 2}, {"id": "y"}])
        assert {job.id for job in cue.jobs()} == {"w", "x", "y"}

    def test_a_source_without_end_is_read_as_far_as_it_is_good(self, cue: Scheduler) -> None:
        def endless() -> Iterator[dict[str, Any]]:
            while True:
                yield {}

        assert cue.schedule_many(islice(endless(), 5001)).accepted == 5001
