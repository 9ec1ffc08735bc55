"""What the memory store holds of rules and events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from oncue.core.event import Event, EventType
from oncue.core.moment import Moment
from oncue.core.publication import Decided
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.stores.memory.state import MemoryState


class Accepted(NamedTuple):
    stamp: Stamp
    number: int
    """Of the event, in the order of arrival."""


@dataclass(slots=True)
class Wait:
    """One dependency of one rule, with its accepted events in the order of event time."""

    dependency: Dependency
    accepted: list[Accepted] = field(default_factory=list)
    newest: Stamp | None = None
    stale: bool = False

    def accept(self, stamp: Stamp, number: int) -> None:
        insort(self.accepted, Accepted(stamp, number))
        self.newest = stamp if self.newest is None else max(self.newest, stamp)

    def newest_by(self, t: Stamp) -> Stamp | None:
        place = bisect_right(self.accepted, t, key=lambda one: one.stamp)
        return self.accepted[place - 1].stamp if place else None

    def first_at(self, stamp: Stamp) -> int:
        """The number of the first event that was accepted with this stamp."""
        return self.accepted[bisect_left(self.accepted, Accepted(stamp, 0))].number

    def prune(self, before: Stamp) -> int:
        gone = bisect_left(self.accepted, Accepted(before, 0))
        del self.accepted[:gone]
        return gone


@dataclass(slots=True)
class RuleRecord:
    rule: Rule
    waits: list[Wait]
    decided: dict[int, list[Decided]] = field(default_factory=dict)
    """By number of the event: what was decided on it first …"""
    repeated: dict[int, list[Decided]] = field(default_factory=dict)
    """… and what its repetitions were told."""

    @property
    def newest(self) -> Stamp | None:
        return max((w.newest for w in self.waits if w.newest is not None), default=None)


class EventRecord(NamedTuple):
    number: int
    event: Event
    received_at: Moment


class Rulebook(MemoryState):
    """Rules by name, and by the keys that events are matched by; events by all that names them."""

    def __init__(self) -> None:
        super().__init__()
        self._rules: dict[str, RuleRecord] = {}
        self._waiting: defaultdict[tuple[EventType, str], set[str]] = defaultdict(set)
        self._events: dict[int, EventRecord] = {}
        self._events_by_id: dict[str, EventRecord] = {}
        self._events_by_fact: dict[tuple[EventType, str, Stamp], EventRecord] = {}
        self._event_count = 0

    def _log(self, event: Event, now: Moment) -> EventRecord:
        self._event_count += 1
        record = EventRecord(self._event_count, event, now)
        self._events[record.number] = record
        self._events_by_id[event.id] = self._events_by_fact[event.fact] = record
        return record

    def _index(self, record: RuleRecord) -> None:
        for wait in record.waits:
            self._waiting[wait.dependency.type, wait.dependency.key].add(record.rule.name)

    def _unindex(self, record: RuleRecord) -> None:
        for wait in record.waits:
            self._waiting[wait.dependency.type, wait.dependency.key].discard(record.rule.name)
