"""Heartbeats, looked at by hand from inside a handler that takes its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncue import ClaimLost, HandledJob, Scheduler, State
from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.ports.store import Store
from oncue.worker.worker import Worker
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan
from tests.stores.kinds import KINDS, store_maker


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Store]:
    store = store_maker(request.param, tmp_path)(clock)
    yield store
    store.close()


class Slow:
    """A worker whose handler takes its time. Quick jobs first, so that it takes several at once."""

    def __init__(self, store: Store, clock: FakeClock, lease_seconds: float = 60) -> None:
        self.clock = clock
        self.cue = Scheduler(store, clock=clock)
        self.cue.set_queue("q", lease_seconds=lease_seconds)
        self.done: list[object] = []
        self.during: Callable[[HandledJob], None] = lambda job: None
        self.cue.handler("q")(self.handle)
        self.worker = Worker(self.cue, name="wanda")

    def handle(self, job: HandledJob) -> None:
        if job.payload == "slow":
            self.during(job)
        self.done.append(job.payload)

    def look(self, seconds: float = 0.0) -> float:
        """Let time pass, then let the heartbeats look at it."""
        self.clock.advance(seconds)
        return self.worker._heartbeats.step()

    def warm_up(self) -> None:
        self.cue.schedule_many(({"payload": "warm"} for _ in range(5)), queue="q")
        while self.worker.step():
            pass
        self.done.clear()

    def run(self, *payloads: object) -> list[str]:
        """Have one batch of these jobs done."""
        ids = self.cue.schedule_many(({"payload": p} for p in payloads), queue="q").ids
        assert self.worker.step()
        return ids

    def states(self, ids: list[str]) -> list[State]:
        return [self.cue.job(one).state for one in ids]


@pytest.fixture
def slow(store: Store, clock: FakeClock) -> Slow:
    return Slow(store, clock)


def test_what_runs_for_a_second_shows_as_executing(slow: Slow) -> None:
    seen: list[State] = []

    def during(job: HandledJob) -> None:
        for _ in range(2):
            slow.look(0.5)
            seen.append(slow.cue.job(job.id).state)

    slow.during = during
    slow.run("slow")
    assert seen == [State.DISPATCHED, State.EXECUTING]


def test_the_first_heartbeat_comes_after_a_second_and_not_at_the_look_after_it(slow: Slow) -> None:
    seen: list[State] = []

    def during(job: HandledJob) -> None:
        slow.look(slow.look(0.8))
        seen.append(slow.cue.job(job.id).state)

    slow.during = during
    began = slow.clock.monotonic()
    slow.run("slow")
    assert seen == [State.EXECUTING]
    assert slow.clock.monotonic() - began == pytest.approx(1.0)


def test_a_long_job_keeps_its_lease_by_a_heartbeat_every_third(slow: Slow) -> None:
    renewed: list[float] = []

    def during(job: HandledJob) -> None:
        for _ in range(200):
            slow.look(1)
            until = slow.cue.job(job.id).lease_until
            assert until is not None
            renewed.append(until.timestamp())
            slow.cue.engine.reclaimer.step()

    slow.during = during
    [job] = slow.run("slow")
    assert slow.states([job]) == [State.SUCCEEDED]
    assert slow.cue.job(job).attempt == 1
    assert 9 <= len(set(renewed)) <= 12


def test_a_short_lease_is_looked_at_more_often(store: Store, clock: FakeClock) -> None:
    slow = Slow(store, clock, lease_seconds=0.6)
    rests: list[float] = []
    slow.during = lambda job: rests.append(slow.look(0.2))
    slow.run("slow")
    assert rests == [pytest.approx(0.1)]


def test_what_waits_behind_a_slow_job_is_handed_back_unharmed(slow: Slow) -> None:
    slow.warm_up()
    shown: list[list[State]] = []
    ids: list[str] = []

    def during(job: HandledJob) -> None:
        slow.look(1)
        ids.extend(one.id for one in slow.cue.jobs(queue="q", state=State.SCHEDULED))
        shown.append(slow.states(ids))

    slow.during = during
    all_ids = slow.run("slow", 1, 2, 3)
    assert ids == all_ids[1:]
    assert [slow.cue.job(one).attempt for one in ids] == [0, 0, 0]
    assert slow.done == ["slow"]
    assert shown == [[State.SCHEDULED] * 3]
    assert [attempt.outcome for attempt in slow.cue.history(ids[0]).attempts] == ["released"]


def test_what_was_asked_to_end_while_it_waited_is_cancelled_at_once(slow: Slow) -> None:
    slow.warm_up()

    def during(job: HandledJob) -> None:
        for other in list(slow.cue.jobs(queue="q", state=State.DISPATCHED)):
            if other.id != job.id:
                slow.cue.cancel(other.id, running=True)
        slow.look(1)

    slow.during = during
    ids = slow.run("slow", 1, 2)
    assert slow.states(ids) == [State.SUCCEEDED, State.CANCELLED, State.CANCELLED]


def test_what_is_done_before_a_slow_job_is_settled_while_it_runs(slow: Slow) -> None:
    slow.warm_up()
    shown: list[State] = []

    def during(job: HandledJob) -> None:
        slow.look(1)
        shown.extend(one.state for one in slow.cue.jobs(queue="q") if one.payload == "quick")
        slow.look(600)  # far beyond the lease of the quick one

    slow.during = during
    ids = slow.run("quick", "slow")
    assert shown == [State.SUCCEEDED]
    assert slow.states(ids)[0] is State.SUCCEEDED
    assert slow.cue.history(ids[0]).diagnostics == ()


def test_a_heartbeat_brings_the_request_to_end(slow: Slow) -> None:
    def during(job: HandledJob) -> None:
        slow.cue.cancel(job.id, running=True)
        job.check()
        slow.look(1)
        job.check()

    slow.during = during
    ids = slow.run("slow")
    assert (slow.states(ids), slow.done) == ([State.CANCELLED], [])


def test_a_claim_that_was_taken_away_is_lost_and_its_result_not_used(slow: Slow) -> None:
    def during(job: HandledJob) -> None:
        slow.clock.advance(60)
        slow.cue.engine.reclaimer.step()
        slow.look()
        assert job.lost

    slow.during = during
    [job] = slow.run("slow")
    assert slow.states([job]) == [State.SCHEDULED]


def test_a_late_result_is_refused_even_if_nobody_noticed_the_loss(slow: Slow) -> None:
    slow.cue.set_queue("q", lease_seconds=60, timeout_seconds=30)

    def during(job: HandledJob) -> None:
        slow.clock.advance(30)
        slow.cue.engine.reclaimer.step()

    slow.during = during
    [job] = slow.run("slow")
    assert slow.states([job]) == [State.SCHEDULED]
    codes = [one.code for one in slow.cue.history(job).diagnostics]
    assert codes == ["timeout_dispatched", "fenced"]


class Troubled(Slow):
    """One whose store does not answer some of its calls."""

    def __init__(self, store: Store, clock: FakeClock, fault: Fault, **which: object) -> None:
        self.plan = Plan(1, {fault: 1.0}, **which)  # type: ignore[arg-type]
        super().__init__(FaultyStore(store, self.plan), clock)


def test_after_two_thirds_of_the_lease_without_an_answer_the_worker_stops_by_itself(
    store: Store, clock: FakeClock
) -> None:
    slow = Troubled(store, clock, Fault.FAIL, only={"touch"})
    lost: list[bool] = []

    def during(job: HandledJob) -> None:
        for seconds in (39, 0.9, 0.2):
            slow.look(seconds)
            lost.append(job.lost)
        slow.plan.heal()

    slow.during = during
    [job] = slow.run("slow")
    assert lost == [False, False, True]
    assert slow.states([job]) == [State.SUCCEEDED]  # nobody else had it: the store judges


def test_a_handler_that_stops_as_nothing_was_confirmed_uses_no_attempt(
    store: Store, clock: FakeClock
) -> None:
    slow = Troubled(store, clock, Fault.FAIL, only={"touch"})
    slow.cue.set_queue("q", lease_seconds=60, max_attempts=1)

    def during(job: HandledJob) -> None:
        if not slow.plan._healed:
            slow.look(45)
            slow.plan.heal()
            job.check()

    slow.during = during
    [job] = slow.run("slow")
    assert slow.states([job]) == [State.SCHEDULED]
    assert slow.worker.step()
    assert slow.states([job]) == [State.SUCCEEDED]


def test_an_answer_just_in_time_keeps_the_claim(store: Store, clock: FakeClock) -> None:
    slow = Troubled(store, clock, Fault.FAIL, only={"touch"}, first_n=20)

    def during(job: HandledJob) -> None:
        for _ in range(60):
            slow.look(1)
            assert not job.lost

    slow.during = during
    ids = slow.run("slow")
    assert slow.states(ids) == [State.SUCCEEDED]


def test_a_store_that_is_away_does_not_keep_the_worker_from_stopping_by_itself(
    store: Store, clock: FakeClock
) -> None:
    """Handing back what waits is tried again at the next look, never insisted on."""
    slow = Troubled(store, clock, Fault.FAIL, only={"touch", "settle"})
    slow.plan.heal()
    slow.warm_up()
    lost: list[bool] = []

    def during(job: HandledJob) -> None:
        slow.plan._healed = False
        for _ in range(45):
            slow.look(1)
        lost.append(job.lost)
        slow.plan.heal()

    slow.during = during
    ids = slow.run("slow", 1)
    assert (lost, slow.done) == ([True], ["slow"])
    assert slow.states(ids) == [State.SUCCEEDED, State.SCHEDULED]  # what had not begun is back


def test_what_could_not_be_handed_back_is_done_after_all(store: Store, clock: FakeClock) -> None:
    slow = Troubled(store, clock, Fault.FAIL, only={"settle"})
    slow.plan.heal()
    slow.warm_up()

    def during(job: HandledJob) -> None:
        slow.plan._healed = False
        for _ in range(5):
            slow.look(1)
        slow.plan.heal()

    slow.during = during
    ids = slow.run("slow", 1, 2)
    assert slow.done == ["slow", 1, 2]
    assert slow.states(ids) == [State.SUCCEEDED] * 3


def test_a_defect_while_handing_back_loses_neither_what_is_done_nor_what_waits(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def during(job: HandledJob) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(slow.worker._source, "settle", lambda queue, ends, brief: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                slow.look(1.0)

    slow.during = during
    slow.warm_up()
    ids = slow.run("before", "slow", "behind")
    assert slow.done == ["before", "slow", "behind"]
    assert slow.states(ids) == [State.SUCCEEDED] * 3


def test_no_heartbeat_follows_a_settlement(slow: Slow) -> None:
    """A job that is done is not written about any more, so nothing is refused."""
    slow.warm_up()

    def during(job: HandledJob) -> None:
        slow.look(1)

    slow.during = during
    ids = slow.run("slow", "slow")
    slow.look(30)
    for one in ids:
        assert slow.cue.history(one).diagnostics == ()


class Crowded(Slow):
    """Has several batches in hand at once: each handler begins the next one, then the last one
    looks around."""

    def __init__(self, store: Store, clock: FakeClock, lease_seconds: float = 60) -> None:
        super().__init__(store, clock, lease_seconds)
        self.jobs: list[HandledJob] = []
        self.at_the_end: Callable[[], None] = lambda: None
        self.during = self.begin

    def begin(self, job: HandledJob) -> None:
        self.jobs.append(job)
        if not self.worker.step():
            self.at_the_end()

    def run_all(self, number: int) -> list[str]:
        return self.run(*["slow"] * number)


def test_the_heartbeats_of_all_batches_are_one_call(store: Store, clock: FakeClock) -> None:
    plan = Plan(1, {})
    slow = Crowded(FaultyStore(store, plan), clock)
    shown: list[list[State]] = []

    def look() -> None:
        slow.look(1)
        shown.append(slow.states([job.id for job in slow.jobs]))

    slow.at_the_end = look
    slow.run_all(5)
    assert shown == [[State.EXECUTING] * 5]
    assert plan.calls["touch"] == 1


@pytest.mark.parametrize("number", [1, 8])
def test_a_worker_stops_by_itself_in_time_while_a_call_of_the_store_hangs(
    store: Store, clock: FakeClock, number: int
) -> None:
    """A locked file holds up every call for 10 s and then fails it. However many batches there are
    and however long that takes, each is lost 40 s after its last confirmed heartbeat."""
    plan = Plan(1, {Fault.DELAY: 1.0}, only={"touch", "settle", "interruptions"})
    seen: list[tuple[float, list[bool]]] = []

    def hang(seconds: float) -> None:
        for _ in range(round(seconds)):
            clock.advance(1)
            seen.append((clock.monotonic(), [job.lost for job in crowd.jobs]))
        raise StoreUnavailable("locked")

    crowd = Crowded(FaultyStore(store, plan, pause=hang, pause_seconds=10), clock)

    def wait() -> None:
        while clock.monotonic() < 60:
            crowd.look(1)
        plan.heal()

    crowd.at_the_end = wait
    ids = crowd.run_all(number)
    assert len(seen) > 20
    for at, lost in seen:
        assert lost == [at >= 40] * number
    assert crowd.states(ids) == [State.SUCCEEDED] * number  # nobody else had them


def test_a_heartbeat_that_is_answered_too_late_does_not_undo_the_loss(
    store: Store, clock: FakeClock
) -> None:
    plan = Plan(1, {Fault.DELAY: 1.0}, only={"touch"})

    lost: list[bool] = []

    def wait(seconds: float) -> None:
        clock.advance(seconds)
        lost.append(crowd.jobs[0].lost)

    def look() -> None:
        crowd.look(1)
        plan.heal()

    crowd = Crowded(FaultyStore(store, plan, pause=wait, pause_seconds=50), clock)
    crowd.at_the_end = look
    ids = crowd.run_all(1)
    assert lost == [True]
    assert crowd.jobs[0].lost
    assert crowd.states(ids) == [State.SUCCEEDED]  # nobody else had it


def test_a_cancel_by_another_process_is_learnt_within_a_second_between_heartbeats(
    slow: Slow,
) -> None:
    other = Scheduler(slow.cue.store, clock=slow.clock)
    told: list[str] = []

    def during(job: HandledJob) -> None:
        slow.look(1)  # the first heartbeat; the next one follows after 20 s
        slow.look(1)
        other.cancel(job.id, running=True)
        slow.look(0.9)
        try:
            job.check()
        except ClaimLost as stop:
            told.append(str(stop))
            raise

    slow.during = during
    [job] = slow.run("slow")
    assert told == [
        f"job {job}: a cancel was requested. The job ends cancelled as soon as its handler ends; "
        "stop now."
    ]
    assert slow.states([job]) == [State.CANCELLED]


def test_that_the_claim_was_taken_away_is_learnt_within_a_second(slow: Slow) -> None:
    told: list[str] = []

    def during(job: HandledJob) -> None:
        slow.look(1)
        slow.look(1)
        assert slow.cue.reclaim(reclaim_age_minutes=0.001).reclaimed == 1
        slow.look(0.9)
        try:
            job.check()
        except ClaimLost as lost:
            told.append(str(lost))

    slow.during = during
    [job] = slow.run("slow")
    assert told == [
        f"job {job}: the claim was lost (reclaimed). Another worker may have the job, and nothing "
        "more is accepted from this attempt; stop now."
    ]
    assert slow.states([job]) == [State.SCHEDULED]


def test_what_should_stop_is_asked_once_a_second_for_all_that_runs_and_else_not_at_all(
    store: Store, clock: FakeClock
) -> None:
    plan = Plan(1, {})
    slow = Crowded(FaultyStore(store, plan), clock)
    for _ in range(10):
        slow.look(1)
    assert plan.calls["interruptions"] == 0

    def look() -> None:
        for _ in range(100):
            slow.look(0.1)

    slow.at_the_end = look
    slow.run_all(5)
    assert 9 <= plan.calls["interruptions"] <= 12
    assert plan.calls["touch"] == 1


@pytest.mark.parametrize("of", ["job", "queue"])
def test_a_handler_learns_of_its_timeout_at_once_and_the_reclaimer_decides(
    slow: Slow, of: str
) -> None:
    slow.cue.set_queue("q", lease_seconds=60, timeout_seconds=30 if of == "queue" else None)
    told: list[str] = []

    def during(job: HandledJob) -> None:
        slow.look(29.9)
        job.check()
        slow.clock.advance(0.1)
        assert job.overlong
        try:
            job.check()
        except ClaimLost as stop:
            told.append(str(stop))
            raise

    slow.during = during
    timeout_seconds = 30 if of == "job" else None
    job = slow.cue.schedule("slow", queue="q", timeout_seconds=timeout_seconds).id
    assert slow.worker.step()
    assert told == [
        f"job {job}: the attempt has run for 30 s, its timeout_seconds. The job goes to another "
        "worker, or fails if this was its last attempt; stop now."
    ]
    assert slow.states([job]) == [State.EXECUTING]
    slow.cue.engine.reclaimer.step()
    assert [one.code for one in slow.cue.history(job).diagnostics] == ["timeout_executing"]
    assert slow.states([job]) == [State.SCHEDULED]


def test_a_result_that_comes_after_the_timeout_and_before_the_reclaimer_is_used(slow: Slow) -> None:
    slow.cue.set_queue("q", lease_seconds=60, timeout_seconds=30)

    def during(job: HandledJob) -> None:
        slow.look(31)

    slow.during = during
    ids = slow.run("slow")
    assert slow.states(ids) == [State.SUCCEEDED]


def test_without_a_timeout_a_handler_may_take_as_long_as_it_needs(slow: Slow) -> None:
    def during(job: HandledJob) -> None:
        for _ in range(1000):
            slow.look(10)
            job.check()

    slow.during = during
    ids = slow.run("slow")
    assert slow.states(ids) == [State.SUCCEEDED]


def test_progress_that_was_stored_keeps_the_claim_like_a_heartbeat(slow: Slow) -> None:
    def during(job: HandledJob) -> None:
        for percent in range(4):
            slow.clock.advance(30)
            job.progress(percent)
        assert not job.lost

    slow.during = during
    ids = slow.run("slow")
    assert slow.states(ids) == [State.SUCCEEDED]
