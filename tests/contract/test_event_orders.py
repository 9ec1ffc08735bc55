"""In whatever order events arrive: a rule that can be met fires, and only when it is met."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random

import pytest

from oncue.core.event import Event
from oncue.core.rule import Dependency
from oncue.core.stamp import SECOND, to_datetime

from .board import Board, seconds, table, table_at

LIVES = (0, 2, 5, 20)
Case = tuple[tuple[Dependency, ...], list[Event]]


def a_case(random: Random) -> Case:
    """A rule with two or three dependencies, and two to six distinct events for it."""
    dependencies = tuple(
        table(name, random.choice(LIVES)) for name in "ABC"[: random.choice((2, 3))]
    )
    names = [dependency.resource for dependency in dependencies]
    facts = {(random.choice(names), random.randrange(12)) for _ in range(random.randint(2, 6))}
    return dependencies, [table_at(at, name) for name, at in sorted(facts)]


def met_instants(dependencies: tuple[Dependency, ...], events: list[Event]) -> set[int]:
    """By the letter: every timestamp at which each dependency is valid, if all are accepted."""
    return {
        t
        for t in (event.stamp for event in events)
        if all(
            any(
                event.resource == dependency.resource
                and event.stamp <= t <= event.stamp + dependency.life_seconds * SECOND
                for event in events
            )
            for dependency in dependencies
        )
    }


def cases(seed: int, count: int) -> Iterator[Case]:
    """Alternately one with a met instant and one without."""
    random = Random(seed)
    for number in range(count):
        while True:
            case = a_case(random)
            if len(case[1]) >= 2 and bool(met_instants(*case)) == (number % 2 == 0):
                yield case
                break


def check(board: Board, case: Case, order: tuple[Event, ...], name: str) -> None:
    dependencies, events = case
    board.rule(*dependencies, name=name)
    fired = [job for answer in board.post_all(*order) for job in answer.jobs]
    for job in fired:
        stored = board.store.get(job.job_id)
        assert stored is not None
        assert stored.instant == to_datetime(job.instant)
    instants = [job.instant for job in fired]
    met = met_instants(dependencies, events)
    assert bool(instants) == bool(met), (case, order)
    assert set(instants) <= met, (case, order)
    assert len(set(instants)) == len(instants)
    again = board.post_all(*order)
    assert all(answer.duplicate and not answer.jobs for answer in again)
    board.store.delete_rule(name)
    board.prune()


def sampled(
    orders: Iterator[tuple[Event, ...]], board: Board, seed: int
) -> list[tuple[Event, ...]]:
    """All orders; a few of them where each call waits for a server."""
    every = list(orders)
    few = min(len(every), 4)
    return Random(seed).sample(every, few) if board.store.traits.is_remote else every


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_order_loses_the_job_or_fires_at_an_unmet_instant(board: Board, seed: int) -> None:
    for number, case in enumerate(cases(seed, 8)):
        for place, order in enumerate(sampled(permutations(case[1]), board, seed)):
            check(board, case, order, f"{number}-{place}")


def test_half_of_the_cases_have_a_met_instant() -> None:
    met = [bool(met_instants(*case)) for case in cases(1, 100)]
    assert met.count(True) == 50


def test_a_rule_never_has_two_jobs_for_one_instant(board: Board) -> None:
    board.rule(table("A", 20), table("B", 20))
    for at in range(10):
        board.post_all(table_at(at, "A"), table_at(at, "B"))
    assert board.instants() == sorted(set(board.instants()))
    assert seconds(board.instants()[-1]) == seconds(9)
