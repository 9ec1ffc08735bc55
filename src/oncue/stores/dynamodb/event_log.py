"""The events that the table knows: their ids, the order of their arrival, who may wait for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from oncue.core import event as core
from oncue.core.event import MOST_IDS, Event, EventType, Fact, id_taken
from oncue.core.ids import serial
from oncue.core.moment import Moment
from oncue.core.rule import match_keys
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.filed_event import (
    FiledEvent,
    as_read,
    decision_key,
    id_item,
    is_over,
    read_event,
)
from oncue.stores.dynamodb.filed_rule import FiledRule
from oncue.stores.dynamodb.jobs import MOST_RACES, too_many_races
from oncue.stores.dynamodb.keys import Key
from oncue.stores.dynamodb.rules import DynamoRules
from oncue.stores.dynamodb.writes import If, Item, Put, Remove, as_ttl, has, mark

RESERVED_MS = 60_000
"""For so long an id is kept for an event that has yet to be stored."""


class Received(NamedTuple):
    event: Event
    at: Moment
    arrived_at: Moment
    """Its place in the order of arrival."""
    until: Moment | None
    """When it is forgotten, if no rule is to decide on it."""
    other_ids: tuple[str, ...] = ()
    """Under which it came as well."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Those that are remembered."""
        return (self.event.id, *self.other_ids)[:MOST_IDS]

    @property
    def fact(self) -> Fact:
        return self.event.fact

    @property
    def ttl(self) -> int | None:
        return None if self.until is None else as_ttl(self.until)


class WantedId(NamedTuple):
    """An id that is to belong to an event, and when the table forgets it."""

    event: Event
    """Under that id."""
    ttl: int | None


class DynamoEventLog(DynamoRules):
    # Who may wait for an event.

    def _matching(self, facts: Iterable[Fact]) -> dict[Fact, set[str]]:
        """Names of the rules that may match each of these, or did once."""
        wanted = {fact: _kinds(fact) for fact in facts}
        every = list({kind: None for kinds in wanted.values() for kind in kinds})
        found = dict(zip(every, self.table.each(self._waiting_for, every), strict=True))
        return {fact: set().union(*(found[kind] for kind in wanted[fact])) for fact in wanted}

    def _waiting_for(self, kind: tuple[EventType, str]) -> set[str]:
        items = self.table.query(keys.waiting_for(*kind))
        return {item["rule"] for item in items}

    # Ids.

    def _refuse_taken(self, events: Sequence[Event], now: Moment) -> dict[str, Item]:
        """Raise if an id belongs to another event, in the table or among these. Answers with what
        the table has of these ids. An id that was reserved for an event which was not stored, then
        or since, belongs to nobody."""
        core.refuse_taken(events, {})
        items = self.table.read(keys.event_id(event.id) for event in events)
        found = {
            event.id: items[key] for event in events if (key := keys.event_id(event.id)) in items
        }
        others = [event for event in events if _is_other(found.get(event.id), event)]
        facts = {event.id: keys.read_fact(found[event.id]["fact"]) for event in others}
        stored = self._known_events(facts.values(), now)
        for event in others:
            is_reserved = found[event.id]["since"] > now - RESERVED_MS
            if is_reserved or facts[event.id] in stored:
                raise id_taken(event)
        return found

    def _reserve(self, wanted: Sequence[WantedId], ids: dict[str, Item], now: Moment) -> None:
        """Make ids belong to events that are there or about to be stored: all of them, or it
        raises. `ids` are what the table was seen to have of them."""
        token = mark()
        left = list(wanted)
        reserved: list[Key] = []
        try:
            for _ in range(MOST_RACES):
                items = [
                    _with_ttl(id_item(one.event.id, one.event.fact, now, token), one.ttl)
                    for one in left
                ]
                places = zip(left, items, strict=True)
                puts = [Put(item, as_read(ids.get(one.event.id))) for one, item in places]
                done = self.table.write_each(puts)
                reserved += [put.key for put, was in zip(puts, done, strict=True) if was]
                left = [one for one, was in zip(left, done, strict=True) if not was]
                if not left:
                    return
                ids = self._refuse_taken([one.event for one in left], now)
            raise too_many_races()
        except Exception:
            mine = has("token", token)
            self.table.write_each([Remove(key, mine) for key in reserved])
            raise

    # Events.

    def _known_events(self, facts: Iterable[Fact], now: Moment) -> dict[Fact, FiledEvent]:
        """Those of these events that the table has."""
        return _present(self.table.read(keys.event(fact) for fact in facts), now)

    def _log(
        self, received: Sequence[Received], ids: dict[str, Item], now: Moment
    ) -> tuple[dict[Fact, FiledEvent], set[Fact]]:
        """Store those of these events that are not there: all of them as they are now, and which
        are new. Each fact is here once. `ids` are what `_refuse_taken` answered. Raises
        `EventIdTaken` before anything is stored, if another event was quicker."""
        known: dict[Fact, FiledEvent] = {}
        fresh: set[Fact] = set()
        left = list(received)
        for _ in range(MOST_RACES):
            if not left:
                return known, fresh
            items = self.table.read(keys.event(one.fact) for one in left)
            there = _present(items, now)
            absent = [one for one in left if one.fact not in there]
            then = {one.fact: _known_as(one, there[one.fact]) for one in left if one.fact in there}
            changed = [one for fact, one in then.items() if one != there[fact]]
            wanted = [named for one in absent for named in _wanted(one, 0)]
            wanted += [named for one in changed for named in _wanted(one, len(there[one.fact].ids))]
            self._reserve(wanted, ids, now)
            stored = self._store(absent, items)
            fresh |= stored.keys()
            seen = [has("token", there.pop(one.fact).token) for one in changed]
            known |= there | stored | self._rewrite(changed, seen)
            left = [one for one in left if one.fact not in known]
        raise too_many_races()

    def _store(
        self, received: Sequence[Received], items: Mapping[Key, Item]
    ) -> dict[Fact, FiledEvent]:
        """Store events; those that nobody else stored meanwhile. `items` are what the table was
        seen to have in their place. The order of arrival comes first: it says nothing of an event
        that is not there, or that has another place."""
        new = [
            FiledEvent(*(one.event, serial(one.arrived_at), one.at, mark(), one.ttl, one.ids[1:]))
            for one in received
        ]
        rows = [one.as_items() for one in new]
        self.table.write(place for _, place, *_ in rows)
        pairs = zip(new, rows, strict=True)
        puts = [Put(row[0], as_read(items.get(keys.event(one.fact)))) for one, row in pairs]
        done = self.table.write_each(puts)
        results = list(zip(new, done, strict=True))
        self.table.write(removed=(keys.arrived(one.arrival) for one, was in results if not was))
        return {one.fact: one for one, was in results if was}

    def _keep(
        self, events: Sequence[FiledEvent], ttls: Sequence[int | None]
    ) -> dict[Fact, FiledEvent]:
        """Let the table forget events at other times, or never (None). As they are then, without
        those that changed since they were read."""
        then = [one._replace(ttl=ttl) for one, ttl in zip(events, ttls, strict=True)]
        return self._rewrite(then, [has("token", one.token) for one in events])

    def _hold(self, events: Sequence[FiledEvent]) -> None:
        """Keep events that were known before, and on which a rule has decided just now. Whoever
        looked before the decision may be about to let the table forget them, or has done so: they
        are put back, unless they came again meanwhile."""
        left = [one._replace(ttl=None) for one in events]
        seen = [has("token", one.token) for one in left]
        for _ in range(MOST_RACES):
            done = self._rewrite(left, seen)
            left = [one for one in left if one.fact not in done]
            if not left:
                return
            items = self.table.read(keys.event(one.fact) for one in left)
            left = [one for one in left if _is_free_for(one, items.get(keys.event(one.fact)))]
            seen = [as_read(items.get(keys.event(one.fact))) for one in left]
        raise too_many_races()

    def _rewrite(self, events: Sequence[FiledEvent], seen: Sequence[If]) -> dict[Fact, FiledEvent]:
        """Write those of these events that are as they were seen, with their other items: as they
        are then. The other items come first. Where the event has changed, these are written again
        as it says now."""
        then = [one._replace(token=mark()) for one in events]
        rows = [one.as_items() for one in then]
        self.table.write(item for row in rows for item in row[1:])
        done = self.table.write_each(
            [Put(row[0], only_if) for row, only_if in zip(rows, seen, strict=True)]
        )
        self._mend([one.fact for one, was in zip(then, done, strict=True) if not was])
        return {one.fact: one for one, was in zip(then, done, strict=True) if was}

    def _mend(self, facts: Iterable[Fact]) -> None:
        """Let the other items of events be as the events say, if these are there."""
        found = self.table.read(map(keys.event, facts)).values()
        self.table.write(item for one in found for item in read_event(one).as_items()[1:])

    def _release(
        self,
        events: Collection[FiledEvent],
        now: Moment,
        loose_ms: int,
        without: Collection[Key] = (),
    ) -> None:
        """Forget those of these events on which no rule has a decision, as soon as they are old
        enough. Decisions with these keys do not count: they are removed next."""
        known = self._known_events((one.fact for one in events), now)
        same = [known[one.fact] for one in events if _is_same(known.get(one.fact), one)]
        held = self._decided(same, without)
        loose = [one for one in same if one.fact not in held and one.ttl is None]
        self._forget([one for one in loose if one.received_at + loose_ms < now])
        young = [one for one in loose if one.received_at + loose_ms >= now]
        self._keep(young, [as_ttl(one.received_at + loose_ms) for one in young])

    def _decided(self, events: Sequence[FiledEvent], without: Collection[Key]) -> set[Fact]:
        """Those of these events on which a rule has a decision."""
        rules, names = self._rules_of(events)
        places = {
            decision_key(rules[name], one): one.fact for one in events for name in names[one.fact]
        }
        return {places[key] for key in self.table.read(places.keys() - without)}

    def _rules_of(
        self, events: Sequence[FiledEvent]
    ) -> tuple[dict[str, FiledRule], dict[Fact, list[str]]]:
        """The rules that may have decided on these events; and their names by event, sorted."""
        matching = self._matching(one.fact for one in events)
        rules = self._read_rules(name for names in matching.values() for name in names)
        return rules, {fact: sorted(names & rules.keys()) for fact, names in matching.items()}

    def _forget(self, events: Sequence[FiledEvent]) -> None:
        """The event itself goes last: until then, the next who prunes does all of it again."""
        self.table.write_each(
            [
                Remove(keys.event_id(event_id), has("fact", keys.fact_text(one.fact)))
                for one in events
                for event_id in one.ids
            ]
        )
        self.table.write(removed=(keys.arrived(one.arrival) for one in events))
        done = self.table.write_each(
            [Remove(keys.event(one.fact), has("token", one.token)) for one in events]
        )
        self._mend([one.fact for one, was in zip(events, done, strict=True) if not was])


def _kinds(fact: Fact) -> list[tuple[EventType, str]]:
    kind, resource, stamp = fact
    found = match_keys(Event("", kind, resource, stamp))
    return [(kind, key) for key in dict.fromkeys([found.exact, *found.above])]


def _is_other(item: Mapping[str, str] | None, event: Event) -> bool:
    return item is not None and item["fact"] != keys.fact_text(event.fact)


def _is_free_for(one: FiledEvent, item: Item | None) -> bool:
    """Whether the place of an event is empty, or it is there itself."""
    return item is None or item["arrival"] == one.arrival


def _is_same(known: FiledEvent | None, one: FiledEvent) -> bool:
    return known is not None and known.arrival == one.arrival


def _known_as(one: Received, known: FiledEvent) -> FiledEvent:
    """An event that came again, with all its ids; one that is to be decided on is kept."""
    others = dict.fromkeys((*known.ids, *one.ids))
    ttl = None if one.until is None else known.ttl
    return known._replace(ttl=ttl, other_ids=tuple(others)[1:MOST_IDS])


def _wanted(one: Received | FiledEvent, known: int) -> list[WantedId]:
    """The ids of an event that it does not have yet: all but the first so many."""
    return [WantedId(replace(one.event, id=event_id), one.ttl) for event_id in one.ids[known:]]


def _present(items: Mapping[Key, Item], now: Moment) -> dict[Fact, FiledEvent]:
    read = (read_event(item) for item in items.values() if not is_over(item, now))
    return {one.fact: one for one in read}


def _with_ttl(item: Item, ttl: int | None) -> Item:
    return item if ttl is None else {**item, "ttl": ttl}
