"""The end of events and decisions that were kept long enough, in a store on SQL."""

from __future__ import annotations

from itertools import takewhile

from oncue.core.event import Bounds
from oncue.core.moment import Moment
from oncue.core.retention import loose_before, of_rule
from oncue.core.stamp import Stamp
from oncue.stores.relational.part import RelationalPart, X
from oncue.stores.relational.rules import StoredRule, stored
from oncue.stores.relational.tx import Named, RelationalTx

RULES_AT_ONCE = 200
_NEVER: Stamp = 2**63 - 1


class RelationalPruning(RelationalPart[X]):
    """The part of `oncue.ports.queues.QueueStore.prune` that is about rules and events."""

    def _are_events_over(self, tx: X, now: Moment, bounds: Bounds) -> bool:
        """Whether there may be something to remove. Only reads."""
        loose = {"before": loose_before(now, bounds), "limit": 1}
        touched = tx.run("rules", "is_touched").fetchone()
        return touched is not None or bool(tx.rows("events", "loose", loose))

    def _prune_events(self, now: Moment, bounds: Bounds, limit: int) -> bool:
        """Remove up to `limit` accepted events, decisions and events. Whether there may be more."""
        return self._write(lambda tx: _prune_events(tx, now, bounds, limit))


def _prune_events(tx: RelationalTx, now: Moment, bounds: Bounds, limit: int) -> bool:
    """Rules to which nothing happened since they were last pruned are not looked at."""
    removal = _Removal(tx, limit)
    touched = tx.rows("rules", "touched", {"limit": RULES_AT_ONCE})
    for row in touched:
        if removal.room > 0:
            _prune_rule(removal, stored(tx, row), bounds)
    removal.run("forget", {"before": loose_before(now, bounds)})
    return removal.room <= 0 or len(touched) == RULES_AT_ONCE


class _Removal:
    """Removes rows as long as there is room: so many that one transaction stays short."""

    def __init__(self, tx: RelationalTx, limit: int) -> None:
        self.tx = tx
        self.room = limit

    def run(self, name: str, params: Named) -> None:
        if self.room > 0:
            self.room -= self.tx.change("events", name, {**params, "limit": self.room})


def _prune_rule(removal: _Removal, known: StoredRule, bounds: Bounds) -> None:
    """If there is room left afterwards, the rule is done with."""
    tx = removal.tx
    kept = of_rule(known.rule, known.newest, bounds)
    for (n,) in tx.rows("rules", "retired", {"n": known.n}):
        removal.run("unaccept", {"n": n, "before": _NEVER})
        if removal.room > 0:
            tx.do("rules", "forget_dependency", {"n": n})
    for wait, before in zip(known.waits, kept.accepted_before, strict=True):
        if before is not None:
            removal.run("unaccept", {"n": wait.n, "before": before})
    undecided_before = _NEVER if known.deleted else kept.decided_before
    if undecided_before is not None:
        _undecide(removal, known.n, undecided_before)
    if removal.room > 0:
        tx.do("rules", "forget" if known.deleted else "settle", {"n": known.n})


def _undecide(removal: _Removal, rule_n: int, before: Stamp) -> None:
    """Remove decisions in the order of arrival, up to the first whose event still counts."""
    tx = removal.tx
    oldest = tx.rows("events", "oldest_decided", {"n": rule_n, "limit": max(0, removal.room)})
    gone = {n for n, _ in takewhile(lambda row: row[1] < before, oldest)}
    if gone:
        removal.run("undecide", {"rule_n": rule_n, "ns": tx.numbers(gone)})
        tx.do("events", "count_undecided", {"ns": tx.numbers(gone)})
