"""The faults: each does to a port exactly what it says, and is counted."""

from __future__ import annotations

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import SinkDown, StoreUnavailable
from oncue.core.fencing import Settlement
from oncue.core.job import Delivery, JobFilter, NewJob
from oncue.core.lifecycle import State, Verb
from oncue.core.queue import Queue
from oncue.core.retry import after_lapse
from oncue.ports.sink import Refusal
from oncue.sinks.memory import MemorySink
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from tests.contract.changing import CANCEL
from tests.contract.desk import claim_due, lapses_by
from tests.proof.faults import FaultySink, FaultyStore
from tests.proof.plan import Fault, Plan
from tests.proof.rivals import Rival

START = 1_800_000_000_000
WORK = Queue("work", lease_seconds=10)
OUT = Queue("out", sink="out", lease_seconds=10)


def a_store() -> tuple[MemoryStore, FakeClock]:
    clock = FakeClock(START)
    store = MemoryStore(clock)
    put_queue(store, WORK)
    put_queue(store, OUT)
    return store, clock


def a_job(job_id: str, queue: str = "work") -> NewJob:
    return NewJob(job_id, queue, START, b"{}", 0, START)


def always(fault: Fault, *methods: str, first_n: int | None = None) -> Plan:
    return Plan(1, {fault: 1.0}, only=methods or None, first_n=first_n)


def a_batch(size: int) -> list[Delivery]:
    return [Delivery(f"j{n}", START, b"{}", 1) for n in range(size)]


# The plan


def test_a_plan_without_rates_lets_everything_pass() -> None:
    plan = Plan(1, {})
    assert [plan.draw("get", set(Fault)) for _ in range(50)] == [None] * 50
    assert plan.fired.total() == 0
    assert plan.calls["get"] == 50


def test_the_same_seed_draws_the_same_faults() -> None:
    def draws(seed: int) -> list[Fault | None]:
        plan = Plan(seed, {Fault.FAIL: 0.3, Fault.DELAY: 0.3})
        return [plan.draw("get", set(Fault)) for _ in range(50)]

    assert draws(7) == draws(7)
    assert draws(7) != draws(8)
    assert {Fault.FAIL, Fault.DELAY, None} == set(draws(7))


def test_only_what_can_befall_a_call_is_drawn_and_counted() -> None:
    plan = always(Fault.STALE)
    assert plan.draw("insert", {Fault.FAIL}) is None
    assert plan.fired.total() == 0


def test_a_plan_keeps_to_its_methods_and_its_first_calls() -> None:
    plan = always(Fault.FAIL, "claim", first_n=2)
    possible = {Fault.FAIL}
    drawn = [plan.draw(method, possible) for method in ("get", "claim", "claim", "claim")]
    assert drawn == [None, Fault.FAIL, Fault.FAIL, None]
    assert plan.trace == [("claim", Fault.FAIL)] * 2


def test_a_plan_spares_the_methods_it_is_told_to() -> None:
    plan = Plan(1, {Fault.FAIL: 1.0}, sparing={"claim"})
    assert plan.draw("claim", {Fault.FAIL}) is None
    assert plan.draw("get", {Fault.FAIL}) is Fault.FAIL


def test_a_healed_plan_fires_no_more() -> None:
    plan = always(Fault.FAIL)
    plan.heal()
    assert plan.draw("get", {Fault.FAIL}) is None


def test_rates_that_add_up_to_more_than_one_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to more than 1"):
        Plan(1, {Fault.FAIL: 0.6, Fault.DELAY: 0.6})


# The store


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.THROTTLE])
def test_a_write_that_fails_before_does_nothing(fault: Fault) -> None:
    store, _ = a_store()
    plan = always(fault)
    with pytest.raises(StoreUnavailable, match="insert"):
        FaultyStore(store, plan).insert([a_job("a")], START)
    assert store.get("a") is None
    assert plan.fired == {fault: 1}


def test_a_write_that_times_out_was_done() -> None:
    store, _ = a_store()
    faulty = FaultyStore(store, always(Fault.TIMEOUT))
    with pytest.raises(StoreUnavailable, match="succeeds, but the caller sees a time-out"):
        faulty.insert([a_job("a"), a_job("b")], START)
    assert store.get("a") is not None
    assert store.get("b") is not None


def test_a_store_without_faults_answers_as_the_store_does() -> None:
    store, clock = a_store()
    faulty = FaultyStore(store, Plan(1, {}))
    faulty.insert([a_job("a")], START)
    (claimed,) = claim_due(faulty, [WORK], "w", 1, START, lease_seconds=5)
    assert claimed.lease_until == START + 5000
    assert faulty.settle([Settlement("a", claimed.epoch, Verb.COMPLETE)], START).refused == {}
    assert faulty.get("a") == store.get("a")
    assert faulty.clock is clock
    assert faulty.secret == store.secret
    assert faulty.describe().kind == "memory"


def test_a_slow_call_is_slow_before_or_after_and_done_either_way() -> None:
    found = set()
    for seed in range(20):
        store, clock = a_store()
        plan = Plan(seed, {Fault.DELAY: 1.0}, only={"insert"})
        faulty = FaultyStore(store, plan, pause=clock.advance, pause_seconds=30)
        store.watch(lambda queue, due_at: found.add(clock.now()))  # noqa: B023
        faulty.insert([a_job("a")], START)
        assert clock.now() == START + 30_000
    assert found == {START, START + 30_000}


def test_a_delay_without_a_way_to_pause_does_not_count() -> None:
    store, _ = a_store()
    plan = always(Fault.DELAY)
    FaultyStore(store, plan).insert([a_job("a")], START)
    assert plan.fired.total() == 0


def test_a_stale_get_answers_from_before_the_last_write() -> None:
    store, _ = a_store()
    plan = always(Fault.STALE)
    faulty = FaultyStore(store, plan)
    faulty.insert([a_job("a")], START)
    assert faulty.get("a") is None
    faulty.change(["a"], CANCEL, START)
    seen = faulty.get("a")
    assert seen is not None
    assert seen.state is State.SCHEDULED
    assert plan.fired == {Fault.STALE: 2}


def test_a_stale_page_answers_from_before_the_last_write() -> None:
    store, _ = a_store()
    plan = always(Fault.STALE)
    faulty = FaultyStore(store, plan)
    assert faulty.page(JobFilter(), None, 10).items == []
    assert plan.fired.total() == 0, "nothing was written yet, so that was no stale answer"
    faulty.insert([a_job("a")], START)
    assert faulty.page(JobFilter(), None, 10).items == []
    plan.heal()
    assert [job.id for job in faulty.page(JobFilter(), None, 10).items] == ["a"]


def test_stale_lapses_show_claims_that_have_ended_and_reclaiming_them_is_refused() -> None:
    store, _ = a_store()
    plan = always(Fault.STALE, "live_claims")
    faulty = FaultyStore(store, plan)
    faulty.insert([a_job("a")], START)
    (claimed,) = claim_due(faulty, [WORK], "w", 1, START)
    assert len(lapses_by(faulty, START + 60_000)) == 1
    faulty.settle([Settlement("a", claimed.epoch, Verb.COMPLETE)], START)
    (lapse,) = lapses_by(faulty, START + 61_000)
    answer = faulty.reclaim([(lapse, after_lapse(lapse, WORK, START))], START)
    assert answer[0].state is State.SUCCEEDED


def test_a_settle_that_loses_a_race_is_refused_because_the_claim_was_taken() -> None:
    store, _ = a_store()
    plan = always(Fault.CONFLICT, "settle")
    faulty = FaultyStore(store, plan, rival=Rival(store))
    faulty.insert([a_job("a")], START)
    (claimed,) = claim_due(faulty, [WORK], "w", 1, START)
    refused, _ = faulty.settle([Settlement("a", claimed.epoch, Verb.COMPLETE)], START)
    assert refused[0].reason == "reclaimed"
    assert plan.fired == {Fault.CONFLICT: 1}


def test_a_reclaim_that_loses_a_race_is_refused() -> None:
    store, clock = a_store()
    faulty = FaultyStore(store, always(Fault.CONFLICT, "reclaim"), rival=Rival(store))
    faulty.insert([a_job("a")], START)
    claim_due(faulty, [WORK], "w", 1, START)
    now = clock.advance(60)
    (lapse,) = lapses_by(faulty, now)
    answer = faulty.reclaim([(lapse, after_lapse(lapse, WORK, now))], now)
    assert list(answer) == [0]
    assert len(store.history("a").diagnostics) == 1


def test_a_range_that_was_taken_over_is_not_settled() -> None:
    store, _ = a_store()
    faulty = FaultyStore(store, always(Fault.CONFLICT), rival=Rival(store))
    faulty.insert([a_job("a", "out")], START)
    taken = faulty.claim_range(OUT, "d", 10, START, lease_seconds=10)
    assert not faulty.settle_range(taken, ["a"], {}, START)
    job = store.get("a")
    assert job is not None
    assert job.state is State.SCHEDULED


def test_a_range_that_was_taken_over_is_not_extended() -> None:
    store, _ = a_store()
    faulty = FaultyStore(store, always(Fault.CONFLICT), rival=Rival(store))
    faulty.insert([a_job("a", "out")], START)
    taken = faulty.claim_range(OUT, "d", 10, START, lease_seconds=10)
    assert not faulty.extend_range(taken, START + 20_000)


def test_a_notice_may_be_lost() -> None:
    store, _ = a_store()
    heard: list[str | None] = []
    faulty = FaultyStore(store, always(Fault.FAIL, "watch", first_n=1))
    faulty.watch(lambda queue, due_at: heard.append(queue))
    faulty.insert([a_job("a")], START)
    assert heard == []
    faulty.insert([a_job("b")._replace(due_at=START - 5)], START)
    assert heard == ["work"]


@pytest.mark.parametrize("size", [2, 5])
def test_a_store_may_store_a_part_of_a_batch_and_go_down(size: int) -> None:
    store, _ = a_store()
    with pytest.raises(StoreUnavailable):
        FaultyStore(store, always(Fault.HALF_DOWN)).insert(
            [a_job(f"j{n}") for n in range(size)], START
        )
    assert 0 < [store.get(f"j{n}") is not None for n in range(size)].count(True) < size


def test_a_single_write_has_no_half() -> None:
    store, _ = a_store()
    plan = always(Fault.HALF_DOWN)
    assert FaultyStore(store, plan).insert([a_job("a")], START) == {}
    assert plan.fired.total() == 0


# The sink


@pytest.mark.parametrize(
    ("fault", "taken", "retry_after"),
    [
        (Fault.FAIL, 0, None),
        (Fault.THROTTLE, 0, 2.0),
        (Fault.TIMEOUT, 5, None),
        (Fault.HALF_DOWN, 2, None),
    ],
)
def test_a_sink_that_is_down_has_taken(fault: Fault, taken: int, retry_after: float | None) -> None:
    sink = MemorySink()
    with pytest.raises(SinkDown) as down:
        FaultySink(sink, always(fault)).deliver("out", a_batch(5))
    assert sink.counts["out"] == taken
    assert down.value.retry_after_seconds == retry_after


def test_a_sink_may_take_half_a_batch_and_refuse_the_rest_for_now() -> None:
    sink = MemorySink()
    sink.refuse("j0", Refusal("too large", permanent=True))
    refused = FaultySink(sink, always(Fault.HALF_REFUSED)).deliver("out", a_batch(4))
    assert [job.id for job in sink.deliveries] == ["j1"]
    assert {place: why.permanent for place, why in refused.items()} == {0: True, 2: False, 3: False}


def test_a_single_job_has_no_half() -> None:
    plan = always(Fault.HALF_DOWN)
    assert FaultySink(MemorySink(), plan).deliver("out", a_batch(1)) == {}
    assert plan.fired.total() == 0


def test_a_slow_sink_takes_everything_in_the_end() -> None:
    clock, sink = FakeClock(START), MemorySink()
    FaultySink(sink, always(Fault.DELAY), pause=clock.advance).deliver("out", a_batch(3))
    assert clock.now() == START + 5000
    assert sink.counts["out"] == 3
