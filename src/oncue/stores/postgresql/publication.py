"""Events that are published to PostgreSQL, where other processes publish at the same time.

A transaction first stores its events, then locks the rules that may decide on them, in the order of
their names, and only then looks what these have accepted. So two events that only together meet a
rule fire it once, whichever node they come to; and no two publications wait for each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from oncue.core.event import Bounds, Event, Fact
from oncue.core.firing import Decision
from oncue.core.moment import Moment
from oncue.core.publication import Conclusion
from oncue.core.rule import match_keys
from oncue.core.stamp import Stamp
from oncue.stores.postgresql.joined import PgJoined
from oncue.stores.relational import publication
from oncue.stores.relational.part import RelationalPart
from oncue.stores.relational.publication import Logged, Matching, Publication, PublishProgress
from oncue.stores.relational.rules import StoredRule, Wait, all_stored
from oncue.stores.relational.rules import event as event_of

FIRST_LOOKED_FOR = 8  # events whose rules are looked for at first


class NewestAccepted(NamedTuple):
    """Of the accepted events of a dependency, the first with the newest stamp."""

    stamp: Stamp
    event_n: int
    event: Event | None
    """None: it is no longer kept."""


class PgPublication(Publication[PgJoined]):
    def __init__(
        self, store: RelationalPart[PgJoined], tx: PgJoined, now: Moment, bounds: Bounds
    ) -> None:
        super().__init__(store, tx, now, bounds)
        self._logged: dict[Fact, Logged] = {}
        self._fresh: set[int] = set()
        """Events that this transaction stored and has not answered for."""
        self._names: dict[int, Sequence[str]] = {}
        """By position of the event: the rules that are to decide on it."""
        self._room: dict[int, int] = {}
        """How many of these are held, also if others turn out to be gone."""
        self._matching: dict[int, Matching] = {}
        self._decided: set[tuple[int, int]] = set()
        """Rules and events on which they decided."""
        self._rules: dict[int, StoredRule] = {}
        self._newest: dict[int, NewestAccepted] = {}
        """By number of the dependency."""

    def hold(self, events: Sequence[Event], since: PublishProgress) -> None:
        position, rules, _ = since
        part, look_for_rules = {position: events[position]}, []
        if rules is None:
            part = _part(events, position, FIRST_LOOKED_FOR)
            look_for_rules.append(("events", "candidates", _keys(part)))
        else:
            self._names[position] = rules
        if since == PublishProgress():
            stored, by_ids, *found = self.tx.together(
                ("events", "reserve", self._reservation(events)),
                ("events", "by_ids", {"ids": [event.id for event in events]}),
                *look_for_rules,
            )
            publication.refuse_known(events, by_ids)
            self._fresh.update(map(self._note, stored))
            self._keep(events)
            self._remember_ids(events, {row[0] for row in by_ids})
        else:
            found = self.tx.together(*look_for_rules)
        chosen = self._choose(events, part, [one for rows in found for one in rows])
        self._keep(chosen.values())
        if held := self._lock_rules(chosen):
            self._read_rules(chosen, held)

    def _choose(
        self, events: Sequence[Event], part: Mapping[int, Event], candidates: Iterable[Any]
    ) -> dict[int, Event]:
        """The events for whose decisions there is room. Their rules are looked for in parts that
        grow: an event may match many rules, and those for which there is no room are looked for
        again by the next transaction. `candidates`: of the first part."""
        chosen: dict[int, Event] = {}
        room, some = publication.DECISIONS_AT_ONCE, FIRST_LOOKED_FOR
        while part:
            names: dict[int, list[str]] = {}
            for at, name in candidates:
                names.setdefault(at, []).append(name)
            self._names |= {at: sorted(of_event) for at, of_event in names.items()}
            for at, event in part.items():
                if room > 0:
                    chosen[at], self._room[at] = event, room
                    room -= 1 + len(self._names.get(at, ()))
            some *= 4
            part = _part(events, max(chosen) + 1, min(some, room))
            candidates = self.tx.rows("events", "candidates", _keys(part)) if part else ()
        return chosen

    def room_for(self, at: int, room: int) -> int:
        return min(room, self._room.get(at, 0))

    def matching(
        self, at: int, event: Event, names: Sequence[str] | None, room: int
    ) -> tuple[Sequence[str], Matching]:
        return self._names.get(at, ()), self._matching.get(at, {})

    def log(self, at: int, event: Event, decided: int = 0) -> tuple[Logged, bool]:
        logged = self._logged[event.fact]
        is_fresh = logged.n in self._fresh
        self._fresh.discard(logged.n)
        if is_fresh and decided:
            self.tx.do("events", "count_decided", {"n": logged.n, "rules": decided})
        return logged, is_fresh

    def _reservation(self, events: Iterable[Event]) -> dict[str, Any]:
        """Parameters of `events.sql: reserve`, with the first event of each fact."""
        wanted: dict[Fact, Event] = {}
        for event in events:
            wanted.setdefault(event.fact, event)
        return {**_columns(wanted.values()), "now": self.now}

    def _keep(self, events: Iterable[Event]) -> None:
        """See that these events are there, and stay until the end of the transaction."""
        missing = self._find(events)
        while missing:  # their ids belong to other events; or they have been removed
            publication.refuse_taken(self.tx, missing)
            stored = self.tx.rows("events", "reserve", self._reservation(missing))
            self._fresh.update(map(self._note, stored))
            missing = self._find(missing)

    def _remember_ids(self, events: Sequence[Event], known: Collection[str]) -> None:
        """Let other ids of events that are there belong to them. Another event may have come with
        one of them since these were looked for. So an id is stored first, which waits for other
        transactions that store it, and then its owner is read."""
        others = sorted((one for one in events if one.id not in known), key=attrgetter("id"))
        for event in others:
            publication.remember_id(self.tx, self._logged[event.fact], event.id)
        publication.refuse_taken(self.tx, others)

    def _find(self, events: Iterable[Event]) -> list[Event]:
        """Look for those that this transaction does not know. Those that are not there."""
        unknown = [one for one in events if one.fact not in self._logged]
        if unknown:
            for row in self.tx.rows("events", "keep", _columns(unknown)):
                self._note(row)
        return [one for one in unknown if one.fact not in self._logged]

    def _note(self, row: Sequence[Any]) -> int:
        logged = Logged(row[0], event_of(row))
        self._logged[logged.event.fact] = logged
        return logged.n

    def _lock_rules(self, some: Iterable[int]) -> list[int]:
        """Lock the rules that this transaction has room for. Their numbers."""
        wanted = {name for at in some for name in self._names.get(at, ())[: self._room[at]]}
        if not wanted:
            return []
        return [n for [n] in self.tx.rows("rules", "lock", {"names": sorted(wanted)})]

    def _read_rules(self, events: Mapping[int, Event], held: list[int]) -> None:
        """Read these rules, now that they are locked, and their dependencies that the events
        match."""
        ns = {"ns": held}
        known = {logged.n for logged in self._logged.values()} - self._fresh
        matches, decided, rules, dependencies, newest = self.tx.together(
            ("events", "matches", {**_keys(events), **ns}),
            ("events", "decided_on", {**ns, "events": sorted(known)}),
            ("rules", "rules_by_numbers", ns),
            ("rules", "dependencies_of", ns),
            ("events", "newest_of", ns),
        )
        for at, name, rule_n, dependency_n in matches:
            of_event = self._matching.setdefault(at, {})
            of_event.setdefault(name, (rule_n, []))[1].append(dependency_n)
        self._decided = {(rule_n, event_n) for rule_n, event_n in decided}
        self._rules = {one.n: one for one in all_stored(rules, dependencies)}
        for n, stamp, event_n, *row in newest:
            event = None if row[0] is None else event_of(row)
            self._newest[n] = NewestAccepted(stamp, event_n, event)

    def repeated(self, rule_n: int, event_n: int) -> list[Any]:
        return super().repeated(rule_n, event_n) if (rule_n, event_n) in self._decided else []

    def rule(self, n: int) -> StoredRule:
        return self._rules[n]

    def newest(self, wait: Wait, t: Stamp) -> Stamp | None:
        known = self._newest.get(wait.n)
        if known is None:
            return None
        return known.stamp if known.stamp <= t else super().newest(wait, t)

    def first_at(self, wait: Wait, stamp: Stamp) -> Event | None:
        known = self._newest.get(wait.n)
        if known is None or known.stamp < stamp:
            return None
        if known.stamp == stamp and known.event is not None:
            return known.event
        return super().first_at(wait, stamp)

    def concluded(
        self, known: StoredRule, logged: Logged, validated: Sequence[int], conclusion: Conclusion
    ) -> None:
        """Keep up with what was stored."""
        waits, decision, event = list(known.waits), conclusion.decision, logged.event
        for place in validated:
            wait = waits[place]
            if decision is Decision.ACCEPTED:
                self._accepted(wait.n, logged)
                newest = event.stamp if wait.newest is None else max(wait.newest, event.stamp)
                waits[place] = wait._replace(newest=newest)
            elif decision is Decision.STALE:
                waits[place] = wait._replace(stale=True)
        rule, fired = known.rule, conclusion.job
        if fired is not None:
            rule = replace(rule, last_instant=fired.instant, last_job_id=fired.job.id)
        self._decided.add((known.n, logged.n))
        self._rules[known.n] = known._replace(rule=rule, waits=waits, touched=True)

    def _accepted(self, dependency_n: int, logged: Logged) -> None:
        known, stamp = self._newest.get(dependency_n), logged.event.stamp
        if known is None or (-stamp, logged.n) < (-known.stamp, known.event_n):
            self._newest[dependency_n] = NewestAccepted(stamp, logged.n, logged.event)


def _part(events: Sequence[Event], start: int, length: int) -> dict[int, Event]:
    """By position. None, if the length is not positive."""
    return dict(enumerate(events[start : start + max(length, 0)], start))


def _columns(events: Iterable[Event]) -> dict[str, list[Any]]:
    columns = list(zip(*((one.id, str(one.type), *one.fact[1:]) for one in events), strict=True))
    return dict(zip(("ids", "types", "resources", "stamps"), map(list, columns), strict=True))


def _keys(events: Mapping[int, Event]) -> dict[str, list[Any]]:
    """The keys by which dependencies match these events: a row for each key of each event."""
    rows = []
    for at, event in events.items():
        keys = match_keys(event)
        rows.append((at, str(event.type), keys.exact, True))
        rows += [(at, str(event.type), above, False) for above in keys.above]
    columns = map(list, zip(*rows, strict=True))
    return dict(zip(("ats", "types", "keys", "exacts"), columns, strict=True))
