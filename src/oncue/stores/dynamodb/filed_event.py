"""An event as the table has it, and what a rule decided on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from oncue.core.cursor import Cursor, not_a_cursor
from oncue.core.event import Event, Fact
from oncue.core.firing import Decision
from oncue.core.moment import Moment, from_datetime, maybe_datetime, to_datetime
from oncue.core.publication import Decided, LoggedEvent
from oncue.core.stamp import Stamp
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, to_text
from oncue.stores.dynamodb.filed_rule import FiledRule, read_dependency
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.writes import ABSENT, If, Item, has

_ARRIVAL = re.compile("[0-9a-f]{27}", re.ASCII)


class FiledEvent(NamedTuple):
    event: Event
    arrival: str
    """Unique; sorts in the order of arrival. See `core/ids.py: serial`."""
    received_at: Moment
    token: str = ""
    """Another one with every write of its item."""
    ttl: int | None = None
    """In seconds: when the table forgets it. None: a rule decided on it, so it is kept."""
    other_ids: tuple[str, ...] = ()
    """Under which the same fact came again."""

    @property
    def fact(self) -> Fact:
        return self.event.fact

    @property
    def ids(self) -> tuple[str, ...]:
        return self.event.id, *self.other_ids

    def as_items(self) -> tuple[Item, ...]:
        """The event by fact, its place in the order of arrival, and each of its ids."""
        fact = keys.fact_text(self.fact)
        by_fact = {**keys.event(self.fact)._asdict(), "id": self.event.id, "arrival": self.arrival}
        by_fact |= {"received_at": self.received_at, "token": self.token}
        if self.other_ids:
            by_fact["others"] = to_text(self.other_ids)
        place = {**keys.arrived(self.arrival)._asdict(), "fact": fact}
        named = (id_item(one, self.fact, self.received_at, self.token) for one in self.ids)
        items = by_fact, place, *named
        for item in items:
            if self.ttl is not None:
                item["ttl"] = self.ttl
        return items


def id_item(event_id: str, fact: Fact, now: Moment, token: str) -> Item:
    """Makes an id belong to an event, which may be stored later."""
    key = keys.event_id(event_id)._asdict()
    return {**key, "fact": keys.fact_text(fact), "since": now, "token": token}


def as_read(item: Item | None) -> If:
    """The condition that an item of an event is as it was read."""
    return ABSENT if item is None else has("token", item["token"])


def is_over(item: Item, now: Moment) -> bool:
    """Whether an item counts as gone: the table removes it some days later."""
    return "ttl" in item and item["ttl"] * 1000 < now


def read_event(item: Item) -> FiledEvent:
    kind, resource, stamp = keys.read_fact(item["pk"].partition("#")[2])
    event = Event(item["id"], kind, resource, stamp)
    others = tuple(from_text(item["others"])) if "others" in item else ()
    rest = item["received_at"], item["token"], item.get("ttl"), others
    return FiledEvent(event, item["arrival"], *rest)


def arrived_at(arrival: str) -> Moment:
    return int(arrival[:12], 16)


def arrival_at(cursor: Cursor) -> str:
    """The arrival that a cursor stands for."""
    if not _ARRIVAL.fullmatch(cursor):
        raise not_a_cursor()
    return cursor


class FiledDecision(NamedTuple):
    """What one rule decided on one event."""

    key: Key
    filed: FiledEvent
    """As it was then."""
    first: tuple[Decided, ...]
    """One for each dependency that the event matched."""
    times: int = 0
    """How often the event was repeated …"""
    repeated_at: Moment | None = None
    """… and when, the last time."""

    @property
    def repeated(self) -> list[Decided]:
        """What the last repetition was told."""
        if not self.times:
            return []
        at = maybe_datetime(self.repeated_at)
        return [
            replace(one, decision=Decision.DUPLICATE, decided_at=at, times=self.times)
            for one in self.first
        ]

    @property
    def every(self) -> list[Decided]:
        return [*self.first, *self.repeated]

    def repeat(self, now: Moment) -> FiledDecision:
        return self._replace(times=self.times + 1, repeated_at=now)

    def shown(self, decision: Decision | None) -> LoggedEvent | None:
        """The event with the decisions that are wanted; None: there is none of these."""
        wanted = tuple(one for one in self.every if decision in (None, one.decision))
        received_at = to_datetime(self.filed.received_at)
        return LoggedEvent(self.filed.event, received_at, wanted) if wanted else None

    def as_item(self) -> Item:
        """Its version is how often the event was repeated."""
        event = self.filed.event
        shown = {
            "id": event.id,
            "fact": keys.fact_text(event.fact),
            "received_at": self.filed.received_at,
            "first": [_row(one) for one in self.first],
        }
        if self.times:
            shown["repeated_at"] = self.repeated_at
        return {**self.key._asdict(), "ver": self.times + 1, "rec": to_text(shown)}


def decision_key(rule: FiledRule, filed: FiledEvent) -> Key:
    return keys.decision(rule.name, rule.identity, filed.arrival)


def read_decision(item: Item) -> FiledDecision:
    shown = from_text(item["rec"])
    name, arrival = item["pk"].partition("#")[2], item["sk"].rpartition("#")[2]
    kind, resource, stamp = keys.read_fact(shown["fact"])
    filed = FiledEvent(Event(shown["id"], kind, resource, stamp), arrival, shown["received_at"])
    first = tuple(_read_row(name, row) for row in shown["first"])
    key = Key(item["pk"], item["sk"])
    return FiledDecision(key, filed, first, item["ver"] - 1, shown.get("repeated_at"))


def accepted_item(rule: str, wait: str, filed: FiledEvent) -> Item:
    """Says that a dependency accepted an event."""
    key = keys.accepted(rule, wait, filed.event.stamp, filed.arrival)
    return {**key._asdict(), "id": filed.event.id, "fact": keys.fact_text(filed.fact)}


def marker_item(rule: str, wait: str, stamp: Stamp) -> Item:
    """Says that an event that a dependency accepted is a marker (`core/pair.py`)."""
    return {**keys.marker(rule, wait, stamp)._asdict(), "stamp": stamp}


def accepted_event(item: Item) -> tuple[str, Event]:
    """The arrival of an accepted event, and the event."""
    kind, resource, stamp = keys.read_fact(item["fact"])
    return item["sk"].rpartition("#")[2], Event(item["id"], kind, resource, stamp)


def _row(one: Decided) -> list[Any]:
    its = one.dependency
    dependency = [its.type, its.resource, its.life_seconds]
    at = None if one.decided_at is None else from_datetime(one.decided_at)
    return [dependency, one.decision, at, one.job_id, one.suppressed]


def _read_row(rule: str, row: Sequence[Any]) -> Decided:
    dependency, decision, at, job_id, suppressed = row
    when: datetime | None = maybe_datetime(at)
    its = read_dependency(dependency)
    return Decided(rule, its, Decision(decision), when, job_id, suppressed)
