"""The scheduler: reading jobs, changing them, and the settings of queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncue import (
    EventFilter,
    IllegalState,
    InvalidInput,
    JobFilter,
    NotFound,
    Queue,
    RetryPolicy,
    Scheduler,
    State,
)
from oncue.clock import FakeClock
from oncue.core.changes import JobChange
from oncue.core.moment import LATEST, Moment
from oncue.core.retention import Retention
from oncue.ports.jobs import Changed
from oncue.stores.memory import MemoryStore

NOW = datetime(2027, 1, 15, 8, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Scheduler(url, clock=clock) as cue:
        yield cue


class PruningAtOnce(MemoryStore):
    """Removes finished jobs as soon as a change is done."""

    def change(self, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        changed = super().change(job_ids, change, now)
        self.prune(Retention({"default": LATEST}), now, 100)
        return changed


def test_a_cancel_answers_with_the_job_even_if_it_is_pruned_meanwhile(clock: FakeClock) -> None:
    with Scheduler(PruningAtOnce(clock), clock=clock) as cue:
        job = cue.schedule()
        assert cue.cancel(job.id).state is State.CANCELLED
        with pytest.raises(NotFound):
            cue.job(job.id)


class TestCancelling:
    def test_a_cancelled_job_is_never_handed_out(self, cue: Scheduler) -> None:
        job = cue.schedule()
        assert cue.cancel(job.id).state is State.CANCELLED
        assert cue.claim("default", "ada") == []

    def test_a_finished_job_is_not_cancelled_and_the_caller_is_told(self, cue: Scheduler) -> None:
        job = cue.schedule()
        cue.cancel(job.id)
        with pytest.raises(IllegalState, match=f"cannot cancel job {job.id}: it is cancelled") as e:
            cue.cancel(job.id)
        assert e.value.state is State.CANCELLED

    def test_a_taken_job_is_cancelled_only_on_request(self, cue: Scheduler) -> None:
        job = cue.schedule()
        [claimed] = cue.claim("default", "ada")
        with pytest.raises(IllegalState, match="it is dispatched"):
            cue.cancel(job.id)
        asked = cue.cancel(job.id, running=True)
        assert (asked.state, asked.cancel_requested) == (State.DISPATCHED, True)
        assert cue.heartbeat(job.id, cue.token(claimed)).cancel_requested

    def test_a_waiting_job_is_cancelled_at_once_even_if_running_ones_may_be(
        self, cue: Scheduler
    ) -> None:
        assert cue.cancel(cue.schedule(delay=5).id, running=True).state is State.CANCELLED


class TestRescheduling:
    def test_a_waiting_job_gets_another_time_priority_or_payload(self, cue: Scheduler) -> None:
        job = cue.schedule(1, delay=60, priority=1)
        assert cue.reschedule(job.id, delay=5).due_at == NOW + timedelta(seconds=5)
        assert cue.reschedule(job.id, at="2027-01-15T09:30:00Z").due_at == NOW + timedelta(
            hours=1.5
        )
        changed = cue.reschedule(job.id, due_at="2027-01-15T09:00:00Z")
        assert changed.due_at == NOW + timedelta(hours=1)
        assert cue.reschedule(job.id, priority=9).priority == 9
        changed = cue.reschedule(job.id, payload=None)
        assert (changed.payload, changed.priority) == (None, 9)
        assert changed.due_at == NOW + timedelta(hours=1)

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"delay": -1}, "/delay"),
            ({"at": "soon"}, "/at"),
            ({"due_at": "soon"}, "/due_at"),
            ({"at": "2027-01-15T09:00:00Z", "due_at": "2027-01-15T09:00:00Z"}, "/due_at"),
            ({"priority": True}, "/priority"),
            ({"payload": float("nan")}, "/payload"),
            ({"delay": 1, "at": "2027-01-15T09:00:00Z"}, "/delay"),
        ],
    )
    def test_a_wrong_change_changes_nothing(
        self, cue: Scheduler, change: dict[str, Any], pointer: str
    ) -> None:
        job = cue.schedule(1, delay=60)
        with pytest.raises(InvalidInput) as caught:
            cue.reschedule(job.id, **change)
        assert caught.value.pointer == pointer
        assert cue.job(job.id) == job

    def test_a_taken_job_stays_as_it_is(self, cue: Scheduler) -> None:
        job = cue.schedule()
        cue.claim("default", "ada")
        with pytest.raises(IllegalState, match="cannot reschedule"):
            cue.reschedule(job.id, delay=5)

    def test_run_makes_a_waiting_job_due(self, cue: Scheduler) -> None:
        job = cue.schedule(delay=3600)
        assert cue.run(job.id).due_at == NOW
        assert [claimed.id for claimed in cue.claim("default", "ada")] == [job.id]
        with pytest.raises(IllegalState, match="cannot run"):
            cue.run(job.id)

    def test_run_does_not_send_a_due_job_to_the_end_of_the_line(
        self, cue: Scheduler, clock: FakeClock
    ) -> None:
        first = cue.schedule()
        clock.advance(5)
        cue.schedule()
        clock.advance(5)
        assert cue.run(first.id).due_at == first.due_at
        assert [claimed.id for claimed in cue.claim("default", "ada")] == [first.id]

    def test_retry_gives_an_ended_job_all_its_attempts_anew(self, cue: Scheduler) -> None:
        job = cue.schedule(max_attempts=1)
        [claimed] = cue.claim("default", "ada")
        cue.fail(job.id, cue.token(claimed), "boom")
        assert cue.job(job.id).state is State.FAILED
        assert cue.retry(job.id).state is State.SCHEDULED
        [again] = cue.claim("default", "ada")
        assert (again.id, again.attempt) == (job.id, 2)
        cue.fail(job.id, cue.token(again), "boom")
        assert cue.job(job.id).state is State.FAILED

    def test_a_waiting_job_and_a_success_are_not_retried(self, cue: Scheduler) -> None:
        job = cue.schedule()
        with pytest.raises(IllegalState):
            cue.retry(job.id)
        [claimed] = cue.claim("default", "ada")
        cue.complete(job.id, cue.token(claimed))
        with pytest.raises(IllegalState, match="it has succeeded"):
            cue.retry(job.id)

    def test_what_is_not_there_cannot_be_changed(self, cue: Scheduler) -> None:
        for change in (cue.cancel, cue.run, cue.retry, cue.reschedule):
            with pytest.raises(NotFound):
                change("nobody")


class TestReading:
    def test_jobs_come_in_the_order_of_their_due_time(self, cue: Scheduler) -> None:
        for delay in (30, 10, 20):
            cue.schedule(delay, queue="q", delay=delay, owner="ada", key=str(delay))
        cue.schedule("other", queue="p")
        assert [job.payload for job in cue.jobs(queue="q")] == [10, 20, 30]
        assert [job.payload for job in cue.jobs()] == ["other", 10, 20, 30]
        assert [job.payload for job in cue.jobs(owner="ada")] == [10, 20, 30]
        assert [job.payload for job in cue.jobs(key="20")] == [20]
        assert [job.payload for job in cue.jobs(queue="q", state="scheduled")] == [10, 20, 30]
        assert list(cue.jobs(state=State.FAILED)) == []
        after = cue.jobs(queue="q", due_after=NOW + timedelta(0, 20))
        before = cue.jobs(queue="q", due_before=NOW + timedelta(0, 20))
        assert [job.payload for job in after] == [20, 30]
        assert [job.payload for job in before] == [10]

    def test_a_listing_goes_through_all_pages(self, cue: Scheduler) -> None:
        cue.schedule_many({"payload": n} for n in range(1234))
        assert [job.payload for job in cue.jobs(queue="default")] == list(range(1234))

    @pytest.mark.parametrize(
        ("wanted", "pointer"),
        [
            ({"state": "done"}, "/state"),
            ({"queue": "\ud800"}, "/queue"),
            ({"owner": "\ud800"}, "/owner"),
            ({"key": ""}, "/key"),
            ({"due_after": datetime(2027, 1, 1)}, "/due_after"),
        ],
    )
    def test_a_filter_that_makes_no_sense_is_refused(
        self, cue: Scheduler, wanted: dict[str, Any], pointer: str
    ) -> None:
        with pytest.raises(InvalidInput) as caught:
            next(cue.jobs(**wanted))
        assert caught.value.pointer == pointer

    @pytest.mark.parametrize(
        ("page", "pointer"),
        [
            ({"after": "nonsense"}, "/cursor"),
            ({"after": 7}, "/cursor"),
            ({"after": (7, "an-id")}, "/cursor"),
            *(({"limit": limit}, "/limit") for limit in (0, -1, 501, "ten", True)),
        ],
    )
    def test_a_page_that_makes_no_sense_is_refused(
        self, cue: Scheduler, page: dict[str, Any], pointer: str
    ) -> None:
        for read in (partial(cue.page, JobFilter()), partial(cue.event_page, EventFilter())):
            with pytest.raises(InvalidInput) as caught:
                read(**page)
            assert caught.value.pointer == pointer

    def test_history_tells_attempts_operations_and_diagnostics(self, cue: Scheduler) -> None:
        job = cue.schedule()
        [claimed] = cue.claim("default", "ada")
        token = cue.token(claimed)
        cue.operation(job.id, token, "download", "succeeded", result=[1])
        cue.fail(job.id, token, "boom")
        history = cue.history(job.id)
        assert [(one.attempt, one.worker, one.outcome) for one in history.attempts] == [
            (1, "ada", "retried")
        ]
        assert [(one.name, one.result) for one in history.operations] == [("download", b"[1]")]
        assert [one.code for one in history.diagnostics] == ["failure"]


class TestQueues:
    def test_a_queue_that_was_never_set_has_the_defaults(self, cue: Scheduler) -> None:
        assert cue.queue("new") == Queue("new")
        with pytest.raises(InvalidInput, match="^/queue: "):
            cue.queue("no such name!")

    def test_settings_are_replaced_as_a_whole_except_the_pause(self, cue: Scheduler) -> None:
        cue.pause("q")
        cue.set_queue("q", max_attempts=5, retry={"initial_seconds": 9}, lease_seconds=10)
        assert cue.queue("q").retry == RetryPolicy(initial_seconds=9)
        cue.set_queue("q", timeout_seconds=7)
        assert cue.queue("q") == Queue("q", timeout_seconds=7, paused=True)

    def test_a_wrong_setting_changes_nothing(self, cue: Scheduler) -> None:
        cue.set_queue("q", max_attempts=5)
        for wrong in ({"sink": "carrier-pigeon:"}, {"retry": "x"}, {"lease_seconds": 0}):
            with pytest.raises(InvalidInput):
                cue.set_queue("q", **wrong)
        assert cue.queue("q") == Queue("q", max_attempts=5)
        assert [queue.name for queue in cue.queues()] == ["q"]

    def test_a_sink_that_does_not_exist_is_refused_with_those_that_do(self, cue: Scheduler) -> None:
        with pytest.raises(InvalidInput, match=r"^/sink: there is no sink for 'x:'.*'log:'"):
            cue.set_queue("q", sink="x:")

    def test_nothing_is_taken_from_a_paused_queue(self, cue: Scheduler) -> None:
        job = cue.schedule(queue="q")
        cue.pause("q")
        assert cue.claim("q", "ada") == []
        cue.resume("q")
        assert [claimed.id for claimed in cue.claim("q", "ada")] == [job.id]

    def test_stats_count_the_states_and_tell_the_oldest(self, cue: Scheduler) -> None:
        cue.schedule_many([{"delay": 5}, {"delay": 9}, {}], queue="q")
        cue.claim("q", "ada")
        stats = cue.stats("q")
        assert (stats.counts[State.SCHEDULED], stats.counts[State.DISPATCHED]) == (2, 1)
        assert stats.oldest_due_at == cue.clock.now() + 5000
        with pytest.raises(InvalidInput):
            cue.stats("\ud800")


def test_a_store_of_which_nobody_has_heard_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidInput, match=r"^/store: .*sqlite:///FILE, .*dynamodb://.* and memory:"
    ):
        Scheduler("redis://localhost")
    with pytest.raises(InvalidInput, match="four slashes"):
        Scheduler("sqlite:jobs.db")


def test_one_function_does_the_jobs_of_a_queue() -> None:
    cue = Scheduler("memory:")
    cue.handler("q")(print)
    with pytest.raises(InvalidInput, match="^/queue: queue 'q' has a handler already"):
        cue.handler("q")(print)
    with pytest.raises(InvalidInput, match="^/batch: must be a whole number, at least 1"):
        cue.handler("p", batch=0)(print)
    with pytest.raises(InvalidInput, match="^/queue: a queue name"):
        cue.handler("no such name!")(print)
    assert list(cue.handlers) == ["q"]


def test_work_without_a_handler_says_what_is_missing() -> None:
    with pytest.raises(InvalidInput, match=r"decorate a function with @cue\.handler"):
        Scheduler("memory:").work()
