"""Rules in a store on SQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from oncue.core.event import Event, EventType
from oncue.core.firing import Decision
from oncue.core.moment import Moment
from oncue.core.pair import Markers, Pair, kept_pair
from oncue.core.publication import Decided
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import SECOND, Stamp
from oncue.core.standing import Sighting, Sightings
from oncue.stores.relational.part import RelationalPart, X, transaction
from oncue.stores.relational.rows import reader
from oncue.stores.relational.tx import RelationalTx

_TYPES = {str(kind): kind for kind in EventType}  # faster than EventType(…)
_read_rule = reader(Rule)
_read_decided = reader(Decided, decision=Decision)


class Wait(NamedTuple):
    """One dependency of a rule, as its row has it."""

    n: int
    dependency: Dependency
    newest: Stamp | None
    stale: bool
    pair_n: int | None
    """The other dependency of the rule's pair, if this is one of the two …"""
    pair_life_seconds: int | None
    """… how long it was valid when they became the pair …"""
    pair_since: Stamp | None
    """… and the newest stamp that the rule had accepted then."""


class StoredRule(NamedTuple):
    n: int
    rule: Rule
    waits: list[Wait]
    touched: bool
    """Something happened to it since it was last pruned."""
    deleted: bool
    pair: Pair | None = None

    @property
    def newest(self) -> Stamp | None:
        return max((wait.newest for wait in self.waits if wait.newest is not None), default=None)


class RelationalRules(RelationalPart[X]):
    """Implements `oncue.ports.rules.RuleStore`."""

    @transaction
    def put_rule(self, tx: X, rule: Rule, now: Moment) -> Rule:
        settings = {"enabled": rule.enabled, "queue": rule.queue, "payload": rule.payload_json}
        n = int(tx.run("rules", "put", {"name": rule.name, **settings, "now": now}).get)
        _depend(tx, n, rule.dependencies)
        return numbered(tx, n).rule

    def rules(self, after: str | None, limit: int) -> Sequence[Rule]:
        with self._read() as tx:
            found = tx.rows("rules", "rules", {"after": after or "", "limit": limit})
            if not found:
                return []
            ns = tx.numbers([row[0] for row in found])
            waits = tx.rows("rules", "dependencies_of", {"ns": ns})
        return [one.rule for one in all_stored(found, waits)]

    @transaction
    def delete_rule(self, tx: X, name: str) -> bool:
        n: Any = tx.run("rules", "delete", {"name": name}).get
        if n is not None:
            tx.do("rules", "retire_all", {"n": n})
        return n is not None

    def sightings(self, name: str, at: Stamp) -> Sightings | None:
        with self._read() as tx:
            row = tx.run("rules", "rule", {"name": name}).fetchone()
            if row is None:
                return None
            found = stored(tx, row)
            return Sightings(found.rule, tuple(_sighting(tx, wait, at) for wait in found.waits))


def numbered(tx: RelationalTx, n: int) -> StoredRule:
    return stored(tx, tx.run("rules", "rule_by_number", {"n": n}).fetchone())


def stored(tx: RelationalTx, row: Sequence[Any]) -> StoredRule:
    """From a row of `rules.sql: rule_columns`."""
    return _stored(row, [_wait(one) for one in tx.rows("rules", "dependencies", {"n": row[0]})])


def all_stored(
    found: Sequence[Sequence[Any]], dependencies: Sequence[Sequence[Any]]
) -> list[StoredRule]:
    """From rows of `rules.sql: rule_columns` and those of `dependencies_of` that belong to them."""
    waits: defaultdict[int, list[Wait]] = defaultdict(list)
    for rule_n, *row in dependencies:
        waits[rule_n].append(_wait(row))
    return [_stored(row, waits[row[0]]) for row in found]


def _stored(row: Sequence[Any], waits: list[Wait]) -> StoredRule:
    dependencies = tuple(wait.dependency for wait in waits)
    rule = _read_rule((row[1], dependencies, *row[2:9]))
    return StoredRule(row[0], rule, waits, bool(row[9]), bool(row[10]), _pair(waits))


def _pair(waits: Sequence[Wait]) -> Pair | None:
    """None: there is none, or one of the two is gone."""
    places = [place for place, wait in enumerate(waits) if wait.pair_n is not None]
    if len(places) != 2:
        return None
    first, second = (waits[place] for place in places)
    if (first.pair_n, second.pair_n) != (second.n, first.n):
        return None
    lives = (first.pair_life_seconds or 0) * SECOND, (second.pair_life_seconds or 0) * SECOND
    return Pair((places[0], places[1]), lives, first.pair_since)


def _wait(row: Sequence[Any]) -> Wait:
    """From a row of `rules.sql: dependency_columns`."""
    n, kind, resource, life_seconds, newest, stale, *pair = row
    its = Dependency(_TYPES[kind], resource, life_seconds)
    return Wait(n, its, newest, bool(stale), *pair)


def event(row: Sequence[Any]) -> Event:
    """From a row of `events.sql: event_columns`."""
    _, event_id, kind, resource, stamp = row[:5]
    return Event(event_id, _TYPES[kind], resource, stamp)


def decided(rule: str, row: Sequence[Any]) -> Decided:
    """From the columns that `events.sql: repeat` returns and `decisions_of` ends with."""
    kind, resource, life_seconds, *rest = row
    return _read_decided((rule, Dependency(_TYPES[kind], resource, life_seconds), *rest))


def newest_stamp(tx: RelationalTx, dependency_n: int, t: Stamp) -> Stamp | None:
    """The newest stamp by `t` of an event that was accepted for the dependency."""
    found: Stamp | None = tx.run("events", "newest", {"n": dependency_n, "stamp": t}).get
    return found


def keep_pair(tx: RelationalTx, known: StoredRule) -> StoredRule:
    """The rule, with its pair brought up to date, also in the store. A trigger marks events that
    are accepted from then on."""
    pair = kept_pair(known.pair, known.rule.lives, known.newest)
    if pair == known.pair:
        return known
    first, second = (known.waits[place].n for place in pair.places) if pair else (None, None)
    params = {"n": known.n, "first": first, "second": second, "since": known.newest}
    tx.do("rules", "pair", params)
    return known._replace(pair=pair)


def markers_of(tx: RelationalTx, known: StoredRule) -> Markers | None:
    """None: the rule has no pair."""

    def newest(place: int, t: Stamp) -> Stamp | None:
        params = {"n": known.waits[place].n, "stamp": t}
        found: Stamp | None = tx.run("events", "newest_marker", params).get
        return found

    return None if known.pair is None else Markers(known.pair, newest)


def first_at(tx: RelationalTx, dependency_n: int, stamp: Stamp) -> Event | None:
    """The first event that was accepted for the dependency with this stamp."""
    row = tx.run("events", "validating", {"n": dependency_n, "stamp": stamp}).fetchone()
    return None if row is None else event(row)


def _depend(tx: RelationalTx, rule_n: int, dependencies: Sequence[Dependency]) -> None:
    """Give the rule these dependencies; one that stays keeps what it accepted."""
    found = tx.rows("rules", "dependencies", {"n": rule_n})
    known = {(kind, resource): n for n, kind, resource, *_ in found}
    for position, one in enumerate(dependencies):
        params: dict[str, Any] = {"position": position, "life_seconds": one.life_seconds}
        n = known.pop((str(one.type), one.resource), None)
        if n is not None:
            tx.do("rules", "depend_still", {"n": n, **params})
            continue
        params |= {"rule_n": rule_n, "type": str(one.type), "resource": one.resource}
        tx.do("rules", "depend", {**params, "key": one.key, "below": one.below})
    for n in known.values():
        tx.do("rules", "retire", {"n": n})


def _sighting(tx: RelationalTx, wait: Wait, at: Stamp) -> Sighting:
    newest = newest_stamp(tx, wait.n, at)
    seen = None if newest is None else first_at(tx, wait.n, newest)
    return Sighting(seen, wait.newest, wait.stale)
