"""The end of what has been kept long enough, in SQLite."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Any

from oncue.core.event import Bounds
from oncue.core.moment import Moment
from oncue.core.retention import Pruned, Retention, forgotten_before, loose_before, of_rule
from oncue.core.stamp import Stamp
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart
from oncue.stores.sqlite.rules import StoredRule, stored

SQL = rows.load("events")
RULES = rows.load("rules")
QUEUES = rows.load("queues")
CLAIMS = rows.load("claims")
RULES_AT_ONCE = 200
_NEVER: Stamp = 2**63 - 1


class SqlitePruning(StorePart):
    def prune(self, kept: Retention, now: Moment, limit: int) -> Pruned:
        """A transaction for each queue and each kind, so that others can write in between."""
        queues, remembered, events = self._over(kept, now)
        removed = [
            self.db.write(partial(prune_queue, queue=queue, before=before, now=now, limit=limit))
            for queue, before in queues.items()
        ]
        more = [one >= limit for one in removed]
        if remembered:
            more.append(self.db.write(lambda tx: _prune_remembered(tx, now, limit)) >= limit)
        if events:
            more.append(self.db.write(lambda tx: _prune_events(tx, now, kept.bounds, limit)))
        return Pruned(sum(removed), any(more))

    def _over(self, kept: Retention, now: Moment) -> tuple[dict[str, Moment], bool, bool]:
        """The queues with something to remove, each with the moment up to which; and whether there
        are remembered ids and events to remove."""
        loose = {"before": loose_before(now, kept.bounds), "limit": 1}
        forgotten = {"before": forgotten_before(now), "limit": 1}
        with self.db.reading() as tx:
            finished = rows.fetch(tx, QUEUES["oldest_finished"])
            before = kept.finished_before
            return (
                {name: before[name] for name, oldest in finished if oldest < before.get(name, 0)},
                bool(rows.fetch(tx, QUEUES["forgettable"], forgotten))
                or bool(rows.fetch(tx, CLAIMS["settled_over"], {"now": now})),
                bool(rows.fetch(tx, RULES["touched"], {"limit": 1}))
                or bool(rows.fetch(tx, SQL["loose"], loose)),
            )


def prune_queue(tx: rows.Tx, queue: str, before: Moment, now: Moment, limit: int) -> int:
    """Remove finished jobs of a queue; those whose ids are remembered are hidden. How many."""
    params = {"queue": queue, "before": before, "limit": limit}
    ns = [row[0] for row in rows.fetch(tx, QUEUES["prunable"], params)]
    if ns:
        _remove(tx, ns, now)
        tx.execute(QUEUES["hide"], {"ns": rows.numbers(ns)})
    return len(ns)


def _prune_remembered(tx: rows.Tx, now: Moment, limit: int) -> int:
    tx.execute(CLAIMS["forget_settled"], {"now": now})
    params = {"before": forgotten_before(now), "limit": limit}
    ns = [row[0] for row in rows.fetch(tx, QUEUES["forgettable"], params)]
    if ns:
        _remove(tx, ns, now)
    return len(ns)


def _remove(tx: rows.Tx, ns: list[int], now: Moment) -> None:
    """Remove finished jobs, but for those whose id is remembered still."""
    params = {"ns": rows.numbers(ns), "forget_before": forgotten_before(now)}
    tx.execute(QUEUES["prune"], params)


def _prune_events(tx: rows.Tx, now: Moment, bounds: Bounds, limit: int) -> bool:
    """Whether there may be more. Rules to which nothing happened since they were last pruned are
    not looked at."""
    removal = _Removal(tx, limit)
    touched = rows.fetch(tx, RULES["touched"], {"limit": RULES_AT_ONCE})
    for row in touched:
        if removal.room > 0:
            _prune_rule(removal, stored(tx, row), bounds)
    removal.execute(SQL["forget"], {"before": loose_before(now, bounds)})
    return removal.room <= 0 or len(touched) == RULES_AT_ONCE


class _Removal:
    """Removes rows as long as there is room: so many that one transaction stays short."""

    def __init__(self, tx: rows.Tx, limit: int) -> None:
        self.tx = tx
        self.room = limit

    def execute(self, statement: str, params: dict[str, Any]) -> None:
        if self.room > 0:
            self.tx.execute(statement, {**params, "limit": self.room})
            self.room -= self.tx.changes()


def _prune_rule(removal: _Removal, known: StoredRule, bounds: Bounds) -> None:
    """If there is room left afterwards, the rule is done with."""
    tx = removal.tx
    kept = of_rule(known.rule, known.newest, bounds)
    for (n,) in rows.fetch(tx, RULES["retired"], {"n": known.n}):
        removal.execute(SQL["unaccept"], {"n": n, "before": _NEVER})
        if removal.room > 0:
            tx.execute(RULES["forget_dependency"], {"n": n})
    for wait, before in zip(known.waits, kept.accepted_before, strict=True):
        if before is not None:
            removal.execute(SQL["unaccept"], {"n": wait.n, "before": before})
    undecided_before = _NEVER if known.deleted else kept.decided_before
    if undecided_before is not None:
        _undecide(removal, known.n, undecided_before)
    if removal.room > 0:
        tx.execute(RULES["forget" if known.deleted else "settle"], {"n": known.n})


def _undecide(removal: _Removal, rule_n: int, before: Stamp) -> None:
    """Remove decisions in the order of arrival, up to the first whose event still counts."""
    params = {"n": rule_n, "limit": max(0, removal.room)}
    oldest = rows.fetch(removal.tx, SQL["oldest_decided"], params)
    gone = {n for n, _ in takewhile(lambda row: row[1] < before, oldest)}
    if gone:
        removal.execute(SQL["undecide"], {"rule_n": rule_n, "ns": rows.numbers(gone)})
        removal.tx.execute(SQL["count_undecided"], {"ns": rows.numbers(gone)})
