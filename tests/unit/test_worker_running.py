"""The worker with its threads: it ends when it should, and not before."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from oncue import ClaimLost, HandledJob, Scheduler, State, StoreUnavailable
from oncue.clock import FakeClock, SystemClock
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.worker.worker import Worker
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan

SOON = 30.0  # only reached if something is broken


def troubled(plan: Plan, store: Store | None = None) -> Scheduler:
    store = store or MemoryStore(SystemClock())
    return Scheduler(FaultyStore(store, plan))


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("concurrency", [1, 4])
def test_until_empty_does_everything_and_returns(concurrency: int) -> None:
    cue = Scheduler("memory:")
    cue.handler("q")(lambda job: job.payload)
    cue.schedule_many(({"payload": n, "delay": n / 10_000} for n in range(500)), queue="q")
    Worker(cue, concurrency=concurrency).run(until_empty=True)
    assert cue.stats("q").counts[State.SUCCEEDED] == 500


def test_until_empty_does_what_the_jobs_themselves_schedule() -> None:
    cue = Scheduler("memory:")

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        if job.payload:
            cue.schedule(job.payload - 1, queue="q", delay=0.001)

    cue.schedule(5, queue="q")
    Worker(cue, concurrency=2).run(until_empty=True)
    assert cue.stats("q").counts[State.SUCCEEDED] == 6


def test_until_empty_waits_for_retries() -> None:
    cue = Scheduler("memory:")
    cue.set_queue("q", retry={"initial_seconds": 0.01})

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        if job.attempt < 3:
            raise ValueError("boom")

    job = cue.schedule(queue="q")
    Worker(cue).run(until_empty=True)
    assert (cue.job(job.id).state, cue.job(job.id).attempt) == (State.SUCCEEDED, 3)


def test_until_empty_waits_for_what_others_have() -> None:
    """A job in the hands of somebody else may come back."""
    cue = Scheduler("memory:")
    cue.handler("q")(lambda job: None)
    job = cue.schedule(queue="q")
    [claimed] = cue.claim("q", "somebody else")
    thread = in_background(lambda: Worker(cue).run(until_empty=True))
    assert thread.is_alive()
    cue.release(claimed.id, cue.token(claimed))
    thread.join(SOON)
    assert not thread.is_alive()
    assert cue.job(job.id).state is State.SUCCEEDED


def test_a_paused_queue_does_not_keep_it_from_ending() -> None:
    cue = Scheduler("memory:")
    cue.handler("q")(lambda job: None)
    cue.schedule(queue="q")
    cue.pause("q")
    Worker(cue).run(until_empty=True)
    assert cue.stats("q").counts[State.SCHEDULED] == 1


def test_stop_lets_the_running_job_finish_and_hands_back_the_rest() -> None:
    cue = Scheduler("memory:")
    worker: list[Worker] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> str:
        if job.payload == "stop":
            worker[0].stop()
        return "finished"

    cue.schedule_many(({"payload": n} for n in range(21)), queue="q")
    worker.append(Worker(cue))
    for _ in range(3):
        worker[0].step()  # 1, 4, 16: the next claim takes up to 64
    ids = cue.schedule_many([{"payload": p} for p in ("stop", 1, 2, 3)], queue="q").ids
    worker[0].run()
    assert cue.job(ids[0]).result == "finished"
    assert [(cue.job(one).state, cue.job(one).attempt) for one in ids[1:]] == [
        (State.SCHEDULED, 0)
    ] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_and_the_handlers_of_before_are_back(number: signal.Signals) -> None:
    cue = Scheduler("memory:")
    cue.handler("q")(lambda job: os.kill(os.getpid(), number))
    job = cue.schedule(queue="q")
    before = signal.getsignal(number)
    Worker(cue).run()
    assert signal.getsignal(number) is before
    assert cue.job(job.id).state is State.SUCCEEDED


def test_many_signals_at_once_are_no_trouble() -> None:
    cue = Scheduler("memory:")

    @cue.handler("q")
    def handle(job: HandledJob) -> str:
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGTERM)
        return "finished"

    job = cue.schedule(queue="q")
    Worker(cue).run()
    assert cue.job(job.id).result == "finished"


class Unspeakable(Exception):
    """Even its text is trouble."""

    def __str__(self) -> str:
        raise MemoryError


class Deadly:
    """Handlers of each kind that raise the error for a job whose payload is "bad"."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def plain(self, job: HandledJob) -> None:
        if job.payload == "bad":
            raise self.error

    def stepping(self, job: HandledJob) -> None:
        job.step("first", lambda: self.plain(job))

    def batch(self, jobs: list[HandledJob]) -> None:
        for job in jobs:
            self.plain(job)

    async def asynchronous(self, job: HandledJob) -> None:
        self.plain(job)


@pytest.mark.parametrize("kind", ["plain", "stepping", "batch", "asynchronous"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"),
        SystemExit(1),
        asyncio.CancelledError(),
        GeneratorExit(),
        KeyboardInterrupt(),
        Unspeakable(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_fails_the_job_and_its_thread_goes_on(
    error: BaseException, kind: str
) -> None:
    cue = Scheduler("memory:")
    handler = getattr(Deadly(error), kind)
    cue.handler("q", batch=1 if kind == "batch" else None)(handler)
    bad = cue.schedule("bad", queue="q", max_attempts=1)
    job = cue.schedule("good", queue="q")
    thread = in_background(lambda: Worker(cue).run(until_empty=True))
    thread.join(SOON)
    assert not thread.is_alive()
    assert cue.job(job.id).state is State.SUCCEEDED
    assert cue.job(bad.id).state is State.FAILED
    assert str(cue.job(bad.id).error).startswith(type(error).__name__)
    if kind == "stepping":
        [operation] = cue.history(bad.id).operations
        assert (operation.state, operation.message) == ("failed", type(error).__name__)


def test_ctrl_c_in_a_handler_that_is_run_by_hand_ends_the_program() -> None:
    cue = Scheduler("memory:")
    cue.handler("q")(Deadly(KeyboardInterrupt()).plain)
    cue.schedule("bad", queue="q")
    with pytest.raises(KeyboardInterrupt):
        Worker(cue).step()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("which", ["oncue-worker-1", "oncue-heartbeats"])
def test_a_thread_of_a_worker_that_died_is_replaced_and_that_is_told(
    which: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can neither work nor wait: its clock raises."""
    monkeypatch.setattr("oncue.worker.worker.SUPERVISE_SECONDS", 0.01)

    class Mortal(SystemClock):
        deadly = True

        def monotonic(self) -> float:
            if self.deadly and threading.current_thread().name == which:
                raise MemoryError
            return super().monotonic()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "had ended" in record.getMessage():
                told.set()

    told, done = threading.Event(), threading.Event()
    monkeypatch.setattr(logging.getLogger("oncue.engine"), "handlers", [Listening()])
    clock = Mortal()
    cue = Scheduler(MemoryStore(clock), clock=clock)
    cue.handler("q")(lambda job: done.set())
    worker = Worker(cue)
    cue.schedule(queue="q")
    thread = in_background(worker.run)
    assert told.wait(SOON)
    clock.deadly = False
    assert done.wait(SOON)
    worker.stop()
    thread.join(SOON)
    assert not thread.is_alive()
    assert f"{which}: its thread had ended; a new one goes on" in caplog.text
    assert cue.telemetry.totals().counts["threads_replaced"] > 0


def test_a_clock_that_is_set_forward_is_noticed_while_a_worker_rests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncue.worker.worker.SUPERVISE_SECONDS", 0.01)
    clock, resting, done = FakeClock(), threading.Event(), threading.Event()
    cue = Scheduler(MemoryStore(clock), clock=clock)
    cue.handler("q")(lambda job: done.set())
    cue.schedule(queue="q", delay=3_600)
    worker = Worker(cue)
    changed = worker._alarm._changed
    wait = changed.wait

    def begin(seconds: float | None = None) -> bool:
        resting.set()
        return wait(seconds)

    monkeypatch.setattr(changed, "wait", begin)
    thread = in_background(worker.run)
    assert resting.wait(SOON)
    with changed:  # held until it waits
        clock.set(clock.now() + 3_600_000)
    assert done.wait(SOON / 2)
    worker.stop()
    thread.join(SOON)


def test_after_the_clock_was_set_back_a_worker_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knew of the queues may be wrong: a rate begins again, for example."""
    monkeypatch.setattr("oncue.worker.worker.SUPERVISE_SECONDS", 0.01)
    clock, resting, looked = FakeClock(), threading.Event(), threading.Event()
    cue = Scheduler(MemoryStore(clock), clock=clock)
    cue.handler("q")(lambda job: None)
    cue.schedule(queue="q", delay=3_600)
    worker = Worker(cue)
    rest, claim = worker._source.rest, worker._source.claim

    def begin(*args: Any) -> None:
        resting.set()
        rest(*args)

    def look(*args: Any, **kwargs: Any) -> Any:
        if resting.is_set():
            looked.set()
        return claim(*args, **kwargs)

    monkeypatch.setattr(worker._source, "rest", begin)
    monkeypatch.setattr(worker._source, "claim", look)
    thread = in_background(worker.run)
    assert resting.wait(SOON)
    clock.set(clock.now() - 3_600_000)
    assert looked.wait(SOON / 2)
    worker.stop()
    thread.join(SOON)


@pytest.mark.parametrize("batch", [None, 5])
@pytest.mark.parametrize("happens", ["stop", "lease over"])
def test_no_handler_is_begun_once_the_worker_was_stopped_or_has_lost_the_claim(
    monkeypatch: pytest.MonkeyPatch, batch: int | None, happens: str
) -> None:
    """As after SIGTERM, or after the process stood still, right after the claim."""
    clock = FakeClock()
    cue = Scheduler(MemoryStore(clock), clock=clock)
    began: list[object] = []
    cue.handler("q", batch=batch)(began.append)
    job = cue.schedule(queue="q")
    worker = Worker(cue)
    claim = worker._source.claim

    def then(*args: Any, **kwargs: Any) -> Any:
        claimed = claim(*args, **kwargs)
        if happens == "stop":
            worker.stop()
        else:
            clock.advance(61)
        return claimed

    monkeypatch.setattr(worker._source, "claim", then)
    assert worker.step()
    assert began == []
    assert (cue.job(job.id).state, cue.job(job.id).attempt) == (State.SCHEDULED, 0)


def test_a_handler_that_outlives_the_grace_learns_that_its_job_was_handed_back() -> None:
    cue = Scheduler("memory:")
    begun, go = threading.Event(), threading.Event()
    seen: list[HandledJob] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        seen.append(job)
        begun.set()
        assert go.wait(SOON)

    job = cue.schedule(queue="q")
    worker = Worker(cue, grace_seconds=0)
    thread = in_background(worker.run)
    assert begun.wait(SOON)
    worker.stop()
    thread.join(SOON)
    assert cue.job(job.id).state is State.SCHEDULED
    with pytest.raises(ClaimLost, match="released"):
        seen[0].check()
    go.set()


class Ticking(FakeClock):
    """Every look at it takes a second, so that nobody waits."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


def test_results_are_insisted_on_while_the_store_is_away() -> None:
    clock = Ticking()
    for fault in (Fault.FAIL, Fault.TIMEOUT):
        plan = Plan(1, {fault: 1.0}, only={"settle"}, first_n=3)
        cue = Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock)
        runs: list[Any] = []
        cue.handler("q")(lambda job, runs=runs: runs.append(job.payload))
        tally = cue.schedule_many(({"payload": n} for n in range(3)), queue="q")
        worker = Worker(cue)
        while worker.step():
            pass
        assert runs == [0, 1, 2]
        assert [cue.job(one).state for one in tally.ids] == [State.SUCCEEDED] * 3
        assert plan.fired[fault] == 3


def test_results_are_not_insisted_on_for_ever() -> None:
    clock = Ticking()
    plan = Plan(1, {Fault.FAIL: 1.0}, only={"settle"})
    cue = Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock)
    cue.handler("q")(lambda job: None)
    cue.schedule(queue="q")
    with pytest.raises(StoreUnavailable):
        Worker(cue).step()


def test_a_worker_that_has_to_end_does_not_insist_beyond_its_grace() -> None:
    plan = Plan(1, {Fault.FAIL: 1.0}, only={"settle"})
    cue = troubled(plan)
    worker: list[Worker] = []
    cue.handler("q")(lambda job: worker[0].stop())
    worker.append(Worker(cue, grace_seconds=0))
    job = cue.schedule(queue="q")
    thread = in_background(worker[0].run)
    thread.join(SOON)
    assert not thread.is_alive()
    assert cue.job(job.id).state is State.DISPATCHED  # its lease will end


@pytest.mark.parametrize("method", ["claim", "next_due"])
def test_after_trouble_with_the_store_the_queue_is_looked_at_again(method: str) -> None:
    clock = FakeClock()
    plan = Plan(1, {Fault.FAIL: 1.0}, only={method}, first_n=1)
    cue = Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock)
    done: list[str] = []
    cue.handler("q")(lambda job: done.append(job.id))
    worker = Worker(cue)
    if method == "claim":
        cue.schedule(queue="q")
    with pytest.raises(StoreUnavailable):
        worker._claim()
    if method == "next_due":
        cue.schedule(queue="q")
    batch = worker._claim()  # what the thread on watch does next
    assert batch is not None
    worker._run(batch, None)
    assert len(done) == 1


def test_a_worker_says_once_that_the_store_is_away_and_once_that_it_answers_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    plan = Plan(1, {Fault.FAIL: 1.0}, only={"claim"}, first_n=3)
    cue = Scheduler(FaultyStore(MemoryStore(clock), plan), clock=clock)
    cue.handler("q")(lambda job: None)
    worker = Worker(cue, name="ada")
    for _ in range(3):
        with pytest.raises(StoreUnavailable) as trouble:
            worker._claim()
        worker._report_trouble(trouble.value)
    for _ in range(2):
        worker._expect(None, 0)
        assert worker._claim() is None
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"worker ada: {trouble.value} (trying again)", "worker ada: works again"]
