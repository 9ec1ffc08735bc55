"""The worker, one step at a time: handlers, results, failures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from oncue import HandledJob, InvalidInput, NonRetryable, NotSupported, Scheduler, State
from oncue.clock import FakeClock
from oncue.worker.worker import Worker
from tests.stores.kinds import KINDS, store_maker


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def cue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    with Scheduler(store_maker(request.param, tmp_path)(clock), clock=clock) as cue:
        yield cue


def drain(cue: Scheduler) -> None:
    worker = Worker(cue, name="wanda")
    while worker.step():
        pass


def run(cue: Scheduler, function: Any, payload: Any = None, **options: Any) -> Any:
    """Have one job done; the job afterwards."""
    fields = options.pop("fields", {})
    cue.handler("q", **options)(function)
    job = cue.schedule(payload, queue="q", **fields)
    drain(cue)
    return cue.job(job.id)


def raising(error: BaseException) -> Any:
    def handler(job: HandledJob) -> None:
        raise error

    return handler


def test_a_handler_without_the_name_of_a_queue_is_refused_at_once(cue: Scheduler) -> None:
    with pytest.raises(InvalidInput, match=r"write @cue.handler\('queue'\), with the name of a"):

        @cue.handler  # type: ignore[arg-type]
        def handle(job: HandledJob) -> None: ...


def test_a_handler_is_given_the_job(cue: Scheduler, clock: FakeClock) -> None:
    seen: list[HandledJob] = []
    cue.handler("q")(seen.append)
    scheduled = cue.schedule({"to": "ada"}, queue="q", owner="o", key="k", priority=4, delay=1)
    clock.advance(1.25)
    drain(cue)
    [job] = seen
    assert (job.id, job.queue, job.payload, job.attempt) == (scheduled.id, "q", {"to": "ada"}, 1)
    assert (job.owner, job.key, job.priority) == ("o", "k", 4)
    assert (job.due_at, job.lateness_seconds) == (scheduled.due_at, 0.25)
    done = cue.job(scheduled.id)
    assert (done.state, done.worker, done.result_json) == (State.SUCCEEDED, "wanda", None)


def test_what_a_handler_returns_is_the_result(cue: Scheduler) -> None:
    assert run(cue, lambda job: {"twice": job.payload * 2}, 21).result == {"twice": 42}


def test_an_asynchronous_handler_is_awaited(cue: Scheduler) -> None:
    async def handler(job: HandledJob) -> int:
        await asyncio.sleep(0)
        return int(job.payload) + 1

    assert run(cue, handler, 1).result == 2


def test_a_batch_handler_is_given_a_list_and_may_answer_with_one(cue: Scheduler) -> None:
    sizes: list[int] = []

    @cue.handler("q", batch=3)
    def handle(jobs: list[HandledJob]) -> list[Any]:
        sizes.append(len(jobs))
        return [job.payload if job.payload % 2 else None for job in jobs]

    tally = cue.schedule_many(({"payload": n} for n in range(7)), queue="q")
    drain(cue)
    assert sizes == [3, 3, 1]
    assert [cue.job(one).result for one in tally.ids] == [None, 1, None, 3, None, 5, None]


def test_an_asynchronous_batch_handler_is_awaited_too(cue: Scheduler) -> None:
    async def handler(jobs: list[HandledJob]) -> None:
        await asyncio.sleep(0)

    assert run(cue, handler, batch=10).state is State.SUCCEEDED


@pytest.mark.parametrize("error", [None, ValueError("boom")])
def test_a_batch_handler_may_empty_its_list(cue: Scheduler, error: Exception | None) -> None:
    @cue.handler("q", batch=3)
    def handle(jobs: list[HandledJob]) -> None:
        while jobs:
            jobs.pop()
        if error is not None:
            raise error

    tally = cue.schedule_many([{"max_attempts": 1}, {"max_attempts": 1}], queue="q")
    drain(cue)
    states = {cue.job(one).state for one in tally.ids}
    assert states == {State.SUCCEEDED if error is None else State.FAILED}


@pytest.mark.parametrize(
    ("answer", "returned"),
    [
        (5, "a value of type int"),
        ("ab", "a value of type str"),
        ([], "a list of 0"),
        ([1, 2, 3], "a list of 3"),
        ((1,), "a list of 1"),
        ({"a": 1, "b": 2}, "a value of type dict"),
    ],
)
def test_a_batch_handler_that_answers_otherwise_fails_its_jobs(
    cue: Scheduler, answer: Any, returned: str
) -> None:
    cue.handler("q", batch=2)(lambda jobs: answer)
    tally = cue.schedule_many([{}, {}], queue="q")
    drain(cue)
    for job in map(cue.job, tally.ids):
        assert job.state is State.FAILED
        assert "a list with one result for each job" in str(job.error)
        assert f"This one was given 2 and returned {returned}." in str(job.error)


def test_jobs_are_done_in_the_order_of_priority_and_due_time(cue: Scheduler) -> None:
    done: list[Any] = []
    cue.handler("q")(lambda job: done.append(job.payload))
    for payload, priority in ((1, 0), (2, 5), (3, 0), (4, 9)):
        cue.schedule(payload, queue="q", priority=priority)
    drain(cue)
    assert done == [4, 2, 1, 3]


def test_queues_take_turns(cue: Scheduler) -> None:
    done: list[str] = []
    for queue in ("a", "b"):
        cue.handler(queue, batch=1)(lambda jobs: done.append(jobs[0].queue))
        cue.schedule_many([{}, {}, {}], queue=queue)
    drain(cue)
    assert done == ["a", "b", "a", "b", "a", "b"]


def test_an_exception_is_tried_again_after_its_back_off(cue: Scheduler, clock: FakeClock) -> None:
    cue.set_queue("q", retry={"initial_seconds": 10, "factor": 2, "max_seconds": 15})
    job = run(cue, raising(ValueError("boom")), fields={"max_attempts": 4})
    for attempt, (least, most) in enumerate([(5, 10), (7.5, 15), (7.5, 15)], 1):
        job = cue.job(job.id)
        assert (job.state, job.attempt, job.error) == (State.SCHEDULED, attempt, "ValueError: boom")
        pause = job.due_at - job.updated_at
        assert timedelta(seconds=least) <= pause <= timedelta(seconds=most)
        clock.advance(pause.total_seconds())
        drain(cue)
    job = cue.job(job.id)
    assert (job.state, job.attempt) == (State.FAILED, 4)
    outcomes = [one.outcome for one in cue.history(job.id).attempts]
    assert outcomes == ["retried", "retried", "retried", "failed"]


def test_a_failed_batch_fails_all_its_jobs_and_is_logged_once(
    cue: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    cue.handler("q", batch=5)(raising(ValueError("boom")))
    tally = cue.schedule_many([{}, {"max_attempts": 1}], queue="q")
    drain(cue)
    states = [cue.job(one).state for one in tally.ids]
    assert states == [State.SCHEDULED, State.FAILED]
    [line] = [line for line in caplog.messages if "raised" in line]
    assert line.startswith(f"job {tally.ids[0]} (and 1 more of its batch): attempt 1 raised Value")


@pytest.mark.parametrize("batch", [0, 1.5, "10"])
def test_a_batch_is_a_whole_number_of_jobs(cue: Scheduler, batch: Any) -> None:
    with pytest.raises(InvalidInput, match="/batch: must be a whole number"):
        cue.handler("q", batch=batch)(print)


def test_non_retryable_means_never_again(cue: Scheduler) -> None:
    job = run(cue, raising(NonRetryable("no such address")))
    assert (job.state, job.attempt, job.error) == (
        State.FAILED,
        1,
        "NonRetryable: no such address",
    )
    [diagnostic] = cue.history(job.id).diagnostics
    assert diagnostic.detail == "Failed: the failure is not retryable."


def test_so_do_the_exceptions_that_the_handler_calls_fatal(cue: Scheduler) -> None:
    assert run(cue, raising(KeyError("x")), fatal=[LookupError]).state is State.FAILED


def test_and_only_those(cue: Scheduler) -> None:
    assert run(cue, raising(ValueError("x")), fatal=[LookupError]).state is State.SCHEDULED


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_a_handler_that_wants_to_exit_fails_and_the_worker_goes_on(
    cue: Scheduler, error: BaseException
) -> None:
    job = run(cue, raising(error), fields={"max_attempts": 1})
    assert job.state is State.FAILED
    assert str(job.error).startswith(type(error).__name__)


def test_sys_exit_in_an_asynchronous_handler_is_no_different(cue: Scheduler) -> None:
    async def handler(job: HandledJob) -> None:
        sys.exit(3)

    assert run(cue, handler, fields={"max_attempts": 1}).error == "SystemExit: 3"


@pytest.mark.parametrize(
    "text",
    ["\ud800", "a\0b", "x" * 100_000, "'; DROP TABLE jobs; --"],
    ids=["half a character", "NUL", "long", "SQL"],
)
def test_any_text_of_an_exception_can_be_kept(cue: Scheduler, text: str) -> None:
    done: list[str] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        if job.payload == "bad":
            raise ValueError(text)
        done.append(job.id)

    cue.schedule_many([{"payload": p} for p in ("ok", "bad", "ok")], queue="q", max_attempts=1)
    drain(cue)
    states = [job.state for job in cue.jobs(queue="q")]
    assert states == [State.SUCCEEDED, State.FAILED, State.SUCCEEDED]
    assert len(done) == 2


@pytest.mark.parametrize(
    "result",
    [object(), float("nan"), "\ud800", "x" * 300_000],
    ids=["no JSON", "no number", "half a character", "too large"],
)
def test_a_result_that_cannot_be_stored_fails_and_the_work_is_not_repeated(
    cue: Scheduler, result: Any
) -> None:
    runs: list[str] = []

    def handler(job: HandledJob) -> Any:
        runs.append(job.id)
        return result

    job = run(cue, handler)
    assert (job.state, len(runs)) == (State.FAILED, 1)
    assert str(job.error).startswith("NonRetryable: the result ")


def test_an_exception_is_logged_without_its_text(
    cue: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    run(cue, raising(ValueError("4111 1111 1111 1111")))
    [job] = cue.jobs(queue="q")
    told = f"job {job.id}: attempt 1 raised ValueError; its text: cue.job('{job.id}').error\n"
    assert told in caplog.text
    assert "4111" not in caplog.text


def test_an_error_of_oncue_that_quotes_nothing_is_logged_with_its_text(
    cue: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    run(cue, raising(NotSupported("only PostgreSQL can do this.")))
    assert "attempt 1 raised NotSupported: only PostgreSQL can do this.\n" in caplog.text


def test_an_error_of_oncue_that_may_quote_the_payload_is_logged_without_its_text(
    cue: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    run(cue, raising(InvalidInput("'4111' is not a queue.", "/queue")))
    assert "raised InvalidInput; its text:" in caplog.text
    assert "4111" not in caplog.text


def test_a_queue_without_history_forgets_success_and_failure(cue: Scheduler) -> None:
    cue.set_queue("q", retention_seconds=0)

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        if job.payload:
            raise NonRetryable("no")

    cue.schedule_many([{"payload": 0}, {"payload": 1}], queue="q")
    drain(cue)
    assert list(cue.jobs(queue="q")) == []


def test_nothing_is_done_early(cue: Scheduler, clock: FakeClock) -> None:
    done: list[str] = []
    cue.handler("q")(lambda job: done.append(job.id))
    cue.schedule(queue="q", delay=0.001)
    drain(cue)
    assert done == []
    clock.advance(0.001)
    drain(cue)
    assert len(done) == 1


def test_quick_jobs_are_taken_in_ever_larger_batches(cue: Scheduler) -> None:
    cue.handler("q")(lambda job: None)
    cue.schedule_many(({} for _ in range(5000)), queue="q")
    worker = Worker(cue)
    left = [5000]
    while worker.step():
        left.append(len(list(cue.jobs(queue="q", state="scheduled"))))
    sizes = [before - after for before, after in pairwise(left)]
    assert sizes[:6] == [1, 4, 16, 64, 256, 1000]
    assert max(sizes) == 1000


def test_reclaimed_work_is_taken_one_at_a_time(cue: Scheduler, clock: FakeClock) -> None:
    """What may have killed a worker does not take others down with it."""
    cue.schedule_many(({"payload": n} for n in range(3)), queue="q")
    cue.claim("q", "dead", limit=3)
    clock.advance(60)
    cue.engine.reclaimer.step()
    cue.schedule_many(({"payload": n} for n in range(3, 6)), queue="q")
    batches: list[list[int]] = []
    cue.handler("q", batch=10)(lambda jobs: batches.append([job.payload for job in jobs]))
    drain(cue)
    assert batches == [[0], [1], [2], [3, 4, 5]]


def test_at_least_one_handler_thread_is_needed(cue: Scheduler) -> None:
    cue.handler("q")(print)
    with pytest.raises(InvalidInput, match="^/concurrency: must be at least 1"):
        Worker(cue, concurrency=0)


def test_a_worker_whose_name_no_store_can_keep_works_under_a_legible_one(tmp_path: Path) -> None:
    with Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}") as cue:
        cue.handler("mail")(lambda job: None)
        done = cue.schedule(queue="mail")
        Worker(cue, name="half \ud800").run(until_empty=True)
        assert cue.store.history(done.id).attempts[0].worker == "half \\ud800"
