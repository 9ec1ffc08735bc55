"""The end of what has been kept long enough, in SQLite."""

from __future__ import annotations

from functools import partial

from oncue.core.moment import Moment
from oncue.core.retention import Pruned, Retention, forgotten_before
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.relational import SqliteRelational

QUEUES = rows.load("queues")
CLAIMS = rows.load("claims")


class SqlitePruning(SqliteRelational):
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
            more.append(self._prune_events(now, kept.bounds, limit))
        return Pruned(sum(removed), any(more))

    def _over(self, kept: Retention, now: Moment) -> tuple[dict[str, Moment], bool, bool]:
        """The queues with something to remove, each with the moment up to which; and whether there
        are remembered ids and events to remove."""
        forgotten = {"before": forgotten_before(now), "limit": 1}
        with self.db.reading() as tx:
            finished = rows.fetch(tx, QUEUES["oldest_finished"])
            before = kept.finished_before
            return (
                {name: before[name] for name, oldest in finished if oldest < before.get(name, 0)},
                bool(rows.fetch(tx, QUEUES["forgettable"], forgotten))
                or bool(rows.fetch(tx, CLAIMS["settled_over"], {"now": now})),
                self._are_events_over(tx, now, kept.bounds),
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
