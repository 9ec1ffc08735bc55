"""The end of events that can no longer matter, inside a write."""

from __future__ import annotations

import apsw

from oncue.core.event import Bounds
from oncue.core.firing import floor, prunable_before
from oncue.core.moment import Moment
from oncue.core.stamp import Stamp
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.rules import StoredRule, stored
from oncue.stores.sqlite.statements import load

SQL = load("events")
RULES = load("rules")
RULES_AT_ONCE = 200
_NEVER: Stamp = 2**63 - 1


def prune_events(tx: apsw.Connection, now: Moment, bounds: Bounds, limit: int) -> bool:
    """See `oncue.ports.events.EventStore.prune_events`. Rules to which nothing happened since they
    were last pruned are not looked at."""
    room = limit
    touched = rows.fetch(tx, RULES["touched"], {"limit": RULES_AT_ONCE})
    for row in touched:
        room -= _prune_rule(tx, stored(tx, row), bounds, room)
        if room <= 0:
            return True
    before = now - bounds.loose_seconds * 1000
    tx.execute(SQL["forget"], {"before": before, "limit": room})
    return tx.changes() == room or len(touched) == RULES_AT_ONCE


def _prune_rule(tx: apsw.Connection, mine: StoredRule, bounds: Bounds, room: int) -> int:
    """How many rows were removed; fewer than `room` means that the rule is done with."""
    newest, lives = mine.newest, mine.rule.lives
    kept_from = None if newest is None else floor(newest, lives, bounds.late_seconds)
    removed = _prune_retired(tx, mine.n, room)
    for wait in mine.waits:
        before = prunable_before(wait.dependency.life, mine.rule.last_instant, kept_from)
        if before is not None:
            removed += _unaccept(tx, wait.n, before, room - removed)
    undecided_before = _NEVER if mine.deleted else kept_from
    if undecided_before is not None:
        removed += _undecide(tx, mine.n, undecided_before, room - removed)
    if removed < room:
        tx.execute(RULES["forget" if mine.deleted else "settle"], {"n": mine.n})
    return removed


def _prune_retired(tx: apsw.Connection, rule_n: int, room: int) -> int:
    """What dependencies had accepted that are no longer the rule's."""
    removed = 0
    for (n,) in rows.fetch(tx, RULES["retired"], {"n": rule_n}):
        removed += _unaccept(tx, n, _NEVER, room - removed)
        if removed >= room:
            break
        tx.execute(RULES["forget_dependency"], {"n": n})
    return removed


def _unaccept(tx: apsw.Connection, dependency_n: int, before: Stamp, room: int) -> int:
    if room <= 0:
        return 0
    tx.execute(SQL["unaccept"], {"n": dependency_n, "before": before, "limit": room})
    return int(tx.changes())


def _undecide(tx: apsw.Connection, rule_n: int, before: Stamp, room: int) -> int:
    """Remove decisions in the order of arrival, up to the first whose event still counts."""
    if room <= 0:
        return 0
    gone: list[int] = []
    for n, stamp in rows.fetch(tx, SQL["oldest_decided"], {"n": rule_n, "limit": room}):
        if stamp >= before:
            break
        if not gone or gone[-1] != n:
            gone.append(n)
    if not gone:
        return 0
    tx.execute(SQL["undecide"], {"rule_n": rule_n, "ns": rows.numbers(gone)})
    removed = int(tx.changes())
    tx.execute(SQL["count_undecided"], {"ns": rows.numbers(gone)})
    return removed
