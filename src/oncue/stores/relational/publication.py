"""What becomes of events that are published, in one transaction of a store on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple

from oncue.core import event as core
from oncue.core.event import Bounds, Event
from oncue.core.firing import Decision
from oncue.core.moment import Moment
from oncue.core.publication import Conclusion, Decided, Fired, Published, conclude
from oncue.core.rule import match_keys
from oncue.core.stamp import Stamp
from oncue.stores.relational.part import RelationalPart, X
from oncue.stores.relational.rules import (
    StoredRule,
    Wait,
    decided,
    first_at,
    keep_pair,
    markers_of,
    newest_stamp,
    numbered,
)
from oncue.stores.relational.rules import event as event_of
from oncue.stores.relational.tx import RelationalTx

DECISIONS_AT_ONCE = 500  # of rules on events in one transaction, so that others can write

Matching = dict[str, tuple[int, list[int]]]
"""Rules that an event matches, by name: the number of each, and the numbers of its dependencies
that match."""


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


class Publication(Generic[X]):
    """One transaction of a publication. A store in which several write at once overrides what
    comes before `some`."""

    def __init__(self, store: RelationalPart[X], tx: X, now: Moment, bounds: Bounds) -> None:
        self.store = store
        self.tx = tx
        self.now = now
        self.bounds = bounds
        self.reserved: frozenset[int] = frozenset()

    def hold(self, events: Sequence[Event], since: PublishProgress) -> None:
        """Before anything is decided: keep others from what this transaction may decide. The first
        of a call raises if an id is taken."""
        if since == PublishProgress():
            refuse_taken(self.tx, events)

    def room_for(self, at: int, room: int) -> int:
        """How many rules may decide on an event, if there is room for so many decisions."""
        return room

    def matching(
        self, at: int, event: Event, names: Sequence[str] | None, room: int
    ) -> tuple[Sequence[str], Matching]:
        """The names of the rules that are to decide on the event, in order: those given, or all
        that it matches. And those among the first `room` of them that it matches now."""
        keys = match_keys(event)
        above = self.tx.texts([keys.exact, *keys.above])
        params = {"type": event.type, "keys": above, "exact": keys.exact}
        statement = "matching"
        if names is not None:
            statement, params["names"] = "matching_of", self.tx.texts(names[:room])
        found: Matching = {}
        for name, rule_n, dependency_n in self.tx.run("events", statement, params):
            found.setdefault(name, (rule_n, []))[1].append(dependency_n)
        return sorted(found) if names is None else names, found

    def log(self, at: int, event: Event, decided: int = 0) -> tuple[Logged, bool]:
        """The event as it is stored, and whether it was stored just now, to be decided on by so
        many rules."""
        if at in self.reserved:
            known = logged_event(self.tx, event)
            if known is not None:
                return known, False
        return log_event(self.tx, event, self.now, decided)

    def repeated(self, rule_n: int, event_n: int) -> list[Any]:
        """Count a repetition of what the rule decided on the event. The rows; none: it has not."""
        params = {"rule_n": rule_n, "event_n": event_n, "now": self.now}
        return self.tx.rows("events", "repeat", params)

    def rule(self, n: int) -> StoredRule:
        return numbered(self.tx, n)

    def newest(self, wait: Wait, t: Stamp) -> Stamp | None:
        """The newest stamp by `t` of an event that was accepted for the dependency."""
        return newest_stamp(self.tx, wait.n, t)

    def first_at(self, wait: Wait, stamp: Stamp) -> Event | None:
        """The first event that was accepted for the dependency with this stamp."""
        return first_at(self.tx, wait.n, stamp)

    def concluded(
        self, known: StoredRule, logged: Logged, validated: Sequence[int], conclusion: Conclusion
    ) -> None:
        """A rule made this of an event, for its dependencies at these places."""

    def some(
        self, events: Sequence[Event], since: PublishProgress
    ) -> tuple[list[tuple[int, Published]], PublishProgress]:
        """Go on: the additions to the answers, by position, and how far it has come then. The first
        transaction of a call stores all events: if an id is taken, nothing is stored."""
        self.hold(events, since)
        parts: list[tuple[int, Published]] = []
        room = DECISIONS_AT_ONCE
        position, rules, self.reserved = since
        while position < len(events) and (here := self.room_for(position, room)) > 0:
            part, rules = self._decide(position, events[position], rules, here)
            if position in self.reserved:
                part = replace(part, duplicate=False)
            parts.append((position, part))
            room -= 1 + len(part.decisions)
            if rules:
                break
            position, rules = position + 1, None
        if since == PublishProgress():
            rest = range(position, len(events))
            self.reserved = frozenset(at for at in rest if self.log(at, events[at])[1])
        return parts, PublishProgress(position, rules, self.reserved)

    def _decide(
        self, at: int, event: Event, rules: Sequence[str] | None, room: int
    ) -> tuple[Published, Sequence[str]]:
        """Let rules decide on one event; also those that there was no room for."""
        rules, matching = self.matching(at, event, rules, room)
        chosen = [name for name in rules[:room] if name in matching]  # others are gone meanwhile
        logged, fresh = self.log(at, event, len(chosen))
        decisions: list[Decided] = []
        jobs: list[Fired] = []
        new = 0
        for name in chosen:
            rule_n, matched = matching[name]
            before = [] if fresh else self.repeated(rule_n, logged.n)
            if before:
                decisions += [decided(name, row) for row in before]
                continue
            concluded = self._conclude(rule_n, logged, matched)
            new += 1
            decisions += concluded.decisions
            jobs += concluded.fired
        if new and not fresh:
            self.tx.do("events", "count_decided", {"n": logged.n, "rules": new})
        duplicate = not fresh and not new
        return Published(logged.event, duplicate, tuple(decisions), tuple(jobs)), rules[room:]

    def _conclude(self, rule_n: int, logged: Logged, matched: Sequence[int]) -> Conclusion:
        """What a rule makes of the event, applied. `matched` are the numbers of its dependencies
        that the event matches."""
        tx, event = self.tx, logged.event
        known = keep_pair(tx, self.rule(rule_n))
        waits = known.waits
        validated = [place for place, wait in enumerate(waits) if wait.n in matched]
        concluded = conclude(
            known.rule,
            event,
            validated,
            known.newest,
            self.bounds,
            self.now,
            lambda place, t: self.newest(waits[place], t),
            lambda place, stamp: self.first_at(waits[place], stamp),
            markers_of(tx, known),
        )
        for place, one in zip(validated, concluded.decisions, strict=True):
            self._apply(rule_n, logged, waits[place], one)
        if not known.touched:
            tx.do("events", "touch", {"n": rule_n})
        if concluded.job is not None:
            fired = concluded.job
            self.store._insert_fired(tx, fired)
            params = {"n": rule_n, "instant": fired.instant, "job_id": fired.job.id}
            tx.do("events", "fired", params)
        self.concluded(known, logged, validated, concluded)
        return concluded

    def _apply(self, rule_n: int, logged: Logged, wait: Wait, one: Decided) -> None:
        """Store what was decided for one dependency."""
        tx, its = self.tx, one.dependency
        params = {
            "rule_n": rule_n,
            "event_n": logged.n,
            "dependency_n": wait.n,
            "decision": one.decision,
            "type": its.type,
            "resource": its.resource,
            "life_seconds": its.life_seconds,
            "now": self.now,
            "job_id": one.job_id,
            "suppressed": one.suppressed,
        }
        tx.do("events", "decide", params)
        if one.decision is Decision.ACCEPTED:
            accept(tx, wait, logged.event.stamp, logged.n)
        elif one.decision is Decision.STALE and not wait.stale:
            tx.do("events", "note_stale", {"n": wait.n})


def logged_event(tx: RelationalTx, event: Event) -> Logged | None:
    """The event as it is stored; None: it is not."""
    fact = {"type": event.type, "resource": event.resource, "stamp": event.stamp}
    known = tx.run("events", "by_fact", fact).fetchone()
    return None if known is None else Logged(known[0], event_of(known))


def log_event(tx: RelationalTx, event: Event, now: Moment, decided: int = 0) -> tuple[Logged, bool]:
    """The event as it is stored, and whether it was stored just now, to be decided on by so many
    rules."""
    params = {
        "id": event.id,
        "type": event.type,
        "resource": event.resource,
        "stamp": event.stamp,
        "now": now,
        "decided": decided,
    }
    while True:
        n: Any = tx.run("events", "store", params).get
        if n is not None:
            return Logged(n, event), True
        known = logged_event(tx, event)
        if known is not None:
            remember_id(tx, known, event.id)
            return known, False
        # Its id belongs to another event, perhaps since the call began; or the fact is there no
        # longer, where others can remove it between the two statements.
        refuse_taken(tx, [event])


def remember_id(tx: RelationalTx, logged: Logged, event_id: str) -> None:
    """Let an id belong to an event that is known, too."""
    if event_id != logged.event.id:
        tx.do("events", "also", {"id": event_id, "n": logged.n, "most": core.MOST_IDS})


def accept(tx: RelationalTx, wait: Wait, stamp: Stamp, event_n: int) -> None:
    """Count an event among those that validate a dependency."""
    tx.do("events", "accept", {"n": wait.n, "stamp": stamp, "event_n": event_n})
    if wait.newest is None or wait.newest < stamp:
        tx.do("events", "note_newest", {"n": wait.n, "stamp": stamp})


def refuse_taken(tx: RelationalTx, events: Sequence[Event]) -> None:
    """Raise if an id belongs to another event, here or among these."""
    if not events:
        return
    params = {"ids": tx.texts([event.id for event in events])}
    refuse_known(events, tx.rows("events", "by_ids", params))


def refuse_known(events: Sequence[Event], found: Sequence[Sequence[Any]]) -> None:
    """The same, with the rows of `events.sql: by_ids`."""
    core.refuse_taken(events, {row[0]: tuple(row[1:]) for row in found})
