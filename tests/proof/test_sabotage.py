"""The test of the test: every saboteur is caught, by the check that is meant for it, and the honest
store is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from oncue.stores.memory import MemoryStore
from tests.proof import saboteurs as wrong
from tests.proof import scenes
from tests.proof.scenes import Scene

SEED = 2
SEEDS = (2, 1, 3, 4)  # a saboteur whose fault comes to bear by chance has several
JOBS = 160
CALM, ROUGH = scenes.CALM, scenes.ROUGH
DYING, STOPPING = scenes.DEATHS["after-touch"], scenes.STOPS["later"]
SLOW, RACING = scenes.FAULTS["delay"], scenes.FAULTS["conflict"]
TURNED = scenes.TURNS["back and forward"]
LAZY, DROPPING = replace(CALM, honest=False), replace(CALM, drops=True)
UNDISTURBED = replace(CALM, cancels=False)  # what was done and then cancelled is unexpected as well


class Case(NamedTuple):
    store: type[MemoryStore]
    scene: Scene
    check: str
    text: str = ""
    """What the card must say, where one check has many reasons."""


CASES = [
    Case(wrong.Forgetting, CALM, "lost", "gone, and nobody reported an end"),
    Case(wrong.Inventing, CALM, "unexpected", "never asked for"),
    Case(wrong.NotCancelling, CALM, "unexpected", "its cancel was acknowledged"),
    Case(wrong.NotCancelling, CALM, "unkept", "cancel"),
    Case(wrong.ExpiringSilently, CALM, "lost", "expired, and nothing is recorded about it"),
    Case(wrong.ClaimingEarly, CALM, "early"),
    Case(wrong.ClaimingAMillisecondEarly, CALM, "early"),
    Case(wrong.RangingEarly, CALM, "early"),
    Case(wrong.ClaimingTwice, CALM, "repeated"),
    Case(wrong.FallingAttempts, ROUGH, "unidentifiable"),
    Case(wrong.SameEpoch, STOPPING, "stale"),
    Case(wrong.BelievingTouches, STOPPING, "stale", "start"),
    Case(wrong.NotRenewing, CALM, "premature"),
    Case(wrong.BelievingSettlements, RACING, "stale", "complete"),
    Case(wrong.DroppingCompletions, CALM, "twice"),
    Case(wrong.FailingCompletions, CALM, "unkept", "completion"),
    Case(wrong.RefusingCompletions, UNDISTURBED, "too many"),
    Case(wrong.LosingRetries, ROUGH, "lost", "attempts were used"),
    Case(wrong.CountingReleases, ROUGH, "overcounted"),
    Case(wrong.SettlingAll, ROUGH, "lost", "succeeded, but nobody received it"),
    Case(wrong.SettlingArrivals, SLOW, "lost", "succeeded, but nobody received it"),
    Case(wrong.ForgettingRanges, CALM, "repeated"),
    Case(wrong.Unfenced, scenes.STOPS["first"], "stale", "settle"),
    Case(wrong.CountingRefusals, ROUGH, "overcounted"),
    Case(wrong.FailingReclaimed, DYING, "lost", "attempts were used"),
    Case(wrong.DeletingReclaimed, DYING, "lost", "gone, and nobody reported an end"),
    Case(wrong.SucceedingReclaimed, DYING, "lost", "succeeded, but nobody re"),
    Case(wrong.FailingSilently, ROUGH, "lost", "failed, and nothing is recorded about it"),
    Case(wrong.PoisoningUnstarted, DYING, "lost", "failed as poison after"),
    Case(wrong.ReclaimingLate, DYING, "late"),
    Case(wrong.ReclaimingNever, DYING, "lost", "still dispatched"),
    Case(wrong.ReclaimingEarly, DYING, "premature"),
    Case(wrong.WaitingForTheClock, TURNED, "late"),
    Case(MemoryStore, LAZY, "lost", "succeeded, but nobody received it"),
    Case(MemoryStore, DROPPING, "lost", "succeeded, but nobody received it"),
]
HONEST = {
    "calm": CALM,
    "undisturbed": UNDISTURBED,
    "rough": ROUGH,
    "dying": DYING,
    "stopping": STOPPING,
    "slow": SLOW,
    "racing": RACING,
    "turned": TURNED,
}


def named(case: Case) -> str:
    who = case.store.__name__
    if case.store is MemoryStore:
        who = "LazyWorker" if case.scene is LAZY else "DroppingSink"
    return f"{who}-{case.check}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_saboteur_is_caught_by_the_check_that_is_meant_for_it(case: Case) -> None:
    for seed in SEEDS:
        card = case.scene.play(seed, case.store, JOBS)
        if any(case.text in str(one) for one in card.found[case.check]):
            return
    pytest.fail(f"\n{card}")


@pytest.mark.parametrize("scene", HONEST.values(), ids=HONEST)
def test_the_honest_store_passes_in_the_same_scene(scene: Scene) -> None:
    for seed in SEEDS:
        card = scene.play(seed, MemoryStore, JOBS)
        assert card.green, f"\n{card}"


def test_work_that_is_done_too_often_breaks_no_other_promise() -> None:
    """Each repetition is justified by a lost claim and can be identified; only their number is
    wrong. So this check is not one that another could stand in for."""
    card = UNDISTURBED.play(SEED, wrong.RefusingCompletions, JOBS)
    assert card.violated == {"too many"}, f"\n{card}"


def test_there_is_a_saboteur_for_every_check() -> None:
    assert {case.check for case in CASES} == set(CALM.play(SEED).found)
