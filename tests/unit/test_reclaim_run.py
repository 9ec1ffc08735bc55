"""The reclaim run, stepped by hand: what it looks at, what it decides, when it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from oncue import InvalidInput, State
from oncue.clock import FakeClock
from oncue.core.fencing import Settlement
from oncue.core.job import Claimed
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.reclaim import FINDINGS_KEPT, ReclaimReport, parameters
from oncue.engine.reclaimrun import ReclaimRun
from oncue.stores.memory import MemoryStore
from oncue.testing import HandDriven
from oncue.usecases.reclaim import started

OLD_MINUTES = 10


class MeddledStore(MemoryStore):
    """Lets something happen just before verdicts are applied."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.before_reclaim: Callable[[], None] = lambda: None
        self.looks: list[int] = []

    def live_claims(self, *asked: Any) -> Any:
        page = super().live_claims(*asked)
        self.looks.append(len(page.items))
        return page

    def reclaim(self, verdicts: Any, now: Moment) -> Any:
        self.before_reclaim()
        return super().reclaim(verdicts, now)


@pytest.fixture
def store() -> MeddledStore:
    return MeddledStore(FakeClock())


@pytest.fixture
def cue(store: MeddledStore) -> HandDriven:
    clock = store.clock
    assert isinstance(clock, FakeClock)
    return HandDriven(store, clock=clock)


def taken(cue: HandDriven, number: int = 1, **fields: Any) -> list[Claimed]:
    """Jobs in the hands of a worker with a lease of a day."""
    for _ in range(number):
        cue.schedule(queue="work", **fields)
    return cue.claim("work", "ada", limit=number, lease_seconds=86_400)


def stuck(cue: HandDriven, number: int = 1, **fields: Any) -> list[Claimed]:
    """Jobs whose worker fell silent eleven minutes ago."""
    claims = taken(cue, number, **fields)
    cue.clock.advance((OLD_MINUTES + 1) * 60)
    return claims


def reclaimed(cue: HandDriven, **given: Any) -> ReclaimReport:
    return cue.reclaim(**{"reclaim_age_minutes": OLD_MINUTES, **given})


def run_of(cue: HandDriven, **given: Any) -> ReclaimRun:
    return started(cue, parameters({"reclaim_age_minutes": OLD_MINUTES, **given}))


# -- what it looks at -----------------------------------------------------------------------------


def test_a_claim_is_taken_when_it_is_strictly_older_than_the_age(cue: HandDriven) -> None:
    [claim] = taken(cue)
    cue.clock.advance(OLD_MINUTES * 60)
    assert reclaimed(cue).scanned == 0
    cue.clock.advance(0.001)
    report = reclaimed(cue)
    assert (report.scanned, report.reclaimed, report.retried) == (1, 1, 1)
    assert cue.job(claim.id).state is State.SCHEDULED


def test_a_claim_that_is_heard_of_is_left_alone(cue: HandDriven) -> None:
    [claim] = stuck(cue)
    cue.heartbeat(claim.id, cue.token(claim), lease_seconds=86_400)
    assert reclaimed(cue).scanned == 0


def test_a_claim_without_lease_and_timeout_is_found(cue: HandDriven) -> None:
    [claim] = taken(cue)
    cue.store.settle([Settlement(claim.id, claim.epoch, Verb.HAND_OVER)], cue.clock.now())
    cue.clock.advance(86_400)
    cue.run_due()
    assert cue.job(claim.id).state is State.DISPATCHED
    assert reclaimed(cue).retried == 1


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_every_claim_is_found_whatever_the_size_of_the_pages(cue: HandDriven, size: int) -> None:
    stuck(cue, 7)
    taken(cue, 3)
    report = reclaimed(cue, object_scan_limit=size, target_batch_size=2)
    assert (report.scanned, report.retried, report.ended_by) == (7, 7, "end")


def test_an_age_of_zero_takes_all_that_was_silent_since_the_run_began(
    cue: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    [early] = taken(cue)
    cue.clock.advance(0.001)
    [late] = taken(cue)
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        report = cue.reclaim()
    assert (cue.job(early.id).state, cue.job(late.id).state) == ("scheduled", "dispatched")
    [warning] = report.warnings
    assert "reclaimAgeMinutes is 0" in warning
    assert warning in caplog.text


# -- when it ends ---------------------------------------------------------------------------------


def test_it_pauses_between_pages_and_only_there(cue: HandDriven) -> None:
    stuck(cue, 4)
    run = run_of(cue, object_scan_limit=2, scan_delay_millis=250)
    rests = []
    while (rest := run.step()) is not None:
        rests.append(rest)
    assert rests == [0.25, 0.25]
    stuck(cue, 2)
    began = cue.clock.now()
    reclaimed(cue, object_scan_limit=50, scan_delay_millis=250)
    assert cue.clock.now() == began


def test_it_ends_softly_when_its_time_is_over_and_the_next_run_does_the_rest(
    cue: HandDriven,
) -> None:
    stuck(cue, 6)
    run = run_of(cue, object_scan_limit=2, target_batch_size=2, maximum_execution_seconds=5)
    assert run.step() == 0
    cue.clock.advance(5)
    assert run.step() is None
    assert (run.report.scanned, run.report.retried, run.report.ended_by) == (4, 4, "time")
    assert reclaimed(cue).retried == 2


def test_a_run_whose_time_is_over_applies_what_it_gathered(cue: HandDriven) -> None:
    """Small pages, a large batch and little time: every run gets on."""
    stuck(cue, 3)
    for left in (2, 1, 0):
        run = run_of(cue, object_scan_limit=1, maximum_execution_seconds=1)
        cue.clock.advance(1)
        assert run.step() is None
        assert (run.report.scanned, run.report.retried) == (1, 1)
        assert run.report.ended_by == "time"
        assert len(list(cue.jobs(queue="work", state="dispatched"))) == left


def test_a_run_that_is_stopped_applies_what_it_gathered(cue: HandDriven) -> None:
    stuck(cue, 3)
    run = run_of(cue, object_scan_limit=2)
    assert run.step() == 0
    run.stop()
    assert (run.report.scanned, run.report.retried, run.report.ended_by) == (2, 2, "time")


def test_no_time_at_all_means_a_look_and_nothing_else(cue: HandDriven) -> None:
    claims = stuck(cue, 3)
    report = reclaimed(cue, maximum_execution_seconds=0)
    assert (report.scanned, report.reclaimed, report.ended_by) == (3, 0, "time")
    assert {cue.job(claim.id).state for claim in claims} == {"dispatched"}


def test_a_batch_is_gathered_before_any_of_it_is_reclaimed(
    cue: HandDriven, store: MeddledStore
) -> None:
    stuck(cue, 5)
    batches: list[int] = []
    store.before_reclaim = lambda: batches.append(len(store.looks))
    reclaimed(cue, object_scan_limit=1, target_batch_size=3)
    assert batches == [3, 6]  # three pages of one, then the two left and the empty end


# -- what it decides ------------------------------------------------------------------------------


def test_the_last_attempt_fails_and_the_others_are_retried(cue: HandDriven) -> None:
    [last] = stuck(cue, max_attempts=1)
    [first] = stuck(cue)
    report = reclaimed(cue)
    assert (report.reclaimed, report.retried, report.failed) == (2, 1, 1)
    assert (cue.job(last.id).state, cue.job(first.id).state) == ("failed", "scheduled")
    assert cue.telemetry.totals().reclaimed == {"retried": 1, "failed": 1}


def test_a_run_in_mode_fail_leaves_no_attempt(cue: HandDriven) -> None:
    [claim] = stuck(cue)
    assert reclaimed(cue, mode="fail").failed == 1
    job = cue.job(claim.id)
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.startswith("Nothing was heard from the worker for 660 s.")


@pytest.mark.parametrize("mode", ["retry", "fail"])
def test_a_claim_whose_cancel_was_requested_ends_cancelled(cue: HandDriven, mode: str) -> None:
    [claim] = taken(cue)
    cue.cancel(claim.id, running=True)
    cue.clock.advance(3600)
    report = reclaimed(cue, mode=mode)
    assert (report.reclaimed, report.cancelled) == (1, 1)
    assert cue.job(claim.id).state is State.CANCELLED


def test_the_third_loss_after_a_start_without_a_finished_operation_is_poison(
    cue: HandDriven,
) -> None:
    cue.schedule(queue="work", id="killer", max_attempts=20)
    for _ in range(3):
        [claim] = cue.claim("work", "ada", lease_seconds=86_400)
        cue.start(claim.id, cue.token(claim))
        cue.clock.advance(3600)
        reclaimed(cue)
    assert cue.job("killer").state is State.FAILED
    assert cue.history("killer").diagnostics[-1].code == "poison"


def test_the_diagnostic_tells_the_age_the_threshold_and_the_decision(cue: HandDriven) -> None:
    [claim] = stuck(cue)
    reclaimed(cue)
    [diagnostic] = cue.history(claim.id).diagnostics
    assert (diagnostic.code, diagnostic.attempt, diagnostic.epoch) == ("timeout_dispatched", 1, 1)
    facts = diagnostic.facts
    assert (facts["age_seconds"], facts["threshold_seconds"]) == (660.0, 600.0)
    assert (facts["worker"], facts["decision"]) == ("ada", "reclaim")


# -- the dry run ----------------------------------------------------------------------------------


def test_a_dry_run_decides_tells_and_writes_nothing(
    cue: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    [last] = stuck(cue, max_attempts=1)
    [first] = stuck(cue)
    before = [cue.job(claim.id) for claim in (last, first)]
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        report = reclaimed(cue, log_reclaim_only=True)
    assert (report.reclaimed, report.would_reclaim_count) == (0, 2)
    assert [cue.job(claim.id) for claim in (last, first)] == before
    assert report.would_reclaim is not None
    found = {one.id: one for one in report.would_reclaim}
    assert (found[last.id].decision, found[first.id].decision) == ("fail", "retry")
    one = found[first.id]
    assert (one.queue, one.state, one.worker, one.attempt) == ("work", "dispatched", "ada", 1)
    assert (one.age_seconds, one.code) == (660.0, "timeout_dispatched")
    assert one.why.endswith("Due again at once.")
    assert caplog.text.count("would be reclaimed: ") == 2
    assert cue.telemetry.totals().reclaimed == {}
    assert cue.history(last.id).diagnostics == ()


def test_a_long_dry_run_counts_all_and_lists_the_first(cue: HandDriven) -> None:
    stuck(cue, FINDINGS_KEPT + 5)
    report = reclaimed(cue, log_reclaim_only=True, object_scan_limit=500)
    assert report.would_reclaim is not None
    assert (len(report.would_reclaim), report.would_reclaim_count) == (FINDINGS_KEPT, 1005)


# -- trouble --------------------------------------------------------------------------------------


def test_an_update_in_the_future_is_an_anomaly_and_left_alone(
    cue: HandDriven, caplog: pytest.LogCaptureFixture
) -> None:
    [claim] = taken(cue)
    cue.clock.set(cue.clock.now() - 3_600_000)
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        report = cue.reclaim()
    assert (report.scanned, report.anomalies, report.reclaimed) == (1, 1, 0)
    assert cue.job(claim.id).state is State.DISPATCHED
    assert report.warnings[-1].startswith(f"job {claim.id} was last updated 60 min in the future")
    assert report.warnings[-1] in caplog.text


def test_a_claim_that_is_heard_of_between_look_and_count_is_no_anomaly(
    cue: HandDriven, store: MeddledStore
) -> None:
    [claim] = taken(cue)

    class Late(MeddledStore):
        def live_claims(self, *asked: Any) -> Any:
            cue.clock.advance(1)
            cue.heartbeat(claim.id, cue.token(claim), lease_seconds=86_400)
            return MemoryStore.live_claims(store, *asked)

    store.__class__ = Late
    report = cue.reclaim()
    assert (report.scanned, report.anomalies) == (0, 0)


def test_a_run_about_to_take_most_of_the_live_claims_warns_first_and_goes_on(
    cue: HandDriven, store: MeddledStore, caplog: pytest.LogCaptureFixture
) -> None:
    stuck(cue, 4)
    taken(cue, 3)
    warned_before: list[bool] = []
    store.before_reclaim = lambda: warned_before.append("most of the 7" in caplog.text)
    with caplog.at_level(logging.WARNING, "oncue.engine"):
        report = reclaimed(cue, object_scan_limit=3, target_batch_size=3)
    assert warned_before == [False, True]
    assert (report.retried, len(report.warnings)) == (4, 1)


def test_a_run_that_takes_a_few_does_not_warn(cue: HandDriven) -> None:
    stuck(cue, 3)
    taken(cue, 3)
    assert reclaimed(cue).warnings == []


def test_what_was_done_before_a_crash_is_done_and_the_rest_is_found_again(
    cue: HandDriven, store: MeddledStore
) -> None:
    claims = stuck(cue, 6)

    def crash() -> None:
        if len(store.looks) > 2:
            raise KeyboardInterrupt

    store.before_reclaim = crash
    with pytest.raises(KeyboardInterrupt):
        reclaimed(cue, object_scan_limit=2, target_batch_size=2)
    done = [claim.id for claim in claims if cue.job(claim.id).state is State.SCHEDULED]
    assert len(done) == 4
    store.before_reclaim = lambda: None
    assert reclaimed(cue).retried == 2
    assert {len(cue.history(claim.id).diagnostics) for claim in claims} == {1}


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("maximum_execution_seconds", bad) for bad in (-1, "60", None, True, float("nan"), 1e9)),
        *(("reclaim_age_minutes", bad) for bad in (-1, "1", float("inf"))),
        *(("scan_delay_millis", bad) for bad in (-1, 0.5, 10**9)),
        *(("target_batch_size", bad) for bad in (0, -1, 1.5, 10**6)),
        *(("object_scan_limit", bad) for bad in (0, -1, "50")),
        *(("log_reclaim_only", bad) for bad in (1, "true")),
        *(("mode", bad) for bad in ("", "kill", None)),
        *(("table_name", bad) for bad in (1, b"t")),
    ],
)
def test_a_bad_parameter_is_refused_and_named(cue: HandDriven, name: str, value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        cue.reclaim(**{name: value})
    assert refused.value.pointer == f"/{name}"


def test_an_unknown_parameter_is_refused_and_the_known_ones_are_named(cue: HandDriven) -> None:
    with pytest.raises(InvalidInput, match="known are maximum_execution_seconds, reclaim_age") as e:
        cue.reclaim(age=3)
    assert e.value.pointer == "/age"


def test_what_is_about_tables_of_others_is_ignored(cue: HandDriven) -> None:
    stuck(cue)
    report = reclaimed(cue, table_name="t", id_field_name="id", time_field_name="updatedTime")
    assert report.retried == 1
    assert any("tableName" in warning and "ignored" in warning for warning in report.warnings)


def test_an_age_of_zero_leaves_tasks_alone(cue: HandDriven) -> None:
    for queue in ("tasks", "work"):
        cue.set_queue(queue)
        cue.schedule(queue=queue, id=f"of-{queue}")
        assert cue.claim(queue, "ada")
    cue.clock.advance(1)
    report = cue.reclaim()
    assert (report.scanned, report.retried) == (1, 1)
    assert cue.job("of-tasks").state is State.DISPATCHED
    assert cue.reclaim(reclaim_age_minutes=0.01).retried == 1
    assert cue.job("of-tasks").state is State.SCHEDULED


def test_a_lapse_that_moved_on_is_a_lost_race(cue: HandDriven, store: MeddledStore) -> None:
    [claim] = stuck(cue)

    def finish() -> None:
        cue.complete(claim.id, cue.token(claim), "done")

    store.before_reclaim = finish
    report = reclaimed(cue)
    assert (report.scanned, report.reclaimed, report.lost_races) == (1, 0, 1)
    job = cue.job(claim.id)
    assert (job.state, job.result) == (State.SUCCEEDED, "done")
    assert cue.history(claim.id).diagnostics == ()
