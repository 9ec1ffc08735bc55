"""What a handler holds: steps, progress, and the news that it should stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from oncue import ClaimLost, HandledJob, InvalidInput, Scheduler, State, StoreUnavailable
from oncue.clock import FakeClock
from oncue.core.operations import OperationLimits
from oncue.stores.memory import MemoryStore
from oncue.worker.worker import Worker
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan

T = TypeVar("T")
LARGE = "x" * 200_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Scheduler(url, clock=clock) as cue:
        yield cue


def drain(cue: Scheduler) -> None:
    worker = Worker(cue)
    while worker.step():
        pass


def noted(ran: list[int], answer: T) -> T:
    ran.append(1)
    return answer


def test_a_step_that_succeeded_is_not_run_again(cue: Scheduler, clock: FakeClock) -> None:
    ran: list[str] = []

    def note(name: str, answer: Any) -> Any:
        ran.append(name)
        return answer

    @cue.handler("q")
    def handle(job: HandledJob) -> Any:
        video = job.step("download", lambda: note("download", {"bytes": 7}))
        if job.attempt == 1:
            raise ValueError("boom")
        return job.step("transcode", lambda: note("transcode", [video, None]))

    job = cue.schedule(queue="q")
    drain(cue)
    clock.advance(1)
    drain(cue)
    assert ran == ["download", "transcode"]
    assert cue.job(job.id).result == [{"bytes": 7}, None]
    operations = cue.history(job.id).operations
    assert [(one.name, one.state) for one in operations] == [
        ("download", "succeeded"),
        ("transcode", "succeeded"),
    ]


def test_no_step_runs_again_if_there_are_more_than_a_claim_tells(
    cue: Scheduler, clock: FakeClock
) -> None:
    cue.operation_limits = OperationLimits(1000, 10**8)
    ran: list[int] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> list[int]:
        if job.attempt == 2:
            assert job.claim.operations_cursor is not None
        sizes = [len(job.step(f"o{n}", lambda: noted(ran, LARGE))) for n in reversed(range(7))]
        if job.attempt == 1:
            raise ValueError("boom")
        return sizes

    job = cue.schedule(queue="q")
    drain(cue)
    clock.advance(1)
    drain(cue)
    assert len(ran) == 7
    assert cue.job(job.id).result == [len(LARGE)] * 7


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (OperationLimits(2, 1000), "has 2 operations, and may have no more"),
        (OperationLimits(1000, 5), "may have 5 bytes of results together"),
    ],
)
def test_a_handler_is_told_that_its_job_has_no_room_for_more_steps(
    cue: Scheduler, limits: OperationLimits, said: str
) -> None:
    cue.operation_limits = limits

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        for n in range(3):
            job.step(f"o{n}", lambda: 10)

    job = cue.schedule(queue="q", max_attempts=1)
    drain(cue)
    assert said in str(cue.job(job.id).error)
    assert [one.state for one in cue.history(job.id).operations][:2] == ["succeeded"] * 2


def test_a_step_that_failed_is_run_again_and_told_its_last_progress(
    cue: Scheduler, clock: FakeClock
) -> None:
    known: list[tuple[str, float | None, str | None] | None] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        last = job.operation("encode")
        known.append(None if last is None else (last.state, last.percent, last.message))

        def encode() -> None:
            job.progress(40, "pass 1", step="encode")
            if job.attempt == 1:
                raise ValueError("boom")

        job.step("encode", encode)

    job = cue.schedule(queue="q")
    drain(cue)
    clock.advance(1)
    drain(cue)
    assert known == [None, ("failed", 40, "ValueError")]
    assert cue.job(job.id).state is State.SUCCEEDED


def test_a_step_that_runs_again_is_given_its_unfinished_result(cue: Scheduler) -> None:
    known: list[bytes | None] = []
    job = cue.schedule(queue="q")
    [claimed] = cue.claim("q", "by hand")
    token = cue.token(claimed)
    cue.operation(job.id, token, "encode", "executing", result={"external_id": 7})
    cue.release(job.id, token)

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        def encode() -> None:
            now = job.operation("encode")
            assert now is not None
            known.append(now.result)

        job.step("encode", encode)

    drain(cue)
    assert known == [b'{"external_id":7}']
    assert [one.result for one in cue.history(job.id).operations] == [b"null"]


def test_the_same_step_twice_in_one_attempt_runs_once(cue: Scheduler) -> None:
    ran: list[int] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> Any:
        return [job.step("once", lambda: noted(ran, 5)) for _ in range(2)]

    job = cue.schedule(queue="q")
    drain(cue)
    assert (cue.job(job.id).result, ran) == ([5, 5], [1])


def test_a_step_may_answer_nothing(cue: Scheduler, clock: FakeClock) -> None:
    ran: list[int] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        job.step("quiet", lambda: ran.append(1))
        if job.attempt == 1:
            raise ValueError("boom")

    cue.schedule(queue="q")
    drain(cue)
    clock.advance(1)
    drain(cue)
    assert ran == [1]


def test_progress_is_shown_with_the_job(cue: Scheduler) -> None:
    shown: list[tuple[State, float | None, str | None]] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        job.progress(25, "a quarter")
        now = cue.job(job.id)
        shown.append((now.state, now.percent, now.message))

    cue.schedule(queue="q")
    drain(cue)
    assert shown == [(State.EXECUTING, 25, "a quarter")]


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"percent": "half"}, "/percent"),
        ({"percent": float("nan")}, "/percent"),
        ({"message": "\ud800"}, "/message"),
        ({"step": "no such name!"}, "/step"),
    ],
)
def test_progress_that_makes_no_sense_is_refused(
    cue: Scheduler, wrong: dict[str, Any], pointer: str
) -> None:
    found: list[str] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        with pytest.raises(InvalidInput) as caught:
            job.progress(**wrong)
        found.append(caught.value.pointer)

    cue.schedule(queue="q")
    drain(cue)
    assert found == [pointer]


@pytest.mark.parametrize("way", ["step", "progress", "check"])
def test_a_handler_that_was_asked_to_end_stops_at_its_next_word(
    cue: Scheduler, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    after: list[str] = []
    caplog.set_level("INFO", "oncue.worker")

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        cue.cancel(job.id, running=True)
        job.progress(10)  # learns of it, as a heartbeat would
        assert job.cancel_requested
        if way == "step":
            job.step("next", lambda: after.append("ran"))
        elif way == "progress":
            job.progress(20)
        else:
            job.check()
        after.append("went on")

    job = cue.schedule(queue="q")
    drain(cue)
    ended = cue.job(job.id)
    assert (ended.state, after) == (State.CANCELLED, [])
    assert ended.error == "The handler stopped because a cancel was requested."
    told = [record.getMessage() for record in caplog.records if record.name == "oncue.worker"]
    assert told == [f"job {job.id}: its handler stopped: a cancel was requested"]


def test_a_handler_that_does_not_look_is_not_stopped(cue: Scheduler) -> None:
    @cue.handler("q")
    def handle(job: HandledJob) -> int:
        cue.cancel(job.id, running=True)
        return 7

    job = cue.schedule(queue="q")
    drain(cue)
    assert (cue.job(job.id).state, cue.job(job.id).result) == (State.SUCCEEDED, 7)


@pytest.mark.parametrize("way", ["step", "progress"])
def test_a_handler_whose_claim_was_lost_stops_and_its_result_is_not_used(
    cue: Scheduler, clock: FakeClock, way: str
) -> None:
    after: list[str] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> str:
        if job.attempt == 1:
            clock.advance(60)
            cue.engine.reclaimer.step()
            with pytest.raises(ClaimLost, match="reclaimed"):
                job.step("x", lambda: after.append("ran")) if way == "step" else job.progress(5)
            with pytest.raises(ClaimLost, match="another worker goes on with it"):
                job.check()
            assert job.lost
        return f"of attempt {job.attempt}"

    job = cue.schedule(queue="q")
    drain(cue)
    ended = cue.job(job.id)
    assert (ended.state, ended.attempt, ended.result, after) == (
        *(State.SUCCEEDED, 2, "of attempt 2"),
        [],
    )


class Ticking(FakeClock):
    """Every look at it takes a second, so that nobody waits."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


def troubled(first_n: int | None, only: str, fault: Fault = Fault.FAIL) -> Scheduler:
    clock = Ticking()
    plan = Plan(1, {fault: 1.0}, only={only}, first_n=first_n)
    return Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock)


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.TIMEOUT])
def test_trouble_of_the_store_does_not_use_up_an_attempt(fault: Fault) -> None:
    cue = troubled(3, "put_operation", fault)
    ran: list[int] = []
    cue.handler("q")(lambda job: job.step("x", lambda: noted(ran, "done")))
    job = cue.schedule(queue="q")
    drain(cue)
    ended = cue.job(job.id)
    assert (ended.state, ended.attempt, ended.result, ran) == (State.SUCCEEDED, 1, "done", [1])


def test_progress_that_cannot_be_stored_does_not_stop_the_work() -> None:
    cue = troubled(None, "touch")
    cue.handler("q")(lambda job: job.progress(50))
    job = cue.schedule(queue="q")
    drain(cue)
    assert cue.job(job.id).state is State.SUCCEEDED


def test_a_store_that_stays_away_is_not_waited_for_for_ever() -> None:
    cue = troubled(None, "put_operation")
    errors: list[Exception] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        try:
            job.step("x", lambda: None)
        except StoreUnavailable as error:
            errors.append(error)

    cue.schedule(queue="q")
    drain(cue)
    assert len(errors) == 1
