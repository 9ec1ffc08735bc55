"""Rules and events out of a store on SQL and into it, for dump and restore."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from oncue.core.cursor import Cursor, Page, number_at
from oncue.core.dumped import DumpedEvent
from oncue.core.moment import EPOCH, from_datetime, to_datetime
from oncue.core.publication import Decided, LoggedEvent
from oncue.core.standing import Sightings
from oncue.stores.relational.part import RelationalPart, X, transaction
from oncue.stores.relational.publication import accept, log_event, refuse_taken, remember_id
from oncue.stores.relational.rules import StoredRule, decided, event, stored
from oncue.stores.relational.tx import RelationalTx


class RelationalRulesTransfer(RelationalPart[X]):
    """Implements the half of `oncue.ports.transfer.TransferStore` that is about rules."""

    def export_events(self, after: Cursor | None, limit: int) -> Page[DumpedEvent]:
        start = 0 if after is None else number_at(after)
        with self._read() as tx:
            params = {"after": start, "limit": limit}
            found = tx.rows("rules_transfer", "export_events", params)
            decisions: defaultdict[int, list[Decided]] = defaultdict(list)
            accepted: defaultdict[int, list[int]] = defaultdict(list)
            others: defaultdict[int, list[str]] = defaultdict(list)
            numbers = {"ns": tx.numbers([row[0] for row in found] or [0])}
            for n, other in tx.rows("rules_transfer", "other_ids_of", numbers):
                others[n].append(other)
            for n, rule, is_accepted, *row in tx.rows("rules_transfer", "decisions_of", numbers):
                if is_accepted:
                    accepted[n].append(len(decisions[n]))
                decisions[n].append(decided(rule, row))
        events = [
            DumpedEvent(
                LoggedEvent(event(row), to_datetime(row[5]), tuple(decisions[row[0]])),
                tuple(accepted[row[0]]),
                tuple(others[row[0]]),
            )
            for row in found
        ]
        return Page(events, str(found[-1][0]) if len(found) == limit else None)

    @transaction
    def admit_rules(self, tx: X, rules: Sequence[Sightings], events: Sequence[DumpedEvent]) -> int:
        # First: SQLite commits what was written before a refusal.
        every = [each for one in events for each in one.under_each_id]
        refuse_taken(tx, every)
        for rule in rules:
            _admit_rule(tx, rule)
        # All events before any rule is held, as in a publication.
        logged = [log_event(tx, one.logged.event, _ms(one.logged.received_at)) for one in events]
        for one, (known, _) in zip(events, logged, strict=True):
            for other in one.other_ids:
                remember_id(tx, known, other)
        refuse_taken(tx, every)  # where others publish at the same time
        held = _held(tx, events)
        for one, ((n, _), _) in zip(events, logged, strict=True):
            _admit_decisions(tx, held, n, one)
        return sum(is_new for _, is_new in logged)


def _held(tx: RelationalTx, events: Sequence[DumpedEvent]) -> dict[str, StoredRule]:
    """The rules that decided on these events, as far as they are here, by name. Nobody else changes
    them before the end of the transaction."""
    names = sorted({one.rule for dumped in events for one in dumped.logged.decisions})
    if not names:
        return {}
    found = tx.rows("rules_transfer", "hold", {"names": tx.texts(names)})
    return {row[1]: stored(tx, row) for row in found}


def _admit_rule(tx: RelationalTx, seen: Sightings) -> None:
    rule = seen.rule
    params: dict[str, Any] = {
        "name": rule.name,
        "enabled": rule.enabled,
        "queue": rule.queue,
        "payload": rule.payload_json,
        "created_at": _ms(rule.created_at),
        "updated_at": _ms(rule.updated_at),
        "last_instant": rule.last_instant,
        "last_job_id": rule.last_job_id,
    }
    n: Any = tx.run("rules_transfer", "admit_rule", params).get
    if n is None:
        return
    for position, (its, one) in enumerate(zip(rule.dependencies, seen.of, strict=True)):
        params = {
            "rule_n": n,
            "position": position,
            "type": str(its.type),
            "resource": its.resource,
            "key": its.key,
            "below": its.below,
            "life_seconds": its.life_seconds,
            "newest": one.newest_stamp,
            "stale": one.stale,
        }
        tx.do("rules_transfer", "admit_dependency", params)


def _admit_decisions(
    tx: RelationalTx, held: Mapping[str, StoredRule], n: int, dumped: DumpedEvent
) -> None:
    """Those of the rules that have not decided on the event."""
    deciding = 0
    for name in sorted({one.rule for one in dumped.logged.decisions} & held.keys()):
        params = {"rule_n": held[name].n, "event_n": n}
        if tx.run("rules_transfer", "has_decided", params).get is None:
            _admit_decisions_of(tx, held[name], n, dumped)
            deciding += 1
    if deciding:
        tx.do("events", "count_decided", {"n": n, "rules": deciding})


def _admit_decisions_of(tx: RelationalTx, known: StoredRule, n: int, dumped: DumpedEvent) -> None:
    """Those of one rule. A dependency that the rule no longer has gets a number that none has."""
    waits = {wait.dependency.identity: wait for wait in known.waits}
    gone: dict[Any, int] = {}
    for position, one in enumerate(dumped.logged.decisions):
        if one.rule != known.rule.name:
            continue
        its, wait = one.dependency, waits.get(one.dependency.identity)
        params = {
            "rule_n": known.n,
            "event_n": n,
            "dependency_n": gone.setdefault(its.identity, -1 - len(gone)) if not wait else wait.n,
            "decision": str(one.decision),
            "type": str(its.type),
            "resource": its.resource,
            "life_seconds": its.life_seconds,
            "decided_at": _ms(one.decided_at),
            "job_id": one.job_id,
            "suppressed": one.suppressed,
            "times": one.times,
        }
        tx.do("rules_transfer", "admit_decision", params)
        if wait is not None and position in dumped.accepted:
            accept(tx, wait, dumped.logged.event.stamp, n)
    tx.do("events", "touch", {"n": known.n})


def _ms(at: datetime | None) -> int:
    return from_datetime(at or EPOCH)
