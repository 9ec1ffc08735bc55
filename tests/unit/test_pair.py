"""With markers a rule fires at the same instants as without, and looks at no more than a few."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncue.core.firing import Firing, fire, prunable_before
from oncue.core.pair import MANY, Markers, Newest, Pair, kept_pair, pair_of
from oncue.core.stamp import SECOND, Stamp

DAY = 86_400 * SECOND
LONG_LIVED, FIRST, SECOND_ONE = range(3)
Arrival = tuple[set[int], Stamp]
"""The positions of the dependencies that an event validates, and its stamp."""


class Ledger:
    """What a rule has accepted, with markers from some time on; and how often it was looked at."""

    def __init__(self, lives: Sequence[Stamp]) -> None:
        self.lives = lives
        self.accepted: list[list[Stamp]] = [[] for _ in lives]
        self.markers: list[list[Stamp]] = [[] for _ in lives]
        self.pair: Pair | None = None
        self.looks = 0

    @property
    def newest_of_all(self) -> Stamp | None:
        return max((one for stamps in self.accepted for one in stamps), default=None)

    def newest(self, position: int, t: Stamp) -> Stamp | None:
        return self._newest(self.accepted[position], t)

    def newest_marker(self, position: int, t: Stamp) -> Stamp | None:
        return self._newest(self.markers[position], t)

    def _newest(self, stamps: list[Stamp], t: Stamp) -> Stamp | None:
        self.looks += 1
        place = bisect_right(stamps, t)
        return stamps[place - 1] if place else None

    def begin(self, places: tuple[int, int]) -> None:
        first, second = places
        self.pair = Pair(places, (self.lives[first], self.lives[second]), self.newest_of_all)

    def accept(self, validated: Sequence[int], stamp: Stamp) -> None:
        for place in validated:
            insort(self.accepted[place], stamp)
            if self.pair and self.pair.is_marker(place, stamp, self.newest):
                insort(self.markers[place], stamp)

    def fires(self, validated: Sequence[int], stamp: Stamp, *, jumps: bool) -> Firing | None:
        """What accepting an event leads to, before it is accepted."""

        def with_it(newest: Newest) -> Newest:
            return lambda place, t: max(
                (stamp if place in validated and stamp <= t else None, newest(place, t)),
                key=lambda one: -1 if one is None else one,
            )

        self.looks = 0
        markers = Markers(self.pair, with_it(self.newest_marker)) if jumps and self.pair else None
        return fire(self.lives, validated, stamp, with_it(self.newest), markers)

    def prune(self, last_instant: Stamp) -> None:
        for place, life in enumerate(self.lives):
            before = prunable_before(life, last_instant, None) or 0
            for stamps in (self.accepted[place], self.markers[place]):
                stamps[:] = [one for one in stamps if one >= before]


class Case(NamedTuple):
    lives: list[Stamp]
    places: tuple[int, int]
    arrivals: list[Arrival]
    begins_after: int
    """So many arrivals the markers begin."""


def a_case(random: Random) -> Case:
    """Mostly of two dependencies with short lives, whose events seldom meet."""
    lives = [random.choice((20, 1000)), *random.choices((0, 1, 3, 8), k=random.choice((2, 2, 3)))]
    every = range(len(lives))
    places = sorted(random.sample(every, 2)) if random.random() < 0.3 else (FIRST, SECOND_ONE)
    arrivals: list[Arrival] = []
    for _ in range(random.randint(6, 20)):
        several = random.sample(every, random.randint(1, len(lives)))
        validated = several if random.random() < 0.1 else random.choices(every[1:])
        arrivals.append((set(validated), random.randrange(60)))
    begins_after = random.choice((0, 0, random.randrange(8)))
    if random.random() < 0.5:  # what was accepted before the markers is older than the rest
        arrivals[:begins_after] = [(some, at // 3) for some, at in arrivals[:begins_after]]
    return Case(lives, (places[0], places[1]), arrivals, begins_after)


def same_with_markers(ledger: Ledger, validated: Sequence[int], stamp: Stamp) -> Firing | None:
    firing = ledger.fires(validated, stamp, jumps=True)
    assert firing == ledger.fires(validated, stamp, jumps=False)
    return firing


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_markers_change_no_instant(seed: int, prunes: bool) -> None:
    """Whatever the lives are, in whatever order events arrive, and whenever the markers began: for
    each event that arrives, and for those that might arrive late."""
    case = a_case(Random(seed))
    ledger, last_instant = Ledger(case.lives), -1
    for number, (positions, stamp) in enumerate(case.arrivals):
        if number == case.begins_after:
            ledger.begin(case.places)
        if stamp <= last_instant:
            continue
        validated = sorted(positions)
        firing = same_with_markers(ledger, validated, stamp)
        ledger.accept(validated, stamp)
        if firing is not None and prunes:
            last_instant = firing.instant
            ledger.prune(last_instant)
    for late in range(last_instant + 1, 60, 7):
        same_with_markers(ledger, [LONG_LIVED], late)
        same_with_markers(ledger, [LONG_LIVED, FIRST], late)


def alternating(gaps: int, start: Stamp = 0) -> Iterator[tuple[int, Stamp]]:
    for n in range(gaps):
        yield FIRST, start + 10 * n * SECOND
        yield SECOND_ONE, start + (10 * n + 5) * SECOND


def ledger_with(gaps: int) -> Ledger:
    """A rule with two dependencies that live for a second and alternate, beside one of a day."""
    ledger = Ledger([DAY, SECOND, SECOND])
    ledger.begin((FIRST, SECOND_ONE))
    for place, stamp in alternating(gaps):
        ledger.accept([place], stamp)
    return ledger


@pytest.mark.parametrize("gaps", [50, 500])
def test_a_late_event_costs_the_same_however_many_gaps_there_are(gaps: int) -> None:
    ledger = ledger_with(gaps)
    assert ledger.fires([LONG_LIVED], 0, jumps=True) is None
    assert ledger.looks == 4
    assert ledger.fires([LONG_LIVED], 0, jumps=False) is None
    assert ledger.looks > 2 * gaps


@pytest.mark.parametrize("gaps", [50, 500])
def test_an_instant_below_many_gaps_is_found_at_once(gaps: int) -> None:
    ledger = ledger_with(gaps)
    ledger.accept([SECOND_ONE], SECOND // 2)
    firing = ledger.fires([LONG_LIVED], 0, jumps=True)
    assert firing == Firing(SECOND // 2, (0, 0, SECOND // 2))
    assert ledger.looks <= 10


def test_an_event_that_fires_in_the_ordinary_way_asks_for_no_marker() -> None:
    ledger = ledger_with(50)
    ledger.accept([SECOND_ONE], 490 * SECOND)
    ledger.pair = None
    assert ledger.fires([LONG_LIVED], 480 * SECOND, jumps=True) is not None
    without = ledger.looks
    ledger.begin((FIRST, SECOND_ONE))
    assert ledger.fires([LONG_LIVED], 480 * SECOND, jumps=True) is not None
    assert ledger.looks == without


def test_what_was_accepted_before_the_markers_is_looked_through_as_without_them() -> None:
    ledger = ledger_with(50)
    ledger.accept([SECOND_ONE], SECOND // 2)
    ledger.markers = [[], [], []]
    ledger.begin((FIRST, SECOND_ONE))
    assert ledger.fires([LONG_LIVED], 0, jumps=True) == Firing(SECOND // 2, (0, 0, SECOND // 2))


def test_the_pair_of_a_rule_are_the_two_of_shortest_life_if_another_lives_much_longer() -> None:
    assert pair_of([DAY, SECOND, 2 * SECOND]) == (1, 2)
    assert pair_of([SECOND, DAY, 5 * SECOND, 2 * SECOND]) == (0, 3)
    assert pair_of([DAY, SECOND]) is None
    assert pair_of([2 * MANY * SECOND, SECOND, SECOND]) == (1, 2)
    assert pair_of([2 * MANY * SECOND - 1, SECOND, SECOND]) is None


def test_two_lives_of_nothing_make_a_pair_beside_any_longer_one() -> None:
    assert pair_of([0, 0, 0]) is None
    assert pair_of([0, SECOND, 0]) == (0, 2)


def test_a_pair_is_kept_until_its_dependencies_or_their_lives_change() -> None:
    lives = [DAY, SECOND, 2 * SECOND]
    pair = kept_pair(None, lives, 7)
    assert pair == Pair((1, 2), (SECOND, 2 * SECOND), 7)
    assert kept_pair(pair, lives, 99) is pair
    assert kept_pair(pair, [2 * DAY, *lives[1:]], 99) is pair
    assert kept_pair(pair, [DAY, SECOND, SECOND], 99) == Pair((1, 2), (SECOND, SECOND), 99)
    assert kept_pair(pair, [*lives, 0], 99) == Pair((1, 3), (SECOND, 0), 99)
    assert kept_pair(pair, [DAY, DAY, SECOND], 99) is None
