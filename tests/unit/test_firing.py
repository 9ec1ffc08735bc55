"""At which instant a rule fires: the same as by the letter, and found with few looks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from random import Random

import pytest

from oncue.core.firing import Decision, Firing, decide, fire, floor, prunable_before
from oncue.core.stamp import SECOND


class Accepted:
    """The accepted stamps of each dependency, and how often they were looked at."""

    def __init__(self, *stamps: list[int]) -> None:
        self.stamps = [sorted(one) for one in stamps]
        self.looks: Counter[int] = Counter()

    def newest(self, position: int, t: int) -> int | None:
        self.looks[position] += 1
        place = bisect_right(self.stamps[position], t)
        return self.stamps[position][place - 1] if place else None


def by_the_letter(
    lives: list[int], validated: list[int], stamp: int, accepted: list[list[int]]
) -> int | None:
    """Every accepted timestamp is tested, as the semantics say it."""
    window = max(stamp + lives[position] for position in validated)
    met = [
        t
        for t in {one for stamps in accepted for one in stamps}
        if stamp <= t <= window
        and all(
            any(one <= t <= one + life for one in stamps)
            for life, stamps in zip(lives, accepted, strict=True)
        )
    ]
    return max(met, default=None)


@pytest.mark.parametrize("seed", range(5))
def test_the_instant_is_the_one_that_testing_every_timestamp_finds(seed: int) -> None:
    random = Random(seed)
    found = Counter[bool]()
    for _ in range(2000):
        count = random.randint(1, 4)
        lives = [random.choice((0, 0, 2, 5, 20)) for _ in range(count)]
        stamps = [
            [random.randrange(30) for _ in range(random.randrange(1, 5))] for _ in range(count)
        ]
        validated = random.sample(range(count), random.randint(1, count))
        stamp = random.randrange(30)
        for position in validated:
            stamps[position].append(stamp)
        accepted = Accepted(*stamps)
        firing = fire(lives, validated, stamp, accepted.newest)
        expected = by_the_letter(lives, validated, stamp, stamps)
        assert (None if firing is None else firing.instant) == expected
        found[firing is not None] += 1
        if firing is not None:
            for life, mine, by in zip(lives, stamps, firing.validated_by, strict=True):
                assert by in mine
                assert by <= firing.instant <= by + life
    assert found[True] > 300
    assert found[False] > 300


@pytest.mark.parametrize("count", [10, 1_000_000])
def test_a_look_at_each_dependency_is_enough_however_many_events_were_accepted(count: int) -> None:
    files = list(range(count))
    crons = [count + 5]
    accepted = Accepted(files, crons)
    assert fire([10, 0], [1], count + 5, accepted.newest) == Firing(
        count + 5, (count - 1, count + 5)
    )
    assert accepted.looks == {0: 1, 1: 1}


@pytest.mark.parametrize("count", [10, 100_000])
def test_a_late_event_of_long_life_costs_no_more_among_many(count: int) -> None:
    stamps = [second * 2 for second in range(count)]
    accepted = Accepted([0], stamps, [stamp + 1 for stamp in stamps])
    firing = fire([3 * count, 0, 1], [0], 0, accepted.newest)
    assert firing is not None
    assert firing.instant == stamps[-1]
    assert accepted.looks.total() <= 6


def test_what_was_never_seen_ends_the_search_at_once() -> None:
    accepted = Accepted(list(range(1000)), [])
    assert fire([10**6, 0], [0], 0, accepted.newest) is None
    assert accepted.looks.total() == 1


def test_an_event_is_decided_by_the_last_instant_and_by_the_time_that_is_kept() -> None:
    lives, late = [5 * SECOND, 0], 10
    assert decide(100, None, None, lives, late) is Decision.ACCEPTED
    assert decide(101, 100, None, lives, late) is Decision.ACCEPTED
    assert decide(100, 100, None, lives, late) is Decision.STALE
    newest = 100 * SECOND
    assert floor(newest, lives, late) == 85 * SECOND
    assert decide(85 * SECOND, None, newest, lives, late) is Decision.ACCEPTED
    assert decide(85 * SECOND - 1, None, newest, lives, late) is Decision.TOO_LATE
    assert decide(1, 2, newest, lives, late) is Decision.STALE


def test_what_may_be_forgotten_follows_from_the_last_instant_and_the_time_that_is_kept() -> None:
    assert prunable_before(5, None, None) is None
    assert prunable_before(5, 100, None) == 95
    assert prunable_before(5, None, 50) == 50
    assert prunable_before(5, 100, 50) == 95
    assert prunable_before(90, 100, 50) == 50
