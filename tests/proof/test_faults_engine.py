"""The engine on ports in trouble: whatever befalls them, the promises hold once it has passed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import StoreUnavailable
from oncue.core.job import NewJob
from oncue.engine.node import Node
from oncue.engine.reclaimer import Reclaimer
from oncue.stores.memory import MemoryStore
from oncue.usecases.queues import put_queue
from tests.contract.desk import claim_due
from tests.proof import scenes
from tests.proof.faults import FaultyStore
from tests.proof.plan import OF_PORTS, Fault, Plan
from tests.proof.scenes import Scene
from tests.proof.world import PULLED, START, World
from tests.stores.kinds import store_maker
from tests.stores.port import METHODS

SEEDS = range(5)
ON_OTHER_STORES = {
    "whole": scenes.WHOLE,
    "any timeout": scenes.ANY_TIMEOUT,
    **scenes.FAULTS,
    "deaths": scenes.DEATHS["all"],
    "stops": scenes.STOPS["first"],
    **scenes.TURNS,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def named(group: dict[str, Scene]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scene", group.values(), ids=group)


@pytest.mark.parametrize("seed", range(10))
def test_without_faults_every_job_is_delivered_exactly_once(seed: int) -> None:
    card = scenes.CALM.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", range(3))
def test_without_faults_a_whole_household_is_in_order(seed: int) -> None:
    card = scenes.WHOLE.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", range(10))
def test_what_workers_fail_release_and_forget_ends_as_it_should(seed: int) -> None:
    card = scenes.ROUGH.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", SEEDS)
@named(scenes.FAULTS)
def test_every_promise_survives_a_fault(scene: Scene, seed: int) -> None:
    card = scene.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", SEEDS)
@named(scenes.TOGETHER)
def test_every_promise_survives_all_faults_together(scene: Scene, seed: int) -> None:
    card = scene.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", SEEDS)
@named(scenes.DEATHS)
def test_every_promise_survives_deaths_at_a_point_and_takeovers_are_prompt(
    scene: Scene, seed: int
) -> None:
    card = scene.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", SEEDS)
@named(scenes.STOPS)
def test_every_promise_survives_those_who_stand_still_and_go_on(scene: Scene, seed: int) -> None:
    card = scene.play(seed)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("seed", SEEDS)
@named(scenes.TURNS)
def test_every_promise_survives_a_clock_that_is_turned_by_an_hour(scene: Scene, seed: int) -> None:
    card = scene.play(seed)
    assert card.green, f"\n{card}"


@named(ON_OTHER_STORES)
@pytest.mark.parametrize("kind", ["sqlite", "hostile"])
def test_every_promise_survives_on_every_store(scene: Scene, kind: str, tmp_path: Path) -> None:
    card = scene.play(0, store_maker(kind, tmp_path), jobs=90)
    assert card.green, f"\n{card}"


@pytest.mark.parametrize("method", sorted(METHODS - scenes.NOT_CALLED))
def test_every_promise_survives_answers_of_a_method_that_are_lost(method: str) -> None:
    """A new method of the port is among them by itself. If nobody in the world calls it, the run is
    void."""
    card = scenes.TIMEOUTS[method].play(0)
    assert card.green, f"\n{card}"


def test_every_fault_really_happens_to_the_engine() -> None:
    fired: set[Fault] = set()
    rates = dict.fromkeys(OF_PORTS, 0.05) | {Fault.HALF_DOWN: 0.2, Fault.HALF_REFUSED: 0.2}
    for seed in SEEDS:
        plan = Plan(seed, rates)
        World(plan, seed, cancels=False).run()
        fired |= set(plan.fired)
    assert fired == set(OF_PORTS)


def test_a_job_whose_claims_were_lost_on_the_way_again_and_again_is_still_handed_over() -> None:
    """No worker ever saw them, so they say nothing against the job."""
    lost = 10
    clock = FakeClock(START)
    memory = MemoryStore(clock)
    put_queue(memory, PULLED)
    store = FaultyStore(memory, Plan(1, {Fault.TIMEOUT: 1.0}, only={"claim"}, first_n=lost))
    reclaimer = Reclaimer(Node.of(store, clock))
    store.insert([NewJob("a", PULLED.name, START, b"{}", 0, START)], START)
    for _ in range(lost):
        with pytest.raises(StoreUnavailable):
            claim_due(store, [PULLED], "worker", 1, clock.now())
        assert claim_due(memory, [PULLED], "another", 1, clock.now()) == []
        clock.advance(PULLED.lease_seconds)
        reclaimer.step()
    (claim,) = claim_due(store, [PULLED], "worker", 1, clock.now())
    assert claim.attempt == lost + 1
