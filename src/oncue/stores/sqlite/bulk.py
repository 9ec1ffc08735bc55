"""Bulk verbs in SQLite: a page is found by reading alone, then changed by a few statements."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from operator import itemgetter
from typing import Any

import apsw

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.job import DIAGNOSTICS_KEPT, JobFilter, Position
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.ports.bulk import BulkDone, BulkFound
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.lines import all_lines
from oncue.stores.sqlite.statements import load

SQL = load("bulk")
ENSURE_QUEUE = load("queues")["ensure"]
QUEUE_NAMES = load("queues")["names"]
_PLACE = itemgetter(1, 0)  # due time and id of what the `find_…` statements answer with


class Bulk:
    db: Database

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Position | None, limit: int
    ) -> BulkFound:
        own = _bounds(wanted, after) | {"limit": limit, "begun_at": change.begun_at}
        own |= {state.value: int(state in change.states) for state in State}
        with self.db.reading() as tx:
            streams = [
                tx.execute(SQL[name], own | more) for name, more in _streams(tx, change, wanted)
            ]
            seen = list(islice(heapq.merge(*streams, key=_PLACE), limit))
        ids = [job_id for job_id, _, applies in seen if applies]
        return BulkFound(ids, Position(*_PLACE(seen[-1])) if len(seen) == limit else None)

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


def _bounds(wanted: JobFilter, after: Position | None) -> dict[str, Any]:
    """The filter as parameters, and where its page begins and ends."""
    start = after or Position(-1, "")
    if wanted.due_after is not None and wanted.due_after > start.due_at:
        start = Position(wanted.due_after, "")
    until = LATEST if wanted.due_before is None else wanted.due_before - 1
    return asdict(wanted) | {"after_due": start.due_at, "after_id": start.id, "until": until}


def _streams(
    tx: apsw.Connection, change: BulkChange, wanted: JobFilter
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The statements, each on its index, that together see everything that can be wanted."""
    if wanted.owner is not None:
        yield "find_owned", {}
        return
    if wanted.key is not None:
        yield "find_keyed", {}
        return
    states = change.states if wanted.state is None else change.states & {wanted.state}
    queues = [wanted.queue] if wanted.queue else [row[0] for row in rows.fetch(tx, QUEUE_NAMES)]
    for queue in queues:
        if State.SCHEDULED in states:
            for line, _ in all_lines(tx, queue):
                yield "find_waiting", {"queue": queue, "line": line}
        if states & LIVE:
            yield "find_taken", {"queue": queue}
        for state in sorted(states & FINAL):
            yield "find_ended", {"queue": queue, "ended": state}
