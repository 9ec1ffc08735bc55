"""Every row of the table of cases of timeouts, retries and reclaiming, on every store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest

from oncue import Fenced, HandledJob, InvalidInput, NonRetryable, Scheduler, State
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import Claimed
from oncue.core.reclaim import ReclaimReport
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from oncue.testing import HandDriven
from tests.http.patience import until
from tests.stores.wrapped import Call, WrappedStore

T = TypeVar("T")
LEASE = 60.0
OLD = 10 * 60


class Meddler(WrappedStore):
    """A store whose calls can be preceded by something else."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.before: dict[str, Callable[[], None]] = {}
        self.away = False

    def during(self, call: Call, go: Callable[[], T]) -> T:
        if self.away:
            raise StoreUnavailable("connection lost")
        self.before.pop(call.method, lambda: None)()
        return go()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Meddler]:
    clock = FakeClock()
    memory = request.param == "memory"
    inner = MemoryStore(clock) if memory else SqliteStore(tmp_path / "jobs.db", clock)
    yield Meddler(inner)
    inner.close()


@pytest.fixture
def cue(store: Meddler) -> HandDriven:
    clock = store.clock
    assert isinstance(clock, FakeClock)
    cue = HandDriven(store, clock=clock)
    cue.set_queue("work", lease_seconds=LEASE)
    return cue


def taken(cue: Scheduler, **fields: Any) -> Claimed:
    cue.schedule(queue="work", **fields)
    return again(cue)


def again(cue: Scheduler, worker: str = "ada") -> Claimed:
    [claim] = cue.claim("work", worker)
    return claim


def reclaimed(cue: HandDriven, **given: Any) -> ReclaimReport:
    return cue.reclaim(**{"reclaim_age_minutes": 5, **given})


def lapse(cue: HandDriven) -> None:
    """The worker is silent for longer than its lease, and the reclaimer looks."""
    cue.clock.advance(LEASE + 1)
    cue.engine.reclaimer.step()


def codes(cue: Scheduler, job_id: str) -> list[str]:
    return [one.code for one in cue.history(job_id).diagnostics]


# -- finishes between scan and update --------------------------------------------------------------


def test_a_job_that_finishes_between_scan_and_update_is_untouched_and_a_lost_race(
    cue: HandDriven, store: Meddler
) -> None:
    claim = taken(cue)
    cue.clock.advance(OLD)
    store.before["reclaim"] = lambda: cue.complete(claim.id, cue.token(claim), "just in time")
    report = reclaimed(cue)
    assert (report.scanned, report.reclaimed, report.lost_races) == (1, 0, 1)
    job = cue.job(claim.id)
    assert (job.state, job.result) == (State.SUCCEEDED, "just in time")
    assert codes(cue, claim.id) == []


def test_a_job_that_is_heard_of_between_scan_and_update_goes_on(
    cue: HandDriven, store: Meddler
) -> None:
    claim = taken(cue)
    cue.clock.advance(OLD)

    def beat() -> None:
        cue.heartbeat(claim.id, cue.token(claim))

    store.before["reclaim"] = beat
    assert reclaimed(cue).lost_races == 1
    assert cue.job(claim.id).state is State.EXECUTING
    cue.complete(claim.id, cue.token(claim))


# -- zombie of epoch 3 writes while epoch 5 runs ---------------------------------------------------

WRITES: dict[str, Callable[[Scheduler, str, str], object]] = {
    "start": lambda cue, job_id, token: cue.start(job_id, token),
    "heartbeat": lambda cue, job_id, token: cue.heartbeat(job_id, token, message="late"),
    "operation": lambda cue, job_id, token: cue.operation(
        job_id, token, "encode", "succeeded", result="late"
    ),
    "complete": lambda cue, job_id, token: cue.complete(job_id, token, "late"),
    "fail": lambda cue, job_id, token: cue.fail(job_id, token, "late"),
    "release": lambda cue, job_id, token: cue.release(job_id, token),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_zombie_of_epoch_3_is_refused_while_epoch_5_runs(cue: HandDriven, write: str) -> None:
    first = taken(cue)
    lapse(cue)
    zombie = again(cue, "zombie")
    lapse(cue)
    current = again(cue, "bob")
    assert (first.epoch, zombie.epoch, current.epoch) == (1, 3, 5)
    cue.heartbeat(current.id, cue.token(current), message="at work")
    before = cue.job(current.id)
    with pytest.raises(Fenced) as fenced:
        WRITES[write](cue, zombie.id, cue.token(zombie))
    assert (fenced.value.reason, fenced.value.state) == ("reclaimed", State.EXECUTING)
    assert fenced.value.diagnostic is not None
    assert fenced.value.diagnostic.epoch == 3
    assert cue.job(current.id) == before
    assert cue.history(current.id).operations == ()
    cue.complete(current.id, cue.token(current), "mine")
    assert cue.job(current.id).result == "mine"


# -- two reclaimers, one stuck job -----------------------------------------------------------------


def test_of_two_reclaimers_one_takes_a_stuck_job_and_the_other_loses_the_race(
    cue: HandDriven, store: Meddler
) -> None:
    claim = taken(cue)
    cue.clock.advance(OLD)
    other = HandDriven(store.store, clock=cue.clock)
    reports: list[ReclaimReport] = []
    store.before["reclaim"] = lambda: reports.append(reclaimed(other))
    reports.append(reclaimed(cue))
    assert [(report.retried, report.lost_races) for report in reports] == [(1, 0), (0, 1)]
    assert codes(cue, claim.id) == ["timeout_dispatched"]
    assert [one.outcome for one in cue.history(claim.id).attempts] == ["reclaimed"]
    assert again(cue).attempt == 2


def test_two_reclaimers_at_the_very_same_time_agree_as_well(tmp_path: Path) -> None:
    clock = FakeClock()
    stores = [SqliteStore(tmp_path / "jobs.db", clock) for _ in range(2)]
    cues = [HandDriven(store, clock=clock) for store in stores]
    for _ in range(40):
        cues[0].schedule(queue="work")
    cues[0].claim("work", "ada", limit=40)
    clock.advance(OLD)
    start = Barrier(2)

    def run(cue: HandDriven) -> ReclaimReport:
        start.wait()
        return reclaimed(cue, object_scan_limit=5, target_batch_size=5)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(run, cues))
    assert sum(report.retried for report in reports) == 40
    jobs = list(cues[0].jobs(queue="work"))
    assert {(job.state, job.attempt, job.epoch) for job in jobs} == {(State.SCHEDULED, 1, 2)}
    assert {len(cues[0].history(job.id).diagnostics) for job in jobs} == {1}
    for store in stores:
        store.close()


# -- reclaimer killed mid-batch --------------------------------------------------------------------


def test_a_reclaimer_killed_in_the_middle_has_done_what_it_did_and_the_next_finds_the_rest(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    slowly = ("--object-scan-limit=1", "--target-batch-size=1", "--scan-delay-millis=60000")
    with Scheduler(url) as cue:
        for _ in range(4):
            cue.schedule(queue="work")
        cue.claim("work", "ada", limit=4)
        reclaimer = subprocess.Popen(
            [sys.executable, "-m", "oncue.cli", "--store", url, "reclaim", "--yes", *slowly],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: cue.stats("work").counts[State.SCHEDULED])
        reclaimer.kill()
        reclaimer.wait()
        assert cue.stats("work").counts[State.SCHEDULED] == 1
        report = cue.reclaim()
        assert (report.retried, report.ended_by) == (3, "end")
        for job in cue.jobs(queue="work"):
            assert (job.state, job.attempt) == (State.SCHEDULED, 1)
            assert codes(cue, job.id) == ["timeout_dispatched"]


# -- attempt 3 of 3 times out ----------------------------------------------------------------------


def test_the_third_of_three_attempts_that_times_out_fails_although_every_operation_succeeded(
    cue: HandDriven,
) -> None:
    claim = taken(cue)
    for name in ("download", "encode"):
        cue.operation(claim.id, cue.token(claim), name, "succeeded", result=name)
        lapse(cue)
        claim = again(cue)
    cue.operation(claim.id, cue.token(claim), "upload", "succeeded", result="upload")
    lapse(cue)
    job = cue.job(claim.id)
    last = cue.history(claim.id).diagnostics[-1]
    assert (job.state, job.attempt, job.error) == (State.FAILED, 3, last.detail)
    assert (last.code, last.facts["decision"]) == ("timeout_executing", "give up")
    assert last.detail.endswith("No attempt is left.")
    assert {one.state for one in cue.history(claim.id).operations} == {"succeeded"}


# -- max_attempts 0, 50 ----------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [0, -1, 21, 50])
def test_no_attempt_and_more_than_twenty_are_refused(cue: HandDriven, attempts: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        cue.schedule(queue="work", max_attempts=attempts)
    assert refused.value.pointer == "/max_attempts"
    with pytest.raises(InvalidInput):
        cue.set_queue("work", max_attempts=attempts)


# -- non-retryable failure -------------------------------------------------------------------------


def test_a_failure_that_is_not_retryable_fails_at_once_and_the_diagnostic_says_why(
    cue: HandDriven,
) -> None:
    reported = taken(cue)
    cue.fail(reported.id, cue.token(reported), "no such video", retryable=False)
    raised, fatal = (cue.schedule(queue=name) for name in ("raising", "fatal"))

    @cue.handler("raising")
    def raising(job: HandledJob) -> None:
        raise NonRetryable("no such video")

    @cue.handler("fatal", fatal=[LookupError])
    def fatally(job: HandledJob) -> None:
        raise KeyError("no such video")

    cue.run_due()
    for job_id in (reported.id, raised.id, fatal.id):
        job = cue.job(job_id)
        [diagnostic] = cue.history(job_id).diagnostics
        assert (job.state, job.attempt) == (State.FAILED, 1)
        assert (diagnostic.code, diagnostic.facts["decision"]) == ("failure", "fail")
        assert diagnostic.detail == "Failed: the failure is not retryable."
        assert "no such video" in diagnostic.facts["error"]


# -- claimed, never started ------------------------------------------------------------------------


def test_a_job_that_was_claimed_and_never_started_is_found_by_the_time_of_the_claim(
    cue: HandDriven,
) -> None:
    claim = taken(cue)
    cue.clock.advance(OLD)
    assert reclaimed(cue).retried == 1
    [diagnostic] = cue.history(claim.id).diagnostics
    assert diagnostic.code == "timeout_dispatched"
    assert diagnostic.facts["age_seconds"] == OLD
    started = again(cue)
    cue.start(started.id, cue.token(started))
    lapse(cue)
    assert codes(cue, claim.id) == ["timeout_dispatched", "timeout_executing"]


# -- store outage ----------------------------------------------------------------------------------


def test_after_an_outage_of_twice_the_lease_nothing_is_reclaimed_from_workers_that_live(
    cue: HandDriven, store: Meddler
) -> None:
    for _ in range(100):
        cue.schedule(queue="work")
    claims = cue.claim("work", "ada", limit=100)
    cue.engine.reclaimer.step()
    store.away = True
    for _ in range(12):
        cue.clock.advance(LEASE / 6)
        with pytest.raises(StoreUnavailable):
            cue.engine.reclaimer.step()
        with pytest.raises(StoreUnavailable):
            cue.heartbeat(claims[0].id, cue.token(claims[0]))
    store.away = False
    cue.engine.reclaimer.step()
    *living, dead = claims
    cue.clock.advance(LEASE / 3)
    for claim in living:
        cue.heartbeat(claim.id, cue.token(claim))
    for _ in range(12):
        cue.clock.advance(LEASE / 3)
        cue.engine.reclaimer.step()
        for claim in living:
            cue.heartbeat(claim.id, cue.token(claim))
    assert all(codes(cue, claim.id) == [] for claim in living)
    assert codes(cue, dead.id) == ["timeout_dispatched"]


def test_a_run_about_to_take_most_of_the_live_jobs_warns_and_goes_on(cue: HandDriven) -> None:
    for _ in range(3):
        cue.schedule(queue="work")
    cue.claim("work", "ada", limit=3)
    cue.clock.advance(OLD)
    report = reclaimed(cue)
    assert report.retried == 3
    assert report.warnings == [
        "most of the 3 live claims are silent: was the store or the network away? The run goes on."
    ]


# -- clean shutdown --------------------------------------------------------------------------------


def test_a_clean_shutdown_releases_the_job_and_the_attempt_is_not_counted(
    cue: HandDriven,
) -> None:
    claim = taken(cue, max_attempts=1)
    cue.release(claim.id, cue.token(claim))
    job = cue.job(claim.id)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)
    assert codes(cue, claim.id) == []
    assert again(cue).attempt == 1


# -- and besides -----------------------------------------------------------------------------------


def test_reclaimed_work_goes_ahead_of_waiting_work(cue: HandDriven) -> None:
    claim = taken(cue)
    urgent = cue.schedule(queue="work", priority=9)
    cue.clock.advance(OLD)
    reclaimed(cue)
    assert again(cue).id == claim.id
    assert again(cue).id == urgent.id
    assert cue.job(claim.id).priority == 0


def test_an_operation_in_flight_at_the_crash_is_run_again_and_told_its_last_progress(
    cue: HandDriven,
) -> None:
    claim = taken(cue)
    token = cue.token(claim)
    cue.operation(claim.id, token, "download", "succeeded", result={"bytes": 7})
    cue.operation(claim.id, token, "encode", "executing", percent=40, message="frame 2")
    lapse(cue)
    ran: list[str] = []
    told: list[Any] = []

    @cue.handler("work")
    def work(job: HandledJob) -> Any:
        video = job.step("download", lambda: ran.append("download"))
        known = job.operation("encode")
        assert known is not None
        told.append((known.state, known.percent, known.message))
        job.step("encode", lambda: ran.append("encode"))
        return video

    cue.run_due()
    assert (ran, told) == (["encode"], [("executing", 40.0, "frame 2")])
    assert cue.job(claim.id).result == {"bytes": 7}
