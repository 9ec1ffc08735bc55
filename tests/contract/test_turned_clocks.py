"""Leases while the wall clock is turned, while no engine runs, and after a reboot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from oncue.clock import FakeClock
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.missed import Look, Missed, moved_lease, moved_stamp, moved_timeout
from oncue.core.queue import Queue, RetryPolicy
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.sink import Refusal
from oncue.ports.store import Store
from oncue.usecases.queues import put_queue
from tests.stores.wrapped import Call, WrappedStore

from .desk import DELIVERY, LEASE, Desk, Q, at, claim_due
from .promises import By, Listening

T = TypeVar("T")
HOUR = 3600
TIMED = Queue("timed", timeout_seconds=1800)


@pytest.fixture
def start(clock: FakeClock) -> Callable[[Store], Reclaimer]:
    """Starts a reclaimer on a store, as an engine does."""

    def start_one(store: Store) -> Reclaimer:
        return Reclaimer(Node.of(store, clock))

    return start_one


Start = Callable[[Store], Reclaimer]


def live_through(
    desk: Desk,
    seconds: float,
    *reclaimers: Reclaimer,
    step: float = 2.0,
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Let time pass while the reclaimers make their steps."""
    for _ in range(round(seconds / step)):
        desk.clock.advance(step)
        for reclaimer in reclaimers:
            reclaimer.step()
        meanwhile()


def turn(desk: Desk, seconds: float) -> None:
    desk.clock.set(desk.now + round(seconds * 1000))


def test_a_silent_claim_lapses_one_lease_after_the_clock_was_set_back(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, -HOUR)
    live_through(desk, LEASE, reclaimer)
    assert desk.state("a") is State.DISPATCHED
    live_through(desk, 2, reclaimer)
    assert desk.state("a") is State.SCHEDULED
    [diagnostic] = desk.diagnostics("a")
    assert diagnostic.detail == "Nothing was heard from the worker for 60 s. Due again at once."
    assert diagnostic.facts["threshold_seconds"] == 60


def test_a_claim_from_before_the_clock_was_set_back_is_found_by_the_next_engine(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    turn(desk, -HOUR)
    reclaimer = start(desk.store)
    reclaimer.step()
    assert desk.job("a").lease_until == at(desk.now + round(LEASE * 1000))
    live_through(desk, LEASE, reclaimer)
    assert desk.state("a") is State.SCHEDULED


@pytest.mark.one_shard
def test_an_open_range_of_a_dead_dispatcher_ends_one_lease_after_the_clock_was_set_back(
    desk: Desk, start: Start
) -> None:
    desk.add("a", queue="d")
    assert desk.claim_range().jobs
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, -HOUR)
    listening = Listening(desk.store)
    reclaimer.step()
    until = desk.now + round(LEASE * 1000)
    assert listening.has_heard_of("d", until)
    late = desk.add("late", queue="d", due_in=-HOUR)
    assert desk.store.next_due(["d"]) == By(until)
    live_through(desk, LEASE - 2, reclaimer)
    assert desk.claim_range(dispatcher="dan").busy_until == until
    live_through(desk, 2, reclaimer)
    assert [job.id for job in desk.claim_range(dispatcher="dan").jobs] == [late]


def test_heartbeating_claims_survive_a_clock_that_is_set_forward(desk: Desk, start: Start) -> None:
    timed, long = desk.take("timed", queue=TIMED), desk.take("long", queue=Queue("long"))
    desk.touch(long, lease_seconds=1800)
    reclaimer = start(desk.store)
    reclaimer.step()
    live_through(desk, 10, reclaimer)
    turn(desk, HOUR)
    passed = 0

    def beat() -> None:
        nonlocal passed
        passed += 20
        desk.touch(timed, lease_seconds=60)
        if passed % 600 == 0:
            desk.touch(long, lease_seconds=1800)

    live_through(desk, 1780, reclaimer, step=20, meanwhile=beat)
    assert {desk.state("timed"), desk.state("long")} == {State.EXECUTING}
    live_through(desk, 10, reclaimer)
    assert desk.state("timed") is State.SCHEDULED, "its timeout is over, in time that passed"
    assert desk.state("long") is State.EXECUTING


def test_a_silent_claim_lapses_in_time_after_the_clock_was_set_forward(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    reclaimer = start(desk.store)
    live_through(desk, 10, reclaimer)
    turn(desk, HOUR)
    live_through(desk, 48, reclaimer)
    assert desk.state("a") is State.DISPATCHED
    live_through(desk, 2, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_a_step_reported_right_after_the_clock_was_set_forward_does_not_end_the_claim(
    desk: Desk, start: Start
) -> None:
    claimed = desk.take("a")
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, HOUR)
    desk.put_operation(claimed, "download")  # heard by the new clock, its lease is by the old one
    reclaimer.step()
    assert desk.state("a") is State.EXECUTING
    live_through(desk, LEASE, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_a_claim_made_right_after_the_clock_was_set_forward_is_not_extended(
    desk: Desk, start: Start
) -> None:
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, HOUR)
    desk.take("a", queue=TIMED)
    desk.clock.advance(2)
    reclaimer.step()
    live_through(desk, LEASE, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_two_engines_that_notice_the_same_jump_move_leases_once(
    desk: Desk, twin: Store, start: Start
) -> None:
    """A timeout shows it: it is not bounded by one lease from now."""
    claimed = desk.take("a", queue=TIMED)
    one, other = start(desk.store), start(twin)
    beat = partial(desk.touch, claimed, lease_seconds=60)
    live_through(desk, 1200, one, other, step=30, meanwhile=beat)
    turn(desk, 300)
    live_through(desk, 570, one, other, step=30, meanwhile=beat)
    live_through(desk, 20, one, other, step=10, meanwhile=beat)
    assert desk.state("a") is State.EXECUTING
    live_through(desk, 20, one, other, step=10)
    assert desk.state("a") is State.SCHEDULED


def test_an_engine_that_starts_after_an_outage_extends_leases_and_then_reclaims_the_dead(
    desk: Desk, start: Start
) -> None:
    desk.take("dead")
    alive = desk.take("alive")
    live_through(desk, 20, start(desk.store))
    desk.clock.advance(600)
    reclaimer = start(desk.store)
    reclaimer.step()
    assert desk.state("dead") is State.DISPATCHED
    desk.touch(alive, lease_seconds=LEASE)
    live_through(desk, 38, reclaimer)
    assert desk.state("dead") is State.DISPATCHED, "it had 40 s left when the engine stopped"
    live_through(desk, 2, reclaimer)
    assert (desk.state("dead"), desk.state("alive")) == (State.SCHEDULED, State.EXECUTING)


def test_an_engine_that_stood_still_extends_leases_and_then_reclaims_the_dead(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    reclaimer = start(desk.store)
    live_through(desk, 20, reclaimer)
    desk.clock.advance(600)
    reclaimer.overslept()
    live_through(desk, 40, reclaimer)
    assert desk.state("a") is State.DISPATCHED, "it had 40 s left when the engine was stopped"
    live_through(desk, 2, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_an_engine_that_stood_still_inside_a_step_extends_leases(desk: Desk, start: Start) -> None:
    desk.take("a")
    stalling = Stalling(desk.store, lambda: None)
    reclaimer = start(stalling)
    live_through(desk, 20, reclaimer)
    stalling.meanwhile = lambda: desk.clock.advance(600)
    reclaimer.step()
    stalling.meanwhile = lambda: None
    live_through(desk, 38, reclaimer)
    assert desk.state("a") is State.DISPATCHED
    live_through(desk, 2, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_an_engine_that_stood_still_while_another_one_ran_extends_nothing(
    desk: Desk, twin: Store, start: Start
) -> None:
    desk.take("a")
    running, stopped = start(desk.store), start(twin)
    live_through(desk, 20, running, stopped)
    live_through(desk, 38, running)
    stopped.overslept()
    live_through(desk, 2, running, stopped)
    assert desk.state("a") is State.SCHEDULED


def test_extended_leases_are_told_only_if_there_are_any(
    desk: Desk, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    ended = desk.take("ended")
    live_through(desk, 20, start(desk.store))
    desk.settle(ended, Verb.COMPLETE)
    desk.clock.advance(600)
    start(desk.store).step()
    assert "leases extended" not in caplog.text
    desk.take("alive")
    live_through(desk, 20, start(desk.store))
    desk.clock.advance(600)
    start(desk.store).step()
    assert "leases extended" in caplog.text


def test_after_a_reboot_leases_are_extended_by_the_time_the_wall_clock_tells(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    live_through(desk, 20, start(desk.store))
    desk.clock.advance(600)
    desk.clock.reboot()
    reclaimer = start(desk.store)
    reclaimer.step()
    live_through(desk, 38, reclaimer)
    assert desk.state("a") is State.DISPATCHED
    live_through(desk, 2, reclaimer)
    assert desk.state("a") is State.SCHEDULED


def test_an_outage_does_not_extend_the_range_of_a_dispatcher_that_is_gone(
    desk: Desk, start: Start
) -> None:
    desk.add("a", queue="d")
    desk.claim_range()
    live_through(desk, 20, start(desk.store))
    desk.clock.advance(600)
    start(desk.store).step()
    assert desk.claim_range(dispatcher="dan").jobs


def test_leases_that_were_extended_to_their_length_are_not_extended_beyond(
    desk: Desk, start: Start
) -> None:
    desk.take("a")
    live_through(desk, 2, start(desk.store))
    desk.clock.advance(30 * 86_400)
    start(desk.store).step()
    lease_until = desk.job("a").lease_until
    assert lease_until is not None
    assert lease_until <= at(desk.now + round(LEASE * 1000))


def test_a_look_is_recorded_only_while_a_lease_is_running(desk: Desk, start: Start) -> None:
    reclaimer = start(desk.store)
    reclaimer.step()
    first = desk.store.leases()
    assert not first.running
    live_through(desk, 20, reclaimer)
    assert desk.store.leases().last_look == first.last_look
    desk.take("a")
    live_through(desk, 2, reclaimer)
    running = desk.store.leases()
    assert running.running
    assert running.last_look == Look("0", 22_000, desk.now)
    desk.clock.advance(1)
    reclaimer.step()
    assert desk.store.leases().last_look == running.last_look, "a second later it is recent enough"


def test_handed_over_work_without_lease_and_timeout_is_not_running(desk: Desk) -> None:
    claimed = desk.take("a")
    assert desk.store.leases().running
    assert desk.hand_over(claimed) is None
    assert not desk.store.leases().running


def test_an_open_range_is_running_until_it_is_settled(desk: Desk) -> None:
    desk.add("a", queue="d")
    claim = desk.claim_range()
    assert desk.store.leases().running
    assert desk.settle_range(claim)
    assert not desk.store.leases().running


def test_a_judge_is_told_the_recorded_look_and_may_leave_everything_as_it_is(desk: Desk) -> None:
    desk.take("a", queue=TIMED)
    first, before = Look("0", 1, desk.now), desk.job("a")
    told: list[Look | None] = []

    def nothing(recorded: Look | None) -> None:
        told.append(recorded)

    assert desk.store.judge_leases(lambda recorded: (first, None)) is None
    assert desk.store.judge_leases(nothing) is None
    assert told == [first]
    assert desk.store.leases().last_look == first
    assert desk.job("a") == before


class Stalling(WrappedStore):
    """Seen by an engine that is stopped for a while at the beginning of a step."""

    def __init__(self, store: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(store)
        self.meanwhile = meanwhile

    def during(self, call: Call, go: Callable[[], T]) -> T:
        answer = go()
        if call.method == "expire":
            self.meanwhile()
        return answer


@pytest.mark.parametrize("turned", [0, HOUR, -HOUR])
@pytest.mark.parametrize("starting", [True, False])
def test_an_engine_that_stalls_in_a_step_leaves_healthy_claims_as_they_are(
    desk: Desk, twin: Store, start: Start, turned: float, starting: bool
) -> None:
    claimed = desk.take("a", queue=TIMED)
    running = start(desk.store)
    running.step()

    def beat() -> None:
        assert isinstance(desk.touch(claimed, lease_seconds=6), Touched)

    def meanwhile() -> None:
        turn(desk, turned)
        live_through(desk, 8, running, step=1, meanwhile=beat)

    stalling = Stalling(twin, lambda: None)
    stalled = start(stalling)
    if not starting:
        stalled.step()
    beat()
    stalling.meanwhile = meanwhile
    stalled.step()
    claim = desk.claim_on("a")
    assert claim is not None
    assert (claim.lease_until, claim.updated_at) == (desk.now + 6000, desk.now)


def test_what_a_call_wrote_that_had_read_the_clock_before_it_was_set_back_ends_in_time(
    desk: Desk, start: Start
) -> None:
    reclaimer = start(desk.store)
    reclaimer.step()
    for queue in ("d", "q"):
        desk.add(f"of-{queue}", queue=queue, due_in=-2 * HOUR)
    in_flight = desk.now
    turn(desk, -HOUR)
    reclaimer.step()
    assert not desk.store.has_leases_astray(desk.now)
    assert claim_due(desk.store, [Q], "dead", 1, in_flight, lease_seconds=LEASE)
    assert desk.store.has_leases_astray(desk.now)
    assert desk.store.claim_range(DELIVERY, "dead", 1, in_flight, lease_seconds=LEASE).jobs
    live_through(desk, 20, reclaimer)
    assert not desk.store.has_leases_astray(desk.now)
    live_through(desk, LEASE, reclaimer)
    assert desk.claimed_ids(Q) == ["of-q"]
    assert [job.id for job in desk.claim_range(dispatcher="dan").jobs] == ["of-d"]


def test_an_open_range_alone_is_found_astray(desk: Desk) -> None:
    desk.add("a", queue="d", due_in=-2 * HOUR)
    assert desk.claim_range().jobs
    assert not desk.store.has_leases_astray(desk.now - 1000)
    assert desk.store.has_leases_astray(desk.now - 1001)


def test_a_renewal_that_had_read_the_clock_before_it_was_set_forward_ends_nothing(
    desk: Desk, start: Start
) -> None:
    claimed = desk.take("a")
    desk.add("b", queue="d")
    claim = desk.claim_range()
    reclaimer = start(desk.store)
    reclaimer.step()
    desk.clock.advance(1)
    in_flight = desk.now
    turn(desk, HOUR)
    reclaimer.step()
    for seconds in (LEASE, LEASE / 2):
        touch = Touch("a", claimed.epoch, seconds)
        assert isinstance(desk.store.touch([touch], in_flight)[0], Touched)
    assert desk.store.extend_range(claim, in_flight + round(LEASE * 1000))
    live_through(desk, LEASE / 2 - 2, reclaimer)
    assert desk.state("a") is State.EXECUTING
    assert not desk.claim_range(dispatcher="dan").jobs
    live_through(desk, LEASE, reclaimer)
    assert desk.state("a") is State.SCHEDULED


@pytest.mark.parametrize("turned", [-HOUR, -30, 0, 5, HOUR])
@pytest.mark.parametrize("missed_ms", [0, 20_000, HOUR * 1000])
def test_every_moment_of_a_claim_moves_as_core_says(
    desk: Desk, turned: float, missed_ms: int
) -> None:
    claimed = desk.take("a", queue=TIMED)
    desk.clock.advance(10)
    desk.touch(claimed, lease_seconds=90)
    desk.clock.advance(5)
    turn(desk, turned)
    before = desk.claim_on("a")
    assert before is not None
    assert before.lease_until is not None
    assert before.overlong_at is not None
    judged = Look("0", 0, desk.now), Missed(missed_ms, 0)
    assert desk.store.judge_leases(lambda recorded: judged) == judged[1]
    now = desk.now
    assert desk.claim_on("a") == before._replace(
        lease_until=moved_lease(before.lease_until, 90_000, missed_ms, now),
        overlong_at=moved_timeout(before.overlong_at, before.claimed_at, missed_ms, now),
        claimed_at=moved_stamp(before.claimed_at, now),
        updated_at=moved_stamp(before.updated_at, now),
    )
    assert desk.attempts("a")[-1].claimed_at == at(moved_stamp(before.claimed_at, now))


def test_a_job_that_was_put_off_waits_no_longer_than_its_policy_after_the_clock_was_set_back(
    desk: Desk, start: Start
) -> None:
    queue = Queue("d", sink="log:", retry=RetryPolicy(initial_seconds=20, max_seconds=30))
    put_queue(desk.store, queue)
    desk.add("a", queue="d", due_in=-2 * HOUR)
    reclaimer = start(desk.store)
    reclaimer.step()
    claim = desk.store.claim_range(queue, "dan", 1, desk.now, lease_seconds=LEASE)
    assert desk.store.settle_range(claim, [], {"a": Refusal("busy", False)}, desk.now)
    before = desk.job("a")
    turn(desk, -9)
    reclaimer.step()
    assert desk.job("a") == before, "its policy may let it wait as long"
    listening = Listening(desk.store)
    turn(desk, -HOUR)
    reclaimer.step()
    until = desk.now + 30_000
    assert desk.job("a") == before._replace(not_before=at(until))
    assert listening.has_heard_of("d", until)
    assert desk.store.next_due(["d"]) == By(until)
    live_through(desk, 30, reclaimer)
    assert [job.id for job in desk.claim_range(queue=queue).jobs] == ["a"]


def test_due_times_stay_when_the_clock_is_set_back_also_that_of_a_retry(
    desk: Desk, start: Start
) -> None:
    engine = start(desk.store)
    desk.retry(desk.take("retried"), due_at=desk.now + 1_000)
    desk.add("later", due_in=1, expires_at=desk.now + 5_000)
    before = [desk.job("retried"), desk.job("later")]
    engine.step()
    turn(desk, -HOUR)
    engine.step()
    assert [desk.job("retried"), desk.job("later")] == before
    assert desk.store.next_due(["q"]) == By(desk.now + HOUR * 1000 + 1_000)


def test_a_rate_begins_again_when_the_clock_was_set_back(desk: Desk, start: Start) -> None:
    limited = Queue("slow", rate_per_second=1)
    put_queue(desk.store, limited)
    desk.add_many(2, queue="slow", due_in=-2 * HOUR)
    assert len(desk.claim(limited)) == 1
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, -HOUR)
    reclaimer.step()
    assert desk.store.next_due(["slow"]) == By(desk.now + 1000)


def test_jobs_are_never_handed_over_early_whichever_way_the_clock_is_turned(
    desk: Desk, start: Start
) -> None:
    desk.add("a", due_in=10)
    reclaimer = start(desk.store)
    reclaimer.step()
    turn(desk, -HOUR)
    live_through(desk, 20, reclaimer)
    assert desk.claim(Q) == []
    turn(desk, HOUR)
    reclaimer.step()
    assert desk.claimed_ids(Q) == ["a"]
