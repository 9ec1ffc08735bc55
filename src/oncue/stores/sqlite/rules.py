"""Rules in SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from oncue.core.event import Event, EventType
from oncue.core.firing import Decision
from oncue.core.moment import Moment
from oncue.core.publication import Decided
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart, writing

SQL = rows.load("rules")
EVENTS = rows.load("events")
dependency = rows.reader(Dependency, type=EventType)
_read_event = rows.reader(Event, type=EventType)
_read_rule = rows.reader(Rule)
_read_decided = rows.reader(Decided, decision=Decision)


class Wait(NamedTuple):
    """One dependency of a rule, as its row has it."""

    n: int
    dependency: Dependency
    newest: Stamp | None
    stale: bool


class StoredRule(NamedTuple):
    n: int
    rule: Rule
    waits: list[Wait]
    touched: bool
    """Something happened to it since it was last pruned."""
    deleted: bool

    @property
    def newest(self) -> Stamp | None:
        return max((wait.newest for wait in self.waits if wait.newest is not None), default=None)


class SqliteRules(StorePart):
    @writing
    def put_rule(self, tx: rows.Tx, rule: Rule, now: Moment) -> Rule:
        row = rows.first(tx, SQL["rule"], {"name": rule.name})
        settings = {"enabled": rule.enabled, "queue": rule.queue, "payload": rule.payload_json}
        params: dict[str, Any] = {"name": rule.name, **settings, "now": now}
        if row is None:
            n = int(tx.execute(SQL["create"], params).get)
        else:
            n = row[0]
            tx.execute(SQL["change"], {**params, "n": n})
        _depend(tx, n, rule.dependencies)
        return stored(tx, rows.first(tx, SQL["rule_by_number"], {"n": n})).rule

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        with self.db.reading() as tx:
            found = rows.fetch(tx, SQL["rules"], {"after": after or "", "limit": limit})
            return [stored(tx, row).rule for row in found]

    @writing
    def delete_rule(self, tx: rows.Tx, name: str) -> bool:
        row = rows.first(tx, SQL["rule"], {"name": name})
        if row is not None:
            tx.execute(SQL["delete"], {"n": row[0]})
            tx.execute(SQL["retire_all"], {"n": row[0]})
        return row is not None

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        with self.db.reading() as tx:
            row = rows.first(tx, SQL["rule"], {"name": name})
            if row is None:
                return None
            found = stored(tx, row)
            return Sightings(found.rule, tuple(_sighting(tx, wait, at) for wait in found.waits))


def stored(tx: rows.Tx, row: Sequence[Any]) -> StoredRule:
    """From a row of `rules.sql: rule_columns`."""
    found = rows.fetch(tx, SQL["dependencies"], {"n": row[0]})
    waits = [Wait(one[0], dependency(one[1:4]), one[4], bool(one[5])) for one in found]
    dependencies = tuple(wait.dependency for wait in waits)
    rule = _read_rule((row[1], dependencies, *row[2:9]))
    return StoredRule(row[0], rule, waits, bool(row[9]), bool(row[10]))


def event(row: Sequence[Any]) -> Event:
    """From a row of `events.sql: event_columns`."""
    return _read_event(row[1:5])


def decided(rule: str, row: Sequence[Any]) -> Decided:
    """From the columns that `events.sql: repeat` returns and `decisions_of` ends with."""
    return _read_decided((rule, dependency(row[:3]), *row[3:]))


def newest_stamp(tx: rows.Tx, dependency_n: int, t: Stamp) -> Stamp | None:
    """The newest stamp by `t` of an event that was accepted for the dependency."""
    row: Any = tx.execute(EVENTS["newest"], (dependency_n, t)).fetchone()
    return None if row is None else row[0]


def first_at(tx: rows.Tx, dependency_n: int, stamp: Stamp) -> Event | None:
    """The first event that was accepted for the dependency with this stamp."""
    row: Any = tx.execute(EVENTS["validating"], (dependency_n, stamp)).fetchone()
    return None if row is None else event(row)


def _depend(tx: rows.Tx, rule_n: int, dependencies: Sequence[Dependency]) -> None:
    """Give the rule these dependencies; one that stays keeps what it accepted."""
    found = rows.fetch(tx, SQL["dependencies"], {"n": rule_n})
    known = {(kind, resource): n for n, kind, resource, *_ in found}
    for position, one in enumerate(dependencies):
        params: dict[str, Any] = {"position": position, "life_seconds": one.life_seconds}
        n = known.pop((str(one.type), one.resource), None)
        if n is not None:
            tx.execute(SQL["depend_still"], {"n": n, **params})
            continue
        params |= {"rule_n": rule_n, "type": one.type, "resource": one.resource}
        tx.execute(SQL["depend"], {**params, "key": one.key, "below": one.below})
    for n in known.values():
        tx.execute(SQL["retire"], {"n": n})


def _sighting(tx: rows.Tx, wait: Wait, at: Stamp) -> Sighting:
    newest = newest_stamp(tx, wait.n, at)
    seen = None if newest is None else first_at(tx, wait.n, newest)
    return Sighting(seen, wait.newest, wait.stale)
