"""The hand-driven scheduler that users test their own code with."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import oncue.testing
from oncue import HandledJob, OncueError, SinkDown, State
from oncue.sinks.memory import named
from oncue.testing import FakeClock, HandDriven


def test_the_example_in_its_documentation_works() -> None:
    _, _, example = (oncue.testing.__doc__ or "").partition("\n")
    assert "cue.advance(1)" in example
    exec(compile(example, "example", "exec"), {})


def test_time_stops_at_every_due_moment_on_the_way() -> None:
    cue = HandDriven()
    seen: list[tuple[Any, float]] = []
    start = cue.clock.now()

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        seen.append((job.payload, (cue.clock.now() - start) / 1000))

    for delay in (30, 10, 86_400 * 365, 20.5):
        cue.schedule(delay, queue="q", delay=delay)
    cue.advance(86_400 * 366)
    assert seen == [(10, 10), (20.5, 20.5), (30, 30), (86_400 * 365, 86_400 * 365)]
    assert cue.clock.now() == start + 86_400_000 * 366


def test_what_a_handler_schedules_is_done_in_its_turn() -> None:
    cue = HandDriven()
    start = cue.clock.now()
    seen: list[int] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        seen.append((cue.clock.now() - start) // 1000)
        if len(seen) < 4:
            cue.schedule(queue="q", delay=10 if len(seen) % 2 else 0)

    cue.schedule(queue="q")
    cue.advance(0)
    assert seen == [0]
    cue.advance(60)
    assert seen == [0, 10, 10, 20]


def test_retries_come_after_exactly_the_back_off_of_the_queue() -> None:
    cue = HandDriven()
    start = cue.clock.now()
    tried: list[float] = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        tried.append((cue.clock.now() - start) / 1000)
        raise ValueError("boom")

    job = cue.schedule(queue="q")
    cue.advance(3600)
    assert tried == [0, 1, 3]
    assert cue.job(job.id).state is State.FAILED


def test_a_claim_that_falls_silent_is_reclaimed_when_its_lease_ends() -> None:
    cue = HandDriven()
    job = cue.schedule(queue="q")
    cue.claim("q", "gone")
    cue.advance(59.9)
    assert cue.job(job.id).state is State.DISPATCHED
    cue.advance(0.1)
    assert cue.job(job.id).state is State.SCHEDULED
    done: list[int] = []
    cue.handler("q")(lambda job: done.append(job.attempt))
    cue.run_due()
    assert done == [2]


def test_sinks_are_served_and_their_trouble_is_waited_out() -> None:
    cue = HandDriven()
    sink = named("test_testing")
    cue.set_queue("out", sink="memory:test_testing")
    for _ in range(3):
        sink.fail_next(SinkDown("away"))
    job = cue.schedule(queue="out", delay=5)
    cue.advance(5)
    assert not sink.deliveries
    cue.advance(7)  # 1 + 2 + 4 seconds of back-off
    assert [delivery.id for delivery in sink.deliveries] == [job.id]
    assert (cue.job(job.id).state, cue.job(job.id).attempt) == (State.SUCCEEDED, 1)


def test_what_expires_or_is_past_retention_is_gone_in_time() -> None:
    cue = HandDriven()
    cue.set_queue("q", retention_seconds=100)
    expires = cue.schedule().created_at + timedelta(seconds=50)
    job = cue.schedule(queue="q", delay=60, expires_at=expires)
    cue.advance(50)
    assert cue.job(job.id).state is State.CANCELLED
    cue.advance(200)
    assert list(cue.jobs(queue="q")) == []


def test_due_work_that_nobody_does_does_not_stop_the_time() -> None:
    cue = HandDriven()
    cue.schedule(queue="nobody")
    cue.handler("paused")(print)
    cue.schedule(queue="paused")
    cue.pause("paused")
    start = cue.clock.now()
    cue.advance(86_400 * 365)
    assert cue.clock.now() == start + 86_400_000 * 365


def test_the_same_story_gives_the_same_history() -> None:
    def story() -> list[Any]:
        cue = HandDriven()
        seen: list[Any] = []

        @cue.handler("q")
        def handle(job: HandledJob) -> None:
            seen.append((job.payload, job.attempt, cue.clock.now()))
            if job.payload % 3 == job.attempt:
                raise ValueError("boom")

        cue.schedule_many(({"payload": n, "delay": n % 7} for n in range(50)), queue="q")
        cue.advance(600)
        return seen

    assert story() == story()


def test_there_are_no_threads() -> None:
    before = set(threading.enumerate())
    cue = HandDriven()
    cue.handler("q")(print)
    cue.schedule(queue="q", delay=5)
    cue.advance(10)
    assert set(threading.enumerate()) <= before  # threads of other tests may end meanwhile


def test_an_endless_chain_is_told_and_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oncue.testing, "ROUNDS_LIMIT", 50)
    cue = HandDriven()
    handled = []

    @cue.handler("q")
    def handle(job: HandledJob) -> None:
        handled.append(job.id)
        cue.schedule(queue="q")

    cue.schedule(queue="q")
    with pytest.raises(OncueError, match="after 50 rounds .* Give them a delay"):
        cue.run_due()
    assert len(handled) == 50


def test_any_store_may_be_driven_by_hand(tmp_path: Path) -> None:
    with HandDriven(f"sqlite:///{tmp_path}/jobs.db", clock=FakeClock(10**12)) as cue:
        done: list[str] = []
        cue.handler("q")(lambda job: done.append(job.id))
        job = cue.schedule(queue="q", delay=3600)
        cue.advance(3600)
        assert done == [job.id]
        assert cue.clock.now() == 10**12 + 3_600_000
