"""Bulk verbs in SQLite: a page is found by reading alone, then changed by a few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import apsw

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.job import DIAGNOSTICS_KEPT, JobFilter
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkDone, BulkFound
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.statements import load
from oncue.stores.sqlite.walking import find_all

SQL = load("bulk")
ENSURE_QUEUE = load("queues")["ensure"]


class Bulk:
    db: Database

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        with self.db.reading() as tx:
            return find_all(tx, change, wanted, after, limit)

    def change_all(
        self, change: BulkChange, wanted: JobFilter, job_ids: Sequence[str], now: Moment
    ) -> BulkDone:
        if not job_ids:
            return BulkDone(0)
        own = asdict(wanted) | {"now": now, "begun_at": change.begun_at}
        own |= {"target": change.queue, "priority": change.priority, "ids": rows.texts(job_ids)}
        return self.db.write(lambda tx: self._change_all(tx, change, own))

    def _change_all(self, tx: apsw.Connection, change: BulkChange, own: dict[str, Any]) -> BulkDone:
        match change.verb:
            case BulkVerb.CANCEL:
                asked = _changed(tx, "ask_to_stop", own) if change.running else 0
                return BulkDone(_changed(tx, "cancel", own) + asked)
            case BulkVerb.RUN:
                return self._run(tx, own)
            case BulkVerb.RETRY:
                return self._retry(tx, own)
            case BulkVerb.MOVE:
                return self._move(tx, own)
            case BulkVerb.REPRIORITISE:
                return BulkDone(_changed(tx, "reprioritise", own))

    def _run(self, tx: apsw.Connection, own: dict[str, Any]) -> BulkDone:
        changed = _changed(tx, "run", own)
        if changed:
            for [queue] in rows.fetch(tx, SQL["queues_of"], own):
                self.db.tell(queue, own["now"])
        return BulkDone(changed)

    def _move(self, tx: apsw.Connection, own: dict[str, Any]) -> BulkDone:
        found = rows.fetch(tx, SQL["movable"], own)
        free = list(_free(found, lambda row: row[1]))
        if free:
            tx.execute(ENSURE_QUEUE, (own["target"],))
            moved = {"ns": rows.numbers([row[0] for row in free])}
            tx.execute(SQL["move"], own | moved)
            self.db.tell(own["target"], min(row[2] for row in free))
        return BulkDone(len(free), len(found) - len(free))

    def _retry(self, tx: apsw.Connection, own: dict[str, Any]) -> BulkDone:
        found = rows.fetch(tx, SQL["revivable"], own)
        free = list(_free(found, lambda row: row[1] and (row[2], row[1])))
        if free:
            ns = {"ns": rows.numbers([row[0] for row in free]), "kept": DIAGNOSTICS_KEPT}
            for name in ("keep_attempts", "trim_attempts", "revive"):
                tx.execute(SQL[name], own | ns)
            for queue in {row[2] for row in free}:
                self.db.tell(queue, own["now"])
        return BulkDone(len(free), len(found) - len(free))


def _changed(tx: apsw.Connection, name: str, own: Mapping[str, Any]) -> int:
    tx.execute(SQL[name], own)
    return tx.changes()


def _free(found: Iterable[Any], name_of: Callable[[Any], Any]) -> Iterator[Any]:
    """Those that need no name, and the first of each name that nobody has (the fourth column)."""
    given: set[Any] = set()
    for row in found:
        name = name_of(row)
        if name is None:
            yield row
        elif not row[3] and name not in given:
            given.add(name)
            yield row
