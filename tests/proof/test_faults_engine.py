"""The engine on ports in trouble: whatever befalls them, the promises hold once it has passed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.engine.policies import Policies
from oncue.engine.reclaimer import Reclaimer
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore
from oncue.stores.sqlite import SqliteStore
from tests.proof.faults import FaultyStore
from tests.proof.plan import Fault, Plan
from tests.proof.points import OF_EVENTS, POINTS
from tests.proof.world import PULLED, START, World

JOBS = 120
SEEDS = range(10)
RATES = {Fault.HALF_REFUSED: 0.8, Fault.HALF_DOWN: 0.4}  # there are fewer batches than calls

# A claim whose answer is lost is a strike against the job, and three of them make it poison: it
# fails, with its diagnostics, though no worker ever saw it. So these faults spare claims, and a
# test of its own loses two answers.
SPARING = {Fault.TIMEOUT: {"claim"}, Fault.DELAY: {"claim"}}

# Whoever is paused for longer than its lease right before a hand-over will still hand over what was
# reclaimed and cancelled meanwhile. No store can prevent that; so nobody cancels where calls are
# slow.
UNFENCED = {Fault.DELAY}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logger = logging.getLogger("oncue.engine")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def a_world(fault: Fault, seed: int, make_store: Callable[[FakeClock], Store]) -> World:
    plan = Plan(seed, {fault: RATES.get(fault, 0.2)}, sparing=SPARING.get(fault, ()))
    return World(plan, seed, JOBS, cancels=fault not in UNFENCED, make_store=make_store)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_faults_every_job_is_delivered_exactly_once(seed: int) -> None:
    card = World(Plan(seed, {}), seed, JOBS).run(min_acknowledged=JOBS, max_duplicates=0)
    assert card.green, str(card)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_every_promise_survives_a_fault(fault: Fault, seed: int) -> None:
    world = a_world(fault, seed, MemoryStore)
    card = world.run(min_acknowledged=JOBS // 2, min_faults=5)
    assert card.green, f"{card}\n{world.plan.fired}"


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_every_promise_survives_a_fault_on_sqlite(fault: Fault, tmp_path: Path) -> None:
    world = a_world(fault, 0, lambda clock: SqliteStore(tmp_path / "world.db", clock))
    card = world.run(min_acknowledged=JOBS // 2, min_faults=5)
    world.truth.close()
    assert card.green, f"{card}\n{world.plan.fired}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
def test_every_promise_survives_all_faults_together(slow: bool, seed: int) -> None:
    faults = set(Fault) if slow else set(Fault) - UNFENCED
    plan = Plan(seed, {fault: 0.05 for fault in Fault if fault in faults})
    card = World(plan, seed, JOBS, cancels=not slow).run(min_acknowledged=JOBS // 2, min_faults=20)
    assert card.green, f"{card}\n{plan.fired}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("point", [*sorted(POINTS - OF_EVENTS), "all"])
def test_every_promise_survives_deaths_at_a_point(point: str, seed: int) -> None:
    points = sorted(POINTS - OF_EVENTS) if point == "all" else [point]
    if point == "after-reclaim":
        points.append("after-claim")  # somebody has to leave something to reclaim
    orders = ",".join(f"{name}:{count}" for name in points for count in (1, 4))
    world = World(Plan(seed, {}), seed, JOBS, deaths=orders)
    card = world.run(min_acknowledged=JOBS // 2, min_faults=2)
    assert card.green, str(card)


def test_every_fault_really_happens_to_the_engine() -> None:
    fired = {fault for seed in SEEDS for fault in _fired(seed)}
    assert fired == set(Fault)


def _fired(seed: int) -> set[Fault]:
    plan = Plan(seed, dict.fromkeys(Fault, 0.05))
    World(plan, seed, JOBS, cancels=False).run()
    return set(plan.fired)


def test_a_job_whose_claims_were_twice_lost_on_the_way_is_still_handed_over() -> None:
    clock = FakeClock(START)
    memory = MemoryStore(clock)
    memory.put_queue(PULLED)
    store = FaultyStore(memory, Plan(1, {Fault.TIMEOUT: 1.0}, only={"claim"}, first_n=2))
    reclaimer = Reclaimer(store, clock, Policies(store, clock))
    store.insert([NewJob("a", PULLED.name, START, b"{}", 0, START)], START)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            store.claim([PULLED], "worker", 1, clock.now())
        assert memory.claim([PULLED], "another", 1, clock.now()) == []
        clock.advance(PULLED.lease_seconds)
        reclaimer.step()
    (claim,) = store.claim([PULLED], "worker", 1, clock.now())
    assert claim.attempt == 3
