"""Rules in memory, and what the store holds of events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import NamedTuple

from oncue.core.event import MOST_IDS, Event, Fact, refuse_taken
from oncue.core.moment import Moment, to_datetime
from oncue.core.pair import Markers, Pair, kept_pair
from oncue.core.publication import Decided
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.memory.state import MemoryState


class Accepted(NamedTuple):
    stamp: Stamp
    number: int
    """Of the event, in the order of arrival."""


@dataclass(slots=True)
class DependencyRecord:
    """One dependency of one rule, with its accepted events in the order of event time."""

    dependency: Dependency
    accepted: list[Accepted] = field(default_factory=list)
    newest: Stamp | None = None
    stale: bool = False
    markers: list[Stamp] = field(default_factory=list)

    def accept(self, stamp: Stamp, number: int) -> None:
        insort(self.accepted, Accepted(stamp, number))
        self.newest = stamp if self.newest is None else max(self.newest, stamp)

    def newest_by(self, t: Stamp) -> Stamp | None:
        place = bisect_right(self.accepted, t, key=lambda one: one.stamp)
        return self.accepted[place - 1].stamp if place else None

    def mark(self, stamp: Stamp) -> None:
        insort(self.markers, stamp)

    def newest_marker(self, t: Stamp) -> Stamp | None:
        place = bisect_right(self.markers, t)
        return self.markers[place - 1] if place else None

    def first_at(self, stamp: Stamp) -> int | None:
        """The number of the first event that was accepted with this stamp."""
        place = bisect_left(self.accepted, Accepted(stamp, 0))
        found = self.accepted[place : place + 1]
        return found[0].number if found and found[0].stamp == stamp else None

    def prune(self, before: Stamp) -> None:
        del self.accepted[: bisect_left(self.accepted, Accepted(before, 0))]
        del self.markers[: bisect_left(self.markers, before)]


@dataclass(slots=True)
class RuleRecord:
    rule: Rule
    waits: list[DependencyRecord]
    decided: dict[int, list[Decided]] = field(default_factory=dict)
    """By number of the event: what was decided on it first …"""
    repeated: dict[int, list[Decided]] = field(default_factory=dict)
    """… and what its repetitions were told."""
    pair: Pair | None = None

    @property
    def newest(self) -> Stamp | None:
        return max((w.newest for w in self.waits if w.newest is not None), default=None)

    def newest_by(self, place: int, t: Stamp) -> Stamp | None:
        return self.waits[place].newest_by(t)

    def keep_pair(self) -> Markers | None:
        """Bring the pair of the rule up to date. Its markers; None: the rule has no pair."""
        self.pair = kept_pair(self.pair, self.rule.lives, self.newest)
        if self.pair is None:
            return None
        return Markers(self.pair, lambda place, t: self.waits[place].newest_marker(t))

    def accept(self, place: int, stamp: Stamp, number: int) -> None:
        self.waits[place].accept(stamp, number)
        if self.pair is not None and self.pair.is_marker(place, stamp, self.newest_by):
            self.waits[place].mark(stamp)


class EventRecord(NamedTuple):
    number: int
    event: Event
    received_at: Moment
    other_ids: list[str]
    """Under which the same fact came again."""


class MemoryRules(MemoryState):
    """Implements `oncue.ports.rules.RuleStore`."""

    def __init__(self) -> None:
        super().__init__()
        self._rules: dict[str, RuleRecord] = {}
        self._events: dict[int, EventRecord] = {}
        self._events_by_id: dict[str, EventRecord] = {}
        self._events_by_fact: dict[Fact, EventRecord] = {}
        self._event_count = 0

    def _log(self, event: Event, now: Moment) -> EventRecord:
        self._event_count += 1
        record = EventRecord(self._event_count, event, now, [])
        self._events[record.number] = record
        self._events_by_id[event.id] = self._events_by_fact[event.fact] = record
        return record

    def _remember(self, record: EventRecord, event_id: str) -> None:
        """Let an id belong to an event that is known."""
        if event_id not in self._events_by_id and len(record.other_ids) < MOST_IDS - 1:
            self._events_by_id[event_id] = record
            record.other_ids.append(event_id)

    def _refuse_taken(self, events: Sequence[Event]) -> None:
        """Raise if an id belongs to another event, here or among these."""
        known = self._events_by_id
        refuse_taken(events, {e.id: known[e.id].event.fact for e in events if e.id in known})

    def _first_at(self, wait: DependencyRecord, stamp: Stamp) -> Event | None:
        number = wait.first_at(stamp)
        return None if number is None else self._events[number].event

    def put_rule(self, rule: Rule, now: Moment) -> Rule:
        at = to_datetime(now)
        with self._lock:
            record = self._rules.get(rule.name)
            if record is None:
                record = self._rules[rule.name] = RuleRecord(replace(rule, created_at=at), [])
            if record.rule.dependencies != rule.dependencies:
                record.pair = None
            kept = {wait.dependency.identity: wait for wait in record.waits}
            record.waits = [
                replace(kept.get(one.identity) or DependencyRecord(one), dependency=one)
                for one in rule.dependencies
            ]
            record.rule = replace(
                rule,
                created_at=record.rule.created_at,
                updated_at=at,
                last_instant=record.rule.last_instant,
                last_job_id=record.rule.last_job_id,
            )
            return record.rule

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        with self._lock:
            names = nsmallest(limit, (name for name in self._rules if name > (after or "")))
            return [self._rules[name].rule for name in names]

    def delete_rule(self, name: str) -> bool:
        with self._lock:
            return self._rules.pop(name, None) is not None

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        with self._lock:
            record = self._rules.get(name)
            if record is None:
                return None
            return Sightings(record.rule, tuple(self._sighting(wait, at) for wait in record.waits))

    def _sighting(self, wait: DependencyRecord, at: Stamp) -> Sighting:
        newest = wait.newest_by(at)
        event = None if newest is None else self._first_at(wait, newest)
        return Sighting(event, wait.newest, wait.stale)
