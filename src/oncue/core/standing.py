"""How a rule stands at a time: what it still waits for, and which event would fire it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from oncue.core import stamp as stamps
from oncue.core.duration import spoken
from oncue.core.event import Event
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import SECOND, Stamp


class Validity(StrEnum):
    MET = "MET"
    NEVER_SEEN = "NEVER_SEEN"
    """No event of it was accepted that is stamped by then."""
    EXPIRED = "EXPIRED"
    """Its newest event was valid once, and no longer is."""
    ONLY_STALE = "ONLY_STALE"
    """Its events came too late: none of them is after the last job's instant."""
    NOT_OVERLAPPING = "NOT_OVERLAPPING"
    """Its newest event is valid for an instant only, and something else was not valid then."""


class Sighting(NamedTuple):
    """The state of one dependency at a time t, as a store knows it."""

    newest: Event | None = None
    """The newest accepted event stamped by t."""
    newest_stamp: Stamp | None = None
    """Of the newest event that was ever accepted, even if it is no longer kept."""
    stale: bool = False
    """Whether an event of it was ever found stale."""


class Sightings(NamedTuple):
    rule: Rule
    of: tuple[Sighting, ...]
    """In the order of the dependencies."""


class Interval(NamedTuple):
    start: Stamp
    end: Stamp


@dataclass(frozen=True, slots=True)
class DependencyStanding:
    dependency: Dependency
    validity: Validity
    event: Event | None = None
    """The one that validates it, or the last one that did."""
    valid_until: Stamp | None = None
    """When that event's life ends or ended."""
    missed_by_seconds: float | None = None
    """NOT_OVERLAPPING: how far it lies from the others."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A rule at a time: `sentence` for people, the rest for programs."""

    rule: Rule
    at: Stamp
    met: bool
    sentence: str
    dependencies: tuple[DependencyStanding, ...] = field(default_factory=tuple)
    waits_for: Dependency | None = None
    """The dependency of which a single event would fire it …"""
    window: Interval | None = None
    """… if it is stamped in here, both ends included."""
    missed_by_seconds: float | None = None
    """By how much the newest intervals of the dependencies miss each other."""
    stale: Event | None = None
    """The last event, of those that arrived last, that is not later than the last job's instant."""
    too_late: Event | None = None
    """The same from a time of which the rule keeps no events any more."""


def explain(
    sightings: Sightings, at: Stamp, stale: Event | None = None, too_late: Event | None = None
) -> Standing:
    """How the rule stands at `at`. `stale` and `too_late`: events on which it decided so."""
    rule = sightings.rule
    seen = list(zip(rule.dependencies, sightings.of, strict=True))
    intervals = [_interval(dependency, sighting) for dependency, sighting in seen]
    others = [intervals[:place] + intervals[place + 1 :] for place in range(len(intervals))]
    standings = tuple(
        _stand(dependency, sighting, intervals[place], others[place], at)
        for place, (dependency, sighting) in enumerate(seen)
    )
    met = all(one.validity is Validity.MET for one in standings)
    waits_for, window = _wanted(rule, standings, others)
    gap = _gap(intervals)
    missed = gap / SECOND if None not in intervals and gap > 0 else None
    standing = Standing(rule, at, met, "", standings, waits_for, window, missed, stale, too_late)
    return replace(standing, sentence=_sentence(standing) + _about_unused(standing))


def _interval(dependency: Dependency, sighting: Sighting) -> Interval | None:
    if sighting.newest is None:
        return None
    start = sighting.newest.stamp
    return Interval(start, start + dependency.life)


def _stand(
    dependency: Dependency,
    sighting: Sighting,
    interval: Interval | None,
    others: Sequence[Interval | None],
    at: Stamp,
) -> DependencyStanding:
    event, gone = sighting.newest, sighting.newest_stamp
    if interval is None:
        if gone is not None and gone <= at:  # accepted once, and pruned since: it is over for good
            return DependencyStanding(dependency, Validity.EXPIRED, None, gone + dependency.life)
        stale = gone is None and sighting.stale
        return DependencyStanding(dependency, Validity.ONLY_STALE if stale else Validity.NEVER_SEEN)
    start, end = interval
    if end >= at:
        return DependencyStanding(dependency, Validity.MET, event, end)
    missed = max((_gap([interval, other]) for other in others), default=0) / SECOND
    if start == end and None not in others and missed > 0:
        return DependencyStanding(dependency, Validity.NOT_OVERLAPPING, event, end, missed)
    return DependencyStanding(dependency, Validity.EXPIRED, event, end)


def _gap(intervals: Sequence[Interval | None]) -> Stamp:
    """How far the intervals are from having an instant in common; 0 or less: they have one. Those
    that are not known do not count."""
    known = [one for one in intervals if one is not None]
    return max((one.start for one in known), default=0) - min((one.end for one in known), default=0)


def _wanted(
    rule: Rule, standings: Sequence[DependencyStanding], others: Sequence[Sequence[Interval | None]]
) -> tuple[Dependency | None, Interval | None]:
    """The dependency of which one event would fire the rule, and when that must be stamped. What is
    not met comes first; of what is met, the one that lives shortest."""

    def order(place: int) -> tuple[bool, int]:
        return standings[place].validity is Validity.MET, standings[place].dependency.life_seconds

    for place in sorted(range(len(standings)), key=order):
        window = _window(rule, rule.dependencies[place], others[place])
        if window is not None:
            return rule.dependencies[place], window
    return None, None


def _window(
    rule: Rule, dependency: Dependency, others: Sequence[Interval | None]
) -> Interval | None:
    """The stamps at which an event of this dependency meets the newest intervals of the others."""
    known = [one for one in others if one is not None]
    if not known or len(known) < len(others) or _gap(known) > 0:
        return None
    earliest = max(stamps.EARLIEST, max(one.start for one in known) - dependency.life)
    if rule.last_instant is not None:
        earliest = max(earliest, rule.last_instant + 1)
    latest = min(one.end for one in known)
    return Interval(earliest, latest) if earliest <= latest else None


def _sentence(standing: Standing) -> str:
    rule, standings, missed = standing.rule, standing.dependencies, standing.missed_by_seconds
    waits_for, window = standing.waits_for, standing.window
    gap = "" if missed is None else f"the intervals miss each other by {spoken(missed)}"
    if waits_for is not None and window is not None:
        would = "would fire it" if rule.enabled else "would fire it if it were enabled"
        return (
            f"A {waits_for.type} event `{waits_for.resource}` stamped between "
            f"{stamps.render(window.start)} and {stamps.render(window.end)} {would}"
            f"{gap and f'; {gap}'}."
        )
    if len(standings) == 1:
        [only] = rule.dependencies
        after = "" if rule.last_instant is None else f" after {stamps.render(rule.last_instant)}"
        return f"Any {only.type} event `{only.resource}` stamped{after or ' at any time'} fires it."
    wanting = [one for one in standings if one.validity is not Validity.MET] or standings
    names = ", ".join(f"{one.dependency.type} `{one.dependency.resource}`" for one in wanting)
    return f"No single event would fire it: it waits for {names}{gap and f'; {gap}'}."


def _about_unused(standing: Standing) -> str:
    """Why events that arrived did not fire the rule."""
    stale, too_late, last = standing.stale, standing.too_late, standing.rule.last_instant
    text = ""
    if stale is not None and last is not None:
        text += f" {_named(stale)} was STALE: it is not later than the instant of the last job, "
        text += f"{stamps.render(last)}."
    if too_late is not None:
        text += f" {_named(too_late)} was TOO_LATE: the rule no longer keeps events of that time "
        text += "(setting events_late_seconds)."
    return text


def _named(event: Event) -> str:
    return f"The {event.type} event `{event.resource}` stamped {stamps.render(event.stamp)}"
