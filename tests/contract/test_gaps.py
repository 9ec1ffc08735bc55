"""Gaps between two short-lived dependencies: a late event of a third finds the same instants."""

from __future__ import annotations

from random import Random

import pytest

from oncue.core import pair
from oncue.core.event import Event
from oncue.core.rule import Dependency
from oncue.ports.store import Store
from oncue.stores.memory import MemoryStore

from .board import RULE as NAME
from .board import Board, seconds, table, table_at
from .conftest import OpenStore

DAY = 86_400
RULE = (table("A", DAY), table("B", 1), table("C", 1))
GAPS = 12


def alternating(gaps: int = GAPS, start: float = 0) -> list[Event]:
    """Events of B and C that never meet, ten seconds apart."""
    return [
        event
        for n in range(gaps)
        for event in (table_at(start + 20 * n, "B"), table_at(start + 20 * n + 10, "C"))
    ]


def publish(board: Board, *events: Event) -> None:
    board.store.publish(events, board.now, board.bounds)


def test_nothing_is_met_in_gaps_only(board: Board) -> None:
    board.rule(*RULE)
    publish(board, *alternating())
    publish(board, table_at(0, "A"))
    assert board.instants() == []


@pytest.mark.parametrize("together", [False, True])
def test_an_instant_below_many_gaps_is_found(board: Board, together: bool) -> None:
    """Also in the transaction that accepts all of them."""
    board.rule(*RULE)
    every = [*alternating(), table_at(21, "C"), table_at(0, "A")]
    for part in [every] if together else [every[:-1], every[-1:]]:
        publish(board, *part)
    assert board.instants() == [21]


def test_a_meeting_that_the_former_event_of_two_began_is_found(board: Board) -> None:
    board.rule(*RULE)
    publish(board, *alternating())
    publish(board, table_at(9, "C"))
    publish(board, table_at(10, "B"))
    publish(board, table_at(0, "A"))
    assert board.instants() == [10]


def test_two_of_one_stamp_meet(board: Board) -> None:
    board.rule(table("A", DAY), table("B", 0), table("C", 0))
    publish(board, *alternating())
    publish(board, table_at(15, "C"), table_at(15, "B"))
    publish(board, table_at(0, "A"))
    assert board.instants() == [15]


def test_a_longer_life_makes_gaps_meet(board: Board) -> None:
    board.rule(*RULE)
    publish(board, *alternating(4))
    board.rule(table("A", DAY), table("B", 10), table("C", 1))
    publish(board, *alternating(4, start=1005))
    publish(board, table_at(2005, "B"), table_at(3005, "C"), table_at(4005, "B"))
    publish(board, table_at(0, "A"))
    assert board.instants() == [1005 + 3 * 20 + 10]


def test_a_dependency_that_comes_in_place_of_another_meets_what_was_accepted_before(
    board: Board,
) -> None:
    board.rule(*RULE)
    publish(board, *alternating(4))
    board.rule(table("A", DAY), table("D", 1), table("C", 1))
    publish(board, table_at(11, "D"))
    publish(board, *(table_at(100 + 10 * n, "DC"[n % 2]) for n in range(8)))
    publish(board, table_at(0, "A"))
    assert board.instants() == [11]


def test_pruning_leaves_what_may_still_be_met(board: Board) -> None:
    board.rule(*RULE)
    publish(board, table_at(0, "A"), table_at(1, "B"), table_at(1, "C"))
    assert board.instants() == [1]
    publish(board, *alternating(start=100))
    board.prune()
    publish(board, table_at(110, "B"))
    assert board.instants() == [1, 110]
    publish(board, *alternating(start=500))
    board.prune()
    publish(board, table_at(120, "A"))
    assert board.instants() == [1, 110]


@pytest.mark.parametrize("before", [True, False])
def test_a_restored_rule_finds_what_it_accepted_before_and_after(
    board: Board, open_store: OpenStore, before: bool
) -> None:
    board.rule(*RULE)
    publish(board, *alternating(4))
    if before:
        publish(board, table_at(21, "C"))
    other = Board(restored(board.store, open_store(board.clock)), board.clock)
    publish(other, *alternating(4, start=1000))
    if not before:
        publish(other, table_at(21, "C"))
    publish(other, table_at(0, "A"))
    assert other.instants() == [21]


def restored(store: Store, other: Store) -> Store:
    """What the one has, in the other one."""
    rules = [store.sightings(rule.name, seconds(0)) for rule in store.rules(None, 10)]
    events = store.export_events(None, 1000).items
    other.admit_rules([rule for rule in rules if rule is not None], events)
    return other


Step = list[Event] | tuple[Dependency, ...] | None
"""Events to be published together, a change of the rule, or pruning."""


def a_life(random: Random) -> list[Step]:
    """What happens to a rule: mostly events of B and C, which seldom meet, in any order."""
    steps: list[Step] = []
    for _ in range(random.randint(6, 14)):
        names = random.choices("ABC", (1, 6, 6), k=random.randint(1, 6))
        steps.append([table_at(random.randrange(120), name) for name in names])
        if random.random() < 0.1:
            steps.append(rule_of(random))
        if random.random() < 0.1:
            steps.append(None)
    return [rule_of(random), *steps, [table_at(at, "A") for at in (90, 60, 30, 0)]]


def rule_of(random: Random) -> tuple[Dependency, ...]:
    return table("A", 1000), table("B", random.choice((0, 2, 5))), table("C", random.choice((0, 3)))


def live(board: Board, steps: list[Step]) -> list[float]:
    """When the rule fires."""
    board.store.delete_rule(NAME)
    fired: list[float] = []
    for step in steps:
        if isinstance(step, tuple):
            board.rule(*step)
        elif step is None:
            board.prune()
        else:
            answers = board.store.publish(step, board.now, board.bounds)
            fired += [job.instant for answer in answers for job in answer.jobs]
    return fired


@pytest.mark.slow
def test_a_rule_fires_as_without_markers(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    for _ in range(4 if board.store.traits.is_remote else 60):
        steps = a_life(random)
        with monkeypatch.context() as patched:
            patched.setattr(pair, "MANY", 10**9)
            expected = live(Board(MemoryStore(board.clock), board.clock), steps)
        assert live(board, steps) == expected, steps
