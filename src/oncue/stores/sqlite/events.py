"""Events in SQLite: publishing them to the rules, and listing them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from oncue.core import event as core
from oncue.core.cursor import Cursor, number_at
from oncue.core.event import Bounds, Event, id_taken
from oncue.core.firing import Decision
from oncue.core.moment import Moment, to_datetime
from oncue.core.publication import (
    Conclusion,
    Decided,
    EventFilter,
    EventPage,
    Fired,
    LoggedEvent,
    Published,
    conclude,
)
from oncue.core.rule import match_keys
from oncue.core.stamp import Stamp
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database, StorePart
from oncue.stores.sqlite.rules import Wait, decided, first_at, newest_stamp, stored
from oncue.stores.sqlite.rules import event as event_of

SQL = rows.load("events")
RULES = rows.load("rules")
INSERT_FIRED = rows.load("jobs")["insert_fired"]
DECISIONS_AT_ONCE = 500  # of rules on events in one transaction, so that others can write
_LAST = 2**63 - 1


class PublishProgress(NamedTuple):
    """How far a call has come."""

    position: int = 0
    """Of the event under way."""
    rules: Sequence[str] | None = None
    """Those that have yet to decide on it; None: not looked for so far."""
    reserved: frozenset[int] = frozenset()
    """Events that this call stored ahead of their turn, so that no other event takes their ids."""


class Logged(NamedTuple):
    """An event and the number of its row."""

    n: int
    event: Event


class SqliteEvents(StorePart):
    def publish(self, events: Sequence[Event], now: Moment, bounds: Bounds) -> Sequence[Published]:
        parts: list[list[Published]] = [[] for _ in events]
        progress = PublishProgress()

        def some(tx: rows.Tx) -> tuple[list[tuple[int, Published]], PublishProgress]:
            return _Publication(self.db, tx, now, bounds).some(events, progress)

        while progress.position < len(events):
            added, progress = self.db.write(some)
            for position, part in added:
                parts[position].append(part)
        return [_joined(of_event) for of_event in parts]

    def events(self, wanted: EventFilter, after: Cursor | None, limit: int) -> EventPage:
        before = _LAST if after is None else number_at(after)
        params: dict[str, Any] = {"before": before, "limit": limit}
        with self.db.reading() as tx:
            statement = "page"
            if wanted.decision is not None:
                statement, params["decision"] = "page_decision", str(wanted.decision)
            if wanted.rule is not None:
                rule = rows.first(tx, RULES["rule"], {"name": wanted.rule})
                if rule is None:
                    return EventPage([], None)
                statement, params["rule_n"] = "page_rule", rule[0]
                params.setdefault("decision", None)
            found = rows.fetch(tx, SQL[statement], params)
            decisions = _decisions_of(tx, [row[0] for row in found], wanted)
        items = [
            LoggedEvent(event_of(row), to_datetime(row[5]), tuple(decisions[row[0]]))
            for row in found
            if decisions[row[0]] or wanted == EventFilter()
        ]
        return EventPage(items, str(found[-1][0]) if len(found) == limit else None)


class _Publication(NamedTuple):
    """One transaction of a publication."""

    db: Database
    tx: rows.Tx
    now: Moment
    bounds: Bounds

    def some(
        self, events: Sequence[Event], since: PublishProgress
    ) -> tuple[list[tuple[int, Published]], PublishProgress]:
        """Go on: the additions to the answers, by position, and how far it has come then. The first
        transaction of a call stores all events: if an id is taken, nothing is stored."""
        is_first = since == PublishProgress()
        if is_first:
            refuse_taken(self.tx, events)
        parts: list[tuple[int, Published]] = []
        room = DECISIONS_AT_ONCE
        position, rules, reserved = since
        while position < len(events) and room > 0:
            part, rules = self._decide(events[position], rules, room)
            if position in reserved:
                part = replace(part, duplicate=False)
            parts.append((position, part))
            room -= 1 + len(part.decisions)
            if rules:
                break
            position, rules = position + 1, None
        if is_first:
            rest = range(position, len(events))
            reserved = frozenset(at for at in rest if log_event(self.tx, events[at], self.now)[1])
        return parts, PublishProgress(position, rules, reserved)

    def _decide(
        self, event: Event, rules: Sequence[str] | None, room: int
    ) -> tuple[Published, Sequence[str]]:
        """Let rules decide on one event; also those that there was no room for."""
        matching = _matching(self.tx, event, None if rules is None else rules[:room])
        rules = sorted(matching) if rules is None else rules
        chosen = [name for name in rules[:room] if name in matching]  # others are gone meanwhile
        logged, fresh = log_event(self.tx, event, self.now, decided=len(chosen))
        decisions: list[Decided] = []
        jobs: list[Fired] = []
        new = 0
        for name in chosen:
            rule_n, matched = matching[name]
            params = {"rule_n": rule_n, "event_n": logged.n, "now": self.now}
            before = [] if fresh else rows.fetch(self.tx, SQL["repeat"], params)
            if before:
                decisions += [decided(name, row) for row in before]
                continue
            concluded = self._conclude(rule_n, logged, matched)
            new += 1
            decisions += concluded.decisions
            jobs += concluded.fired
        if new and not fresh:
            self.tx.execute(SQL["count_decided"], {"n": logged.n, "rules": new})
        duplicate = not fresh and not new
        return Published(logged.event, duplicate, tuple(decisions), tuple(jobs)), rules[room:]

    def _conclude(self, rule_n: int, logged: Logged, matched: Sequence[int]) -> Conclusion:
        """What a rule makes of the event, applied. `matched` are the numbers of its dependencies
        that the event matches."""
        tx, event = self.tx, logged.event
        known = stored(tx, rows.first(tx, RULES["rule_by_number"], {"n": rule_n}))
        waits = known.waits
        validated = [place for place, wait in enumerate(waits) if wait.n in matched]
        concluded = conclude(
            known.rule,
            event,
            validated,
            known.newest,
            self.bounds,
            self.now,
            lambda place, t: newest_stamp(tx, waits[place].n, t),
            lambda place, stamp: first_at(tx, waits[place].n, stamp),
        )
        for place, one in zip(validated, concluded.decisions, strict=True):
            wait, its = waits[place], one.dependency
            copied = (its.type, its.resource, its.life_seconds)
            values = (one.decision, *copied, self.now, one.job_id, one.suppressed)
            tx.execute(SQL["decide"], (rule_n, logged.n, wait.n, *values))
            if one.decision is Decision.ACCEPTED:
                accept(tx, wait, event.stamp, logged.n)
            elif one.decision is Decision.STALE and not wait.stale:
                tx.execute(SQL["note_stale"], (wait.n,))
        if not known.touched:
            tx.execute(SQL["touch"], (rule_n,))
        if concluded.job is not None:
            job, rule, instant = concluded.job
            tx.execute(INSERT_FIRED, (*job[:6], rule, instant))
            tx.execute(SQL["fired"], {"n": rule_n, "instant": instant, "job_id": job.id})
            self.db.arrived(tx, {job.queue: job.due_at})
        return concluded


def log_event(tx: rows.Tx, event: Event, now: Moment, decided: int = 0) -> tuple[Logged, bool]:
    """The event as it is stored, and whether it was stored just now, to be decided on by so many
    rules."""
    row: Any = tx.execute(SQL["store"], (event.id, *event.fact, now, decided)).get
    if row is not None:
        return Logged(row, event), True
    known: Any = tx.execute(SQL["by_fact"], event.fact).fetchone()
    if known is None:  # its id belongs to another event, perhaps since the call began
        raise id_taken(event)
    return Logged(known[0], event_of(known)), False


def accept(tx: rows.Tx, wait: Wait, stamp: Stamp, event_n: int) -> None:
    """Count an event among those that validate a dependency."""
    tx.execute(SQL["accept"], (wait.n, stamp, event_n))
    if wait.newest is None or wait.newest < stamp:
        tx.execute(SQL["note_newest"], (wait.n, stamp))


def refuse_taken(tx: rows.Tx, events: Sequence[Event]) -> None:
    """Raise if an id belongs to another event, here or among these."""
    if not events:
        return
    params = {"ids": rows.texts([event.id for event in events])}
    found = rows.fetch(tx, SQL["by_ids"], params)
    core.refuse_taken(events, {row[0]: tuple(row[1:]) for row in found})


def _matching(
    tx: rows.Tx, event: Event, names: Sequence[str] | None
) -> dict[str, tuple[int, list[int]]]:
    """The rules that the event matches, by name, among those named if any are: the number of each,
    and the numbers of its dependencies that match."""
    keys = match_keys(event)
    params = [event.type, rows.texts([keys.exact, *keys.above]), keys.exact]
    statement = SQL["matching"]
    if names is not None:
        statement, params = SQL["matching_of"], [*params, rows.texts(names)]
    found: dict[str, tuple[int, list[int]]] = {}
    row: Any
    for row in tx.execute(statement, params):
        name, rule_n, dependency_n = row
        found.setdefault(name, (rule_n, []))[1].append(dependency_n)
    return found


def _decisions_of(
    tx: rows.Tx, ns: Sequence[int], wanted: EventFilter
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


def _joined(parts: Sequence[Published]) -> Published:
    """What several transactions did about one event."""
    return Published(
        parts[0].event,
        all(part.duplicate for part in parts),
        tuple(one for part in parts for one in part.decisions),
        tuple(job for part in parts for job in part.jobs),
    )
