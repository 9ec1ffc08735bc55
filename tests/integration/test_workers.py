"""Workers in processes of their own, on one file."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue import Scheduler, State
from tests.integration.crew import Crew, wait_until
from tests.proof.entries import Received, Wrote
from tests.proof.ledger import Ledger


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    with Crew(tmp_path) as crew:
        yield crew


@pytest.fixture
def cue(crew: Crew) -> Iterator[Scheduler]:
    with Scheduler(crew.url) as cue:
        cue.set_queue("work", lease_seconds=1, retry={"initial_seconds": 0.01})
        yield cue


def received(crew: Crew) -> list[Received]:
    return [one for one in crew.log.read() if isinstance(one, Received)]


def begun(crew: Crew, job_id: str, attempt: int = 1) -> bool:
    return any((one.id, one.attempt) == (job_id, attempt) for one in received(crew))


def wait_for_state(cue: Scheduler, job_id: str, state: State) -> None:
    wait_until(lambda: cue.job(job_id).state is state, f"job {job_id} is {state}")


def test_in_the_calm_every_job_is_done_exactly_once(crew: Crew, cue: Scheduler) -> None:
    """Two processes work, three schedule: this one and two others."""
    cue.set_queue("work", lease_seconds=60)
    for name in ("ada", "bob"):
        crew.worker(name)
    askers = [crew.start("child_asker", crew.file(f"asks{n}")) for n in range(2)]
    for _ in range(10):
        cue.schedule_many(({"payload": None} for _ in range(20)), queue="work")
        for asker in askers:
            assert asker.tell("20")
    for asker in askers:
        assert asker.process.stdin is not None
        asker.process.stdin.close()
        assert asker.wait() == 0
    wait_until(lambda: cue.stats("work").counts[State.SUCCEEDED] == 600, "all 600 are done")
    counts = Counter(one.id for one in received(crew))
    assert len(counts) == 600
    assert set(counts.values()) == {1}
    assert {job.attempt for job in cue.jobs(queue="work")} == {1}


def test_a_worker_is_woken_by_a_job_that_another_process_schedules(
    crew: Crew, cue: Scheduler
) -> None:
    first = cue.schedule(queue="work")
    crew.worker("ada")
    wait_for_state(cue, first.id, State.SUCCEEDED)
    for delay in (0, 0.2):  # it is idle now, and would look by itself after half a minute
        job = cue.schedule(queue="work", delay=delay)
        wait_until(lambda job=job: begun(crew, job.id), "it is begun", 10)  # type: ignore[misc]


def test_a_job_whose_worker_was_killed_goes_to_another(crew: Crew, cue: Scheduler) -> None:
    job = cue.schedule(f"hold {crew.file('go')}", queue="work")
    first = crew.worker("ada")
    wait_until(lambda: begun(crew, job.id), "it is begun")
    first.signal(signal.SIGKILL)
    crew.file("go").touch()
    crew.worker("bob")
    wait_for_state(cue, job.id, State.SUCCEEDED)
    done = cue.job(job.id)
    assert (done.attempt, done.result, done.worker) == (2, "bob", "bob")
    outcomes = [(one.worker, one.outcome) for one in cue.history(job.id).attempts]
    assert outcomes == [("ada", "reclaimed"), ("bob", "succeeded")]


def test_a_job_that_kills_every_worker_fails_and_takes_nobody_with_it(
    crew: Crew, cue: Scheduler
) -> None:
    others = cue.schedule_many(({} for _ in range(50)), queue="work").ids
    poison = cue.schedule("die", queue="work", priority=9, max_attempts=2)
    deaths = 0
    for n in range(2):
        child = crew.worker(f"worker {n}")
        assert child.wait() == -signal.SIGKILL
        deaths += 1
    crew.worker("survivor")
    wait_for_state(cue, poison.id, State.FAILED)
    wait_until(lambda: cue.stats("work").counts[State.SUCCEEDED] == 50, "the others are done")
    assert (cue.job(poison.id).attempt, deaths) == (2, 2)
    assert [one.attempt for one in received(crew) if one.id == poison.id] == [1, 2]
    assert max(cue.job(one).attempt for one in others) <= 2


def test_a_job_that_started_is_poison_at_the_third_death(crew: Crew, cue: Scheduler) -> None:
    poison = cue.schedule("report-die", queue="work", max_attempts=20)
    for n in range(3):
        assert crew.worker(f"worker {n}").wait() == -signal.SIGKILL
    crew.worker("survivor")
    wait_for_state(cue, poison.id, State.FAILED)
    codes = [one.code for one in cue.history(poison.id).diagnostics]
    assert codes == ["timeout_executing", "timeout_executing", "poison"]


def test_sigterm_lets_the_running_job_finish_and_gives_the_others_back(
    crew: Crew, cue: Scheduler
) -> None:
    cue.set_queue("work", lease_seconds=60)
    cue.schedule_many(({} for _ in range(400)), queue="work")  # so that it takes many at once
    slow = cue.schedule(f"hold {crew.file('go')}", queue="work")
    rest = cue.schedule_many(({} for _ in range(20)), queue="work").ids
    child = crew.worker("ada")
    wait_until(lambda: begun(crew, slow.id), "the slow one is begun")
    child.signal(signal.SIGTERM)
    child.signal(signal.SIGTERM)  # some send it twice
    wait_until(lambda: "stopping" in child.said, "it has noticed")
    crew.file("go").touch()
    assert child.wait() == 0, child.said
    assert (cue.job(slow.id).state, cue.job(slow.id).attempt) == (State.SUCCEEDED, 1)
    states = [(cue.job(one).state, cue.job(one).attempt) for one in rest]
    assert set(states) <= {(State.SUCCEEDED, 1), (State.SCHEDULED, 0)}
    assert (State.SCHEDULED, 0) in states
    counts = cue.stats("work").counts
    assert counts[State.DISPATCHED] == counts[State.EXECUTING] == 0


def test_a_worker_that_was_stopped_for_twice_its_lease_cannot_write_any_more(
    crew: Crew, cue: Scheduler
) -> None:
    job = cue.schedule("stop", queue="work")
    first = crew.worker("ada")
    wait_until(lambda: begun(crew, job.id), "it is begun and stops")
    crew.worker("bob")
    wait_for_state(cue, job.id, State.SUCCEEDED)
    assert cue.job(job.id).result == "bob"
    wait_until(lambda: _silent_for(cue, 2.0), "twice the lease is over")
    first.signal(signal.SIGCONT)
    both = cue.schedule_many(
        ({"payload": f"hold {crew.file('go')}"} for _ in range(2)), queue="work"
    ).ids
    wait_until(lambda: all(begun(crew, one) for one in both), "both workers are at it again")
    crew.file("go").touch()
    for one in both:
        wait_for_state(cue, one, State.SUCCEEDED)
    done = cue.job(job.id)
    assert (done.state, done.result, done.attempt) == (State.SUCCEEDED, "bob", 2)
    assert [one.attempt for one in received(crew) if one.id == job.id] == [1, 2]
    writes = [one for one in crew.log.read() if isinstance(one, Wrote) and one.id == job.id]
    answers = {one.writer: one.accepted for one in writes if one.what == "complete"}
    assert answers == {"ada": False, "bob": True}
    assert not Ledger(crew.log.read()).stale


def _silent_for(cue: Scheduler, seconds: float) -> bool:
    last = max(job.updated_at.timestamp() for job in cue.jobs(queue="work"))
    return cue.clock.now() / 1000 - last > seconds
