"""Rules in SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from oncue.core.event import Event, EventType
from oncue.core.moment import Moment
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.statements import load

SQL = load("rules")
EVENTS = load("events")
dependency = rows.reader(Dependency, type=EventType)
_read_event = rows.reader(Event, type=EventType)
_read_rule = rows.reader(Rule)


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


class Rules:
    db: Database

    def put_rule(self, rule: Rule, now: Moment) -> Rule:
        def put(tx: apsw.Connection) -> Rule:
            row = rows.first(tx, SQL["rule"], {"name": rule.name})
            own = {
                "name": rule.name,
                "enabled": int(rule.enabled),
                "queue": rule.queue,
                "payload": rule.payload_json,
                "now": now,
            }
            if row is None:
                n = int(tx.execute(SQL["create"], own).get)
            else:
                n = row[0]
                del own["name"]
                tx.execute(SQL["change"], {**own, "n": n})
            _depend(tx, n, rule.dependencies)
            return stored(tx, rows.first(tx, SQL["rule_by_number"], {"n": n})).rule

        return self.db.write(put)

    def rule(self, name: str) -> Rule | None:
        with self.db.reading() as tx:
            row = rows.first(tx, SQL["rule"], {"name": name})
            return None if row is None else stored(tx, row).rule

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        with self.db.reading() as tx:
            found = rows.fetch(tx, SQL["rules"], {"after": after or "", "limit": limit})
            parts: dict[int, list[Dependency]] = defaultdict(list)
            if found:
                own = {"ns": rows.numbers([row[0] for row in found])}
                for n, *part in rows.fetch(tx, SQL["dependencies_of"], own):
                    parts[n].append(dependency(part))
        return [_rule(row, parts[row[0]]) for row in found]

    def delete_rule(self, name: str, now: Moment) -> bool:
        def delete(tx: apsw.Connection) -> bool:
            row = rows.first(tx, SQL["rule"], {"name": name})
            if row is None:
                return False
            tx.execute(SQL["delete"], {"n": row[0]})
            tx.execute(SQL["retire_all"], {"n": row[0]})
            return True

        return self.db.write(delete)

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        with self.db.reading() as tx:
            row = rows.first(tx, SQL["rule"], {"name": name})
            if row is None:
                return None
            found = stored(tx, row)
            return Sightings(found.rule, tuple(_sighting(tx, wait, at) for wait in found.waits))


def stored(tx: apsw.Connection, row: Sequence[Any]) -> StoredRule:
    """From a row of `rules.sql: rule_columns`."""
    waits = [
        Wait(n, dependency((kind, resource, life)), newest, bool(stale))
        for n, kind, resource, life, newest, stale in rows.fetch(
            tx, SQL["dependencies"], {"n": row[0]}
        )
    ]
    rule = _rule(row, [wait.dependency for wait in waits])
    return StoredRule(row[0], rule, waits, bool(row[9]), bool(row[10]))


def event(row: Sequence[Any]) -> Event:
    """From a row of `events.sql: event_columns`."""
    return _read_event(row[1:5])


def validating(tx: apsw.Connection, dependency_n: int, stamp: Stamp) -> Event:
    """The first event that was accepted for the dependency with this stamp."""
    own = {"dependency_n": dependency_n, "stamp": stamp}
    return event(rows.first(tx, EVENTS["validating"], own))


def _rule(row: Sequence[Any], dependencies: Sequence[Dependency]) -> Rule:
    """From a row of `rules.sql: rule_columns`."""
    return _read_rule((row[1], tuple(dependencies), *row[2:9]))


def _depend(tx: apsw.Connection, rule_n: int, dependencies: Sequence[Dependency]) -> None:
    """Give the rule these dependencies; one that stays keeps what it accepted."""
    known = {
        (kind, resource): n
        for n, kind, resource, *_ in rows.fetch(tx, SQL["dependencies"], {"n": rule_n})
    }
    for position, one in enumerate(dependencies):
        own = {"position": position, "life_seconds": one.life_seconds}
        n = known.pop((str(one.type), one.resource), None)
        if n is not None:
            tx.execute(SQL["depend_still"], {"n": n, **own})
            continue
        new = {"rule_n": rule_n, "type": str(one.type), "resource": one.resource}
        tx.execute(SQL["depend"], {**own, **new, "key": one.key, "below": int(one.below)})
    for n in known.values():
        tx.execute(SQL["retire"], {"n": n})


def _sighting(tx: apsw.Connection, wait: Wait, at: Stamp) -> Sighting:
    row = tx.execute(EVENTS["newest"], (wait.n, at)).fetchone()
    seen = None if row is None else validating(tx, wait.n, int(row[0]))
    return Sighting(seen, wait.newest, wait.stale)
