"""Events in SQLite: publishing them to the rules, and listing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import apsw

from oncue.core.event import Bounds, Event, id_taken
from oncue.core.moment import Moment, to_datetime
from oncue.core.publication import Decided, EventFilter, EventPage, Fired, LoggedEvent, Published
from oncue.core.rule import match_keys
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.decisions import Logged, decided, repeated, verdict
from oncue.stores.sqlite.rules import event as event_of
from oncue.stores.sqlite.rules import stored
from oncue.stores.sqlite.statements import load

SQL = load("events")
RULES = load("rules")
DECISIONS_AT_ONCE = 500  # of rules on events in one transaction, so that others get their turn
_LAST = 2**63 - 1


class Progress(NamedTuple):
    """How far a call has come."""

    position: int = 0
    """Of the event under way."""
    rules: Sequence[str] | None = None
    """Those that have yet to decide on it; None: not looked for so far."""
    reserved: frozenset[int] = frozenset()
    """Events that this call stored ahead of their turn, so that nobody takes their ids."""


class Part(NamedTuple):
    """What one transaction adds to the answer for one event."""

    position: int
    event: Event
    fresh: bool
    decisions: list[Decided]
    jobs: list[Fired]


class Events:
    db: Database

    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        parts: list[Part] = []
        progress = Progress()
        while progress.position < len(events):
            some = partial(self._some, events=events, since=progress, now=now, bounds=bounds)
            added, progress = self.db.write(some)
            parts += added
        return _answers(len(events), parts)

    def _some(
        self,
        tx: apsw.Connection,
        events: Sequence[Event],
        since: Progress,
        now: Moment,
        bounds: Bounds,
    ) -> tuple[list[Part], Progress]:
        """Go on for one transaction. The first one stores all events: either every id is free or
        nothing is stored."""
        if since == Progress():
            _refuse_taken(tx, events)
        parts: list[Part] = []
        room = DECISIONS_AT_ONCE
        position, rules = since.position, since.rules
        while position < len(events) and room > 0:
            part, rules = self._decide(tx, position, events[position], rules, room, now, bounds)
            parts.append(part._replace(fresh=part.fresh or position in since.reserved))
            room -= 1 + len(part.decisions)
            if rules:
                break
            position, rules = position + 1, None
        reserved = since.reserved
        if since == Progress():
            reserved = _reserve(tx, events, position, now)
        return parts, Progress(position, rules, reserved)

    def _decide(
        self,
        tx: apsw.Connection,
        position: int,
        event: Event,
        rules: Sequence[str] | None,
        room: int,
        now: Moment,
        bounds: Bounds,
    ) -> tuple[Part, Sequence[str]]:
        """Let rules decide on one event; also those that there was no room for."""
        matching = _matching(tx, event, None if rules is None else rules[:room])
        rules = sorted(matching) if rules is None else rules
        chosen = [name for name in rules[:room] if name in matching]  # others are gone meanwhile
        logged, fresh = _log(tx, event, now, decided=len(chosen))
        part = Part(position, logged.event, fresh, [], [])
        new = 0
        for name in chosen:
            rule_n, matched = matching[name]
            said = None if fresh else repeated(tx, (name, rule_n), logged.n, now)
            if said is None:
                mine = stored(tx, rows.first(tx, RULES["rule_by_number"], {"n": rule_n}))
                said = verdict(self.db, tx, mine, logged, matched, now, bounds)
            new += said.fresh
            part.decisions.extend(said.decisions)
            part.jobs.extend([] if said.job is None else [said.job])
        if new and not fresh:
            tx.execute(SQL["count_decided"], {"n": logged.n, "rules": new})
        return part._replace(fresh=fresh or new > 0), rules[room:]

    def events(self, wanted: EventFilter, after: int | None, limit: int) -> EventPage:
        own: dict[str, Any] = {"before": _LAST if after is None else after, "limit": limit}
        with self.db.reading() as tx:
            statement = "page"
            if wanted.decision is not None:
                statement, own["decision"] = "page_decision", str(wanted.decision)
            if wanted.rule is not None:
                rule = rows.first(tx, RULES["rule"], {"name": wanted.rule})
                if rule is None:
                    return EventPage([], None)
                statement, own["rule_n"] = "page_rule", rule[0]
                own.setdefault("decision", None)
            found = rows.fetch(tx, SQL[statement], own)
            decisions = _decisions_of(tx, [row[0] for row in found], wanted)
        items = [
            LoggedEvent(event_of(row), to_datetime(row[5]), tuple(decisions[row[0]]))
            for row in found
            if decisions[row[0]] or wanted == EventFilter()
        ]
        return EventPage(items, found[-1][0] if len(found) == limit else None)


def _refuse_taken(tx: apsw.Connection, events: Sequence[Event]) -> None:
    """Raise if an id belongs to another event, here or among these."""
    if not events:
        return
    own = {"ids": rows.texts([event.id for event in events])}
    held = {str(row[0]): tuple(row[1:]) for row in rows.fetch(tx, SQL["by_ids"], own)}
    for event in events:
        if held.setdefault(event.id, event.fact) != event.fact:
            raise id_taken(event)


def _log(tx: apsw.Connection, event: Event, now: Moment, decided: int) -> tuple[Logged, bool]:
    """The event as it is stored, and whether it was stored just now, to be decided on by so many
    rules."""
    fact = (str(event.type), event.resource, event.stamp)
    row: Any = tx.execute(SQL["store"], (event.id, *fact, now, decided)).fetchone()
    if row is not None:
        return Logged(row[0], event), True
    known: Any = tx.execute(SQL["by_fact"], fact).fetchone()
    if known is None:  # it was forgotten since the call began, and its id went to another event
        raise id_taken(event)
    return Logged(known[0], event_of(known)), False


def _reserve(
    tx: apsw.Connection, events: Sequence[Event], first: int, now: Moment
) -> frozenset[int]:
    """Store the events from the first on, to be decided on later; which of them were new."""
    return frozenset(
        position
        for position in range(first, len(events))
        if _log(tx, events[position], now, decided=0)[1]
    )


def _matching(
    tx: apsw.Connection, event: Event, names: Sequence[str] | None = None
) -> dict[str, tuple[int, list[int]]]:
    """The rules that the event matches, by name, among those named if any are: the number of each,
    and the numbers of its dependencies that match."""
    keys = match_keys(event)
    own = [str(event.type), rows.texts([keys.own, *keys.above]), keys.own]
    statement = SQL["matching"]
    if names is not None:
        statement, own = SQL["matching_of"], [*own, rows.texts(names)]
    found: dict[str, tuple[int, list[int]]] = {}
    row: Any
    for row in tx.execute(statement, own):
        name, rule_n, dependency_n = row
        found.setdefault(name, (rule_n, []))[1].append(dependency_n)
    return found


def _decisions_of(
    tx: apsw.Connection, ns: Sequence[int], wanted: EventFilter
) -> defaultdict[int, list[Decided]]:
    found: defaultdict[int, list[Decided]] = defaultdict(list)
    if not ns:
        return found
    for n, rule, *row in rows.fetch(tx, SQL["decisions_of"], {"ns": rows.numbers(ns)}):
        one = decided(rule, row)
        if wanted.rule in (None, rule) and wanted.decision in (None, one.decision):
            found[n].append(one)
    for ones in found.values():
        ones.sort(key=lambda one: (one.rule, one.decision == "DUPLICATE"))
    return found


def _answers(count: int, parts: Sequence[Part]) -> list[Published]:
    by_position: defaultdict[int, list[Part]] = defaultdict(list)
    for part in parts:
        by_position[part.position].append(part)
    return [
        Published(
            mine[0].event,
            not any(part.fresh for part in mine),
            tuple(one for part in mine for one in part.decisions),
            tuple(job for part in mine for job in part.jobs),
        )
        for mine in (by_position[position] for position in range(count))
    ]
