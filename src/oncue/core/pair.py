"""The pair of a rule: its two dependencies with the shortest lives, and when both were valid.

If their events alternate and the two are never valid together, there is a gap after each event, and
a dependency with a much longer life may span all gaps. Markers record where both were valid, so
that a search passes all gaps at once. A marker that is missing would lose a job; a superfluous one
costs a look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from oncue.core.stamp import Stamp

Newest = Callable[[int, Stamp], Stamp | None]
"""(position, t) → the newest accepted stamp of the dependency at that position that is ≤ t."""
MANY = 64
"""A rule has a pair only if its longest life is at least this many times the two lives of the pair
together. Other rules have few gaps."""


class Pair(NamedTuple):
    """An accepted event of one of the two is a marker if the two were both valid at some time of
    its life when it was accepted. If events of both are valid at the same time, the one that was
    accepted last is a marker. So whenever both dependencies are valid, a marker is valid."""

    places: tuple[int, int]
    """Positions of the dependencies."""
    lives: tuple[Stamp, Stamp]
    since: Stamp | None
    """The newest stamp that the rule had accepted when the markers began; None: it had none."""

    def is_marker(self, place: int, stamp: Stamp, newest: Newest) -> bool:
        """Whether an event that the dependency at this position accepts is a marker."""
        if place not in self.places:
            return False
        at = self.places.index(place)
        other = newest(self.places[1 - at], stamp + self.lives[at])
        return other is not None and other + self.lives[1 - at] >= stamp


class Markers(NamedTuple):
    pair: Pair
    newest: Newest
    """As `Newest`, but only of events that are markers."""

    def are_complete(self, t: Stamp) -> bool:
        """Whether every event of the pair that was accepted before the markers began had ended
        before t. Then the markers are enough to find the last time by t at which both are valid."""
        return self.pair.since is None or self.pair.since + max(self.pair.lives) < t

    def last_meeting(self, t: Stamp) -> Stamp | None:
        """An upper bound for the last time by t at which both are valid. None: there is no such
        time."""
        places, lives, since = self.pair
        ends = [] if since is None else [since + max(lives)]
        for place, life in zip(places, lives, strict=True):
            marker = self.newest(place, t)
            ends += [] if marker is None else [marker + life]
        return max(ends, default=None)


def pair_of(lives: Sequence[Stamp]) -> tuple[int, int] | None:
    """The positions of the pair of a rule. None: it needs none."""
    if len(lives) < 3:
        return None
    first, second = sorted(sorted(range(len(lives)), key=lives.__getitem__)[:2])
    together, longest = lives[first] + lives[second], max(lives)
    return (first, second) if longest > 0 and longest >= MANY * together else None


def kept_pair(known: Pair | None, lives: Sequence[Stamp], newest: Stamp | None) -> Pair | None:
    """The pair of a rule with these lives: the known one if it still fits, else a new one, whose
    markers begin now. `newest` is the newest stamp that the rule has accepted."""
    places = pair_of(lives)
    if places is None:
        return None
    wanted = Pair(places, (lives[places[0]], lives[places[1]]), newest)
    return known if known is not None and known[:2] == wanted[:2] else wanted
