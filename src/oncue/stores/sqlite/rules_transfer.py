"""Rules and events out of SQLite and into it, for dump and restore."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from oncue.core.cursor import Cursor, Page, number_at
from oncue.core.dumped import DumpedEvent
from oncue.core.moment import EPOCH, from_datetime, to_datetime
from oncue.core.publication import Decided, LoggedEvent
from oncue.core.standing import Sightings
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart
from oncue.stores.sqlite.events import accept, log_event, refuse_taken
from oncue.stores.sqlite.rules import StoredRule, decided, event, stored

SQL = rows.load("transfer")
EVENTS = rows.load("events")
RULES = rows.load("rules")


class RulesTransfer(StorePart):
    def export_events(self, after: Cursor | None, limit: int) -> Page[DumpedEvent]:
        start = 0 if after is None else number_at(after)
        with self.db.reading() as tx, tx:  # one snapshot for events and decisions
            found = rows.fetch(tx, SQL["export_events"], {"after": start, "limit": limit})
            decisions: defaultdict[int, list[Decided]] = defaultdict(list)
            accepted: defaultdict[int, list[int]] = defaultdict(list)
            params = {"ns": rows.numbers([row[0] for row in found] or [0])}
            for n, rule, is_accepted, *row in rows.fetch(tx, SQL["decisions_of"], params):
                if is_accepted:
                    accepted[n].append(len(decisions[n]))
                decisions[n].append(decided(rule, row))
        events = [
            DumpedEvent(
                LoggedEvent(event(row), to_datetime(row[5]), tuple(decisions[row[0]])),
                tuple(accepted[row[0]]),
            )
            for row in found
        ]
        return Page(events, str(found[-1][0]) if len(found) == limit else None)

    def admit_rules(self, rules: Sequence[Sightings], events: Sequence[DumpedEvent]) -> int:
        def admit(tx: rows.Tx) -> int:
            # First: what was written before a refusal is committed.
            refuse_taken(tx, [one.logged.event for one in events])
            for rule in rules:
                _admit_rule(tx, rule)
            return sum(_admit_event(tx, one) for one in events)

        return self.db.write(admit)


def _admit_rule(tx: rows.Tx, seen: Sightings) -> None:
    rule = seen.rule
    row = (
        *(rule.name, rule.enabled, rule.queue, rule.payload_json),
        *(_ms(rule.created_at), _ms(rule.updated_at), rule.last_instant, rule.last_job_id),
    )
    n: Any = tx.execute(SQL["admit_rule"], row).get
    if n is None:
        return
    for position, (its, one) in enumerate(zip(rule.dependencies, seen.of, strict=True)):
        named = (its.type, its.resource, its.key, its.below, its.life_seconds)
        tx.execute(SQL["admit_dependency"], (n, position, *named, one.newest_stamp, one.stale))


def _admit_event(tx: rows.Tx, dumped: DumpedEvent) -> bool:
    logged = dumped.logged
    (n, _), is_new = log_event(tx, logged.event, _ms(logged.received_at))
    deciding = 0
    for name in sorted({one.rule for one in logged.decisions}):
        found = rows.first(tx, RULES["rule"], {"name": name})
        if found is not None and tx.execute(SQL["has_decided"], (found[0], n)).get is None:
            _admit_decisions(tx, stored(tx, found), n, dumped)
            deciding += 1
    if deciding:
        tx.execute(EVENTS["count_decided"], {"n": n, "rules": deciding})
    return is_new


def _admit_decisions(tx: rows.Tx, known: StoredRule, n: int, dumped: DumpedEvent) -> None:
    """Those of one rule. A dependency that the rule no longer has gets a number that none has."""
    waits = {wait.dependency.identity: wait for wait in known.waits}
    gone: dict[Any, int] = {}
    for position, one in enumerate(dumped.logged.decisions):
        if one.rule != known.rule.name:
            continue
        its, wait = one.dependency, waits.get(one.dependency.identity)
        dependency_n = gone.setdefault(its.identity, -1 - len(gone)) if wait is None else wait.n
        copied = (str(its.type), its.resource, its.life_seconds, _ms(one.decided_at))
        params = (known.n, n, dependency_n, str(one.decision), *copied)
        tx.execute(SQL["admit_decision"], (*params, one.job_id, one.suppressed, one.times))
        if wait is not None and position in dumped.accepted:
            accept(tx, wait, dumped.logged.event.stamp, n)
    tx.execute(EVENTS["touch"], (known.n,))


def _ms(at: datetime | None) -> int:
    return from_datetime(at or EPOCH)
