"""Working by hand: claims, and reports that carry the claim's token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import (
    Claimed,
    Conflict,
    Fenced,
    IllegalState,
    InvalidInput,
    NotFound,
    Scheduler,
    State,
)
from oncue.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    url = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with Scheduler(url, clock=clock) as cue:
        yield cue


def take(cue: Scheduler, **fields: Any) -> tuple[Claimed, str]:
    cue.schedule(queue="q", **fields)
    [claimed] = cue.claim("q", "ada")
    return claimed, cue.token(claimed)


def reclaim(cue: Scheduler, clock: FakeClock, seconds: float = 60) -> None:
    clock.advance(seconds)
    cue.engine.reclaimer.step()


class TestClaiming:
    def test_a_claim_takes_due_jobs_and_counts_the_attempt(self, cue: Scheduler) -> None:
        cue.schedule(1, queue="q", owner="ada", key="k", priority=2)
        cue.schedule(2, queue="q", delay=5)
        [claimed] = cue.claim("q", "ada", limit=10)
        assert (claimed.payload, claimed.owner, claimed.key) == (b"1", "ada", "k")
        assert (claimed.attempt, claimed.epoch, claimed.operations) == (1, 1, ())
        assert claimed.lease_until == cue.clock.now() + 60_000
        assert cue.job(claimed.id).worker == "ada"

    def test_queues_are_gone_through_in_the_order_given(self, cue: Scheduler) -> None:
        for queue in ("a", "b", "c"):
            cue.schedule(queue=queue)
        taken = cue.claim(["c", "a"], "ada", limit=5)
        assert [claimed.queue for claimed in taken] == ["c", "a"]

    def test_a_lease_of_ones_own_replaces_that_of_the_queue(self, cue: Scheduler) -> None:
        cue.schedule(queue="q")
        [claimed] = cue.claim("q", "ada", lease_seconds=5)
        assert claimed.lease_until == cue.clock.now() + 5000

    @pytest.mark.parametrize(
        ("wrong", "pointer"),
        [
            *(({"limit": one}, "/limit") for one in (0, -1, True, 1.0, "1", 10**9)),
            *(({"worker": one}, "/worker") for one in ("", None, 5, "\ud800", "a\0", "x" * 201)),
            *(({"lease_seconds": one}, "/lease_seconds") for one in (0, -1, 1e12, float("nan"))),
            *(({"queues": one}, "/queue") for one in ("a b", ["\ud800"], [5])),
        ],
    )
    def test_a_claim_that_makes_no_sense_is_refused(
        self, cue: Scheduler, wrong: dict[str, Any], pointer: str
    ) -> None:
        with pytest.raises(InvalidInput) as caught:
            cue.claim(**{"queues": "q", "worker": "ada", **wrong})
        assert caught.value.pointer == pointer


class TestSignsOfLife:
    def test_start_and_heartbeats_show_the_job_as_executing(
        self, cue: Scheduler, clock: FakeClock
    ) -> None:
        claimed, token = take(cue)
        cue.start(claimed.id, token)
        assert cue.job(claimed.id).state is State.EXECUTING
        clock.advance(10)
        told = cue.heartbeat(claimed.id, token, message="half way", percent=50)
        assert told.lease_until == clock.now() + 60_000
        job = cue.job(claimed.id)
        assert (job.message, job.percent) == ("half way", 50)

    def test_a_heartbeat_renews_the_lease_by_as_much_as_it_says(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        told = cue.heartbeat(claimed.id, token, lease_seconds=300)
        assert told.lease_until == cue.clock.now() + 300_000

    @pytest.mark.parametrize(
        ("wrong", "pointer"),
        [
            ({"percent": float("nan")}, "/percent"),
            ({"percent": "50"}, "/percent"),
            ({"percent": 101}, "/percent"),
            ({"message": 5}, "/message"),
            ({"message": "\ud800"}, "/message"),
            ({"message": "x" * 2001}, "/message"),
            ({"lease_seconds": -1}, "/lease_seconds"),
            ({"lease_seconds": float("inf")}, "/lease_seconds"),
        ],
    )
    def test_nonsense_is_refused_and_the_claim_goes_on(
        self, cue: Scheduler, wrong: dict[str, Any], pointer: str
    ) -> None:
        claimed, token = take(cue)
        with pytest.raises(InvalidInput) as caught:
            cue.heartbeat(claimed.id, token, **wrong)
        assert caught.value.pointer == pointer
        cue.complete(claimed.id, token)

    def test_an_operations_result_is_written_once(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.operation(claimed.id, token, "encode", "executing", percent=40, message="pass 1")
        done = cue.operation(claimed.id, token, "encode", "succeeded", result={"size": 7})
        assert (done.state, done.result, done.percent) == ("succeeded", b'{"size":7}', 40)
        assert cue.operation(claimed.id, token, "encode", "succeeded", result={"size": 7}) == done
        with pytest.raises(Conflict, match="has another result already; it is kept"):
            cue.operation(claimed.id, token, "encode", "succeeded", result={"size": 8})

    @pytest.mark.parametrize("state", ["executing", "failed"])
    def test_the_result_of_an_unfinished_operation_is_given_to_the_next_attempt(
        self, cue: Scheduler, state: str
    ) -> None:
        claimed, token = take(cue)
        cue.operation(claimed.id, token, "encode", "executing", result={"external_id": "a"})
        told = cue.operation(claimed.id, token, "encode", state, result={"external_id": "b"})
        assert told.result == b'{"external_id":"b"}'
        assert cue.operation(claimed.id, token, "encode", state, percent=40).result == told.result
        cue.release(claimed.id, token)
        [again] = cue.claim("q", "ada")
        assert [one.result for one in again.operations] == [b'{"external_id":"b"}']
        done = cue.operation(again.id, cue.token(again), "encode", "succeeded")
        assert done.result == b"null"

    def test_a_later_claim_is_given_the_operations(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.operation(claimed.id, token, "encode", "succeeded", result=1)
        cue.release(claimed.id, token)
        [again] = cue.claim("q", "ada")
        assert [(one.name, one.state, one.result) for one in again.operations] == [
            ("encode", "succeeded", b"1")
        ]

    @pytest.mark.parametrize(
        ("wrong", "pointer"),
        [
            ({"name": "a b"}, "/name"),
            ({"state": "done"}, "/state"),
            ({"state": "succeeded", "result": float("nan")}, "/result"),
            ({"state": "executing", "result": float("nan")}, "/result"),
            ({"percent": -1}, "/percent"),
            ({"message": "a\0"}, "/message"),
        ],
    )
    def test_an_operation_that_makes_no_sense_is_refused(
        self, cue: Scheduler, wrong: dict[str, Any], pointer: str
    ) -> None:
        claimed, token = take(cue)
        told = {"name": "encode", "state": "executing", **wrong}
        with pytest.raises(InvalidInput) as caught:
            cue.operation(claimed.id, token, **told)
        assert caught.value.pointer == pointer


class TestEndings:
    def test_a_completed_job_has_succeeded_with_its_result(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.complete(claimed.id, token, {"ok": True})
        job = cue.job(claimed.id)
        assert (job.state, job.result, job.finished_at) == (
            State.SUCCEEDED,
            {"ok": True},
            job.due_at,
        )
        cue.complete(claimed.id, token, {"ok": True})  # the very same again is no trouble

    def test_a_failed_attempt_is_due_again_after_its_back_off(
        self, cue: Scheduler, clock: FakeClock
    ) -> None:
        claimed, token = take(cue)
        cue.fail(claimed.id, token, "boom")
        job = cue.job(claimed.id)
        assert (job.state, job.error, job.attempt) == (State.SCHEDULED, "boom", 1)
        pause = job.due_at - job.created_at
        assert timedelta(seconds=0.5) <= pause <= timedelta(seconds=1)

    def test_the_worker_may_say_when_to_try_again(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.fail(claimed.id, token, "busy", retry_after="PT10M")
        job = cue.job(claimed.id)
        assert job.due_at - job.created_at == timedelta(minutes=10)

    def test_the_last_attempt_fails_for_good(self, cue: Scheduler) -> None:
        claimed, token = take(cue, max_attempts=1)
        cue.fail(claimed.id, token, "boom")
        assert cue.job(claimed.id).state is State.FAILED
        [diagnostic] = cue.history(claimed.id).diagnostics
        assert (diagnostic.code, diagnostic.attempt) == ("failure", 1)
        assert "no attempt is left" in diagnostic.detail

    def test_a_failure_that_is_not_retryable_fails_at_once(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.fail(claimed.id, token, "no such address", retryable=False)
        job = cue.job(claimed.id)
        assert (job.state, job.error) == (State.FAILED, "no such address")

    def test_an_error_that_no_store_can_keep_is_kept_legibly(self, cue: Scheduler) -> None:
        claimed, token = take(cue, max_attempts=1)
        cue.fail(claimed.id, token, "bad \ud800 and \0" + "x" * 5000)
        error = cue.job(claimed.id).error
        assert error is not None
        assert error.startswith("bad \\ud800 and \\0x")
        assert len(error) == 2000

    @pytest.mark.parametrize("pause", [-1, "soon", 1e12, 1e307, float("nan"), True])
    def test_a_pause_that_makes_no_sense_is_refused(self, cue: Scheduler, pause: Any) -> None:
        claimed, token = take(cue)
        with pytest.raises(InvalidInput, match="^/retry_after: "):
            cue.fail(claimed.id, token, "boom", retry_after=pause)
        assert cue.job(claimed.id).state is State.DISPATCHED

    def test_a_released_job_waits_as_before_and_has_used_no_attempt(self, cue: Scheduler) -> None:
        claimed, token = take(cue, max_attempts=1)
        cue.release(claimed.id, token)
        job = cue.job(claimed.id)
        assert (job.state, job.attempt, job.due_at) == (State.SCHEDULED, 0, job.created_at)
        [again] = cue.claim("q", "ada")
        assert (again.attempt, again.epoch) == (1, 2)

    def test_what_was_asked_to_end_ends_cancelled_when_it_fails_or_is_released(
        self, cue: Scheduler
    ) -> None:
        claimed, token = take(cue)
        cue.cancel(claimed.id, running=True)
        cue.fail(claimed.id, token, "boom")
        assert cue.job(claimed.id).state is State.CANCELLED
        claimed, token = take(cue)
        cue.cancel(claimed.id, running=True)
        cue.release(claimed.id, token)
        assert cue.job(claimed.id).state is State.CANCELLED

    def test_what_is_done_before_the_request_is_noticed_has_succeeded(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.cancel(claimed.id, running=True)
        cue.complete(claimed.id, token)
        assert cue.job(claimed.id).state is State.SUCCEEDED

    def test_a_queue_that_keeps_no_history_forgets_at_once(self, cue: Scheduler) -> None:
        cue.set_queue("q", retention_seconds=0)
        claimed, token = take(cue)
        cue.complete(claimed.id, token)
        with pytest.raises(NotFound):
            cue.job(claimed.id)


Report = Callable[[Scheduler, str, str], object]
REPORTS: dict[str, Report] = {
    "start": lambda cue, job_id, token: cue.start(job_id, token),
    "heartbeat": lambda cue, job_id, token: cue.heartbeat(job_id, token),
    "operation": lambda cue, job_id, token: cue.operation(job_id, token, "x", "executing"),
    "complete": lambda cue, job_id, token: cue.complete(job_id, token, 5),
    "fail": lambda cue, job_id, token: cue.fail(job_id, token, "late"),
    "release": lambda cue, job_id, token: cue.release(job_id, token),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
class TestFencing:
    def test_a_zombie_is_told_and_changes_nothing(
        self, cue: Scheduler, clock: FakeClock, report: Report
    ) -> None:
        claimed, token = take(cue)
        reclaim(cue, clock)
        [again] = cue.claim("q", "bob")
        before = cue.job(claimed.id)
        with pytest.raises(Fenced, match="no longer belongs to this claim") as caught:
            report(cue, claimed.id, token)
        fenced = caught.value
        assert (fenced.job_id, fenced.reason, fenced.state) == (again.id, "reclaimed", before.state)
        assert fenced.diagnostic is not None
        assert fenced.diagnostic.code == "timeout_dispatched"
        assert cue.job(claimed.id) == before
        cue.complete(again.id, cue.token(again))

    def test_a_token_of_another_job_opens_nothing(
        self, cue: Scheduler, clock: FakeClock, report: Report
    ) -> None:
        claimed, _ = take(cue)
        _, other = take(cue)
        for wrong in (other, "", "1.1.abc", "1.1.\ud800", None, b"1.1.a"):
            with pytest.raises(InvalidInput, match="^/token: "):
                report(cue, claimed.id, wrong)  # type: ignore[arg-type]
        assert cue.job(claimed.id).state is State.DISPATCHED

    def test_a_job_that_is_gone_is_not_found(
        self, cue: Scheduler, clock: FakeClock, report: Report
    ) -> None:
        cue.set_queue("q", retention_seconds=0)
        claimed, token = take(cue)
        cue.complete(claimed.id, token)
        with pytest.raises(NotFound):
            report(cue, claimed.id, token)


class TestByHand:
    def test_success_is_recorded_on_somebodys_word(self, cue: Scheduler) -> None:
        claimed, token = take(cue)
        cue.complete_by_hand(claimed.id, {"seen": True})
        job = cue.job(claimed.id)
        assert (job.state, job.result) == (State.SUCCEEDED, {"seen": True})
        with pytest.raises(Fenced):
            cue.fail(claimed.id, token, "late")

    def test_what_nobody_has_taken_cannot_be_complete(self, cue: Scheduler) -> None:
        job = cue.schedule({}, queue="q", delay=60)
        with pytest.raises(IllegalState, match="no worker has taken it"):
            cue.complete_by_hand(job.id)
        assert cue.job(job.id).state is State.SCHEDULED

    def test_a_job_that_does_not_exist_is_not_found(self, cue: Scheduler) -> None:
        with pytest.raises(NotFound):
            cue.complete_by_hand("nobody")
