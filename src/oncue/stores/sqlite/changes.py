"""Changes of jobs in SQLite: a page is found by reading alone, then changed by a few statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from oncue.core.bulk import FILTERS, BulkChange
from oncue.core.changes import ChangeVerb, JobChange, NotChanged, decide
from oncue.core.job import JobFilter
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkFound
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.fencing import trim
from oncue.stores.sqlite.statements import load
from oncue.stores.sqlite.walking import find_all

SQL = load("bulk")
ENSURE_QUEUE = load("queues")["ensure"]


class _Seen(NamedTuple):
    """A row of `seen`."""

    id: str
    state: State
    covered: bool
    queue: str
    owner: str | None
    key: str | None
    due_at: Moment
    not_before: Moment | None
    priority: int
    cancel_requested: bool
    finished_at: Moment | None
    n: int
    key_taken: bool


_seen = rows.reader(_Seen)


class Changes:
    db: Database

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        with self.db.reading() as tx:
            return find_all(tx, change, wanted, after, limit)

    def change(
        self, job_ids: Sequence[str], change: JobChange, now: Moment
    ) -> Mapping[int, NotChanged]:
        if not job_ids:
            return {}
        params = {name: getattr(change.wanted, name) for name in FILTERS} | {
            "now": now,
            "begun_at": change.begun_at,
            "due_at": change.due_at,
            "priority": change.priority,
            "payload": change.payload,
            "target": change.queue,
        }
        if len(job_ids) == 1:
            return self.db.write(lambda tx: self._change_one(tx, job_ids[0], change, params))
        return self.db.write(lambda tx: self._change_many(tx, job_ids, change, params))

    def _change_one(
        self, tx: apsw.Connection, job_id: str, change: JobChange, params: dict[str, Any]
    ) -> Mapping[int, NotChanged]:
        row = rows.first(tx, SQL["seen_one"], {"id": job_id, "target": change.queue})
        seen = None if row is None else _seen(row)
        why = _why(seen, change, params["now"])
        if seen is None or why is not None:
            return {} if why is None else {0: why}
        match change.verb:
            case ChangeVerb.REVIVE:
                self._revive(tx, [seen.n], {seen.queue}, params)
            case ChangeVerb.MOVE:
                self._move(tx, [seen.n], seen.due_at, params)
            case _:
                tx.execute(SQL[f"{change.verb}_one"], params | {"n": seen.n})
                self._tell(change, {seen.queue}, params["now"])
        return {}

    def _change_many(
        self,
        tx: apsw.Connection,
        job_ids: Sequence[str],
        change: JobChange,
        params: dict[str, Any],
    ) -> Mapping[int, NotChanged]:
        """By a few statements for all of them; then the others are looked at."""
        changed = self._changed(tx, change, params | {"ids": _sought(job_ids)})
        left = {at: job_id for at, job_id in enumerate(job_ids) if job_id not in changed}
        if not left:
            return {}
        found = rows.fetch(tx, SQL["seen"], params | {"ids": _sought(left.values())})
        seen = {row[0]: _seen(row) for row in found}
        whys = {at: _why(seen.get(job_id), change, params["now"]) for at, job_id in left.items()}
        assert None not in whys.values(), "the statements and core.changes disagree"
        return {at: why for at, why in whys.items() if why is not None}

    def _changed(
        self, tx: apsw.Connection, change: JobChange, params: dict[str, Any]
    ) -> Collection[str]:
        """The ids of the jobs that were changed."""
        match change.verb:
            case ChangeVerb.REVIVE:
                found = rows.fetch(tx, SQL["revivable"], params)
                free = list(_free(found, lambda row: row[2] and (row[3], row[2])))
                if free:
                    self._revive(tx, [row[1] for row in free], {row[3] for row in free}, params)
            case ChangeVerb.MOVE:
                free = list(_free(rows.fetch(tx, SQL["movable"], params), lambda row: row[2]))
                if free:
                    first = min(row[3] for row in free)
                    self._move(tx, [row[1] for row in free], first, params)
            case verb:
                free = rows.fetch(tx, SQL[verb], params)
                self._tell(change, {row[1] for row in free}, params["now"])
        return {row[0] for row in free}

    def _revive(
        self, tx: apsw.Connection, ns: list[int], queues: set[str], params: dict[str, Any]
    ) -> None:
        tx.execute(SQL["keep_attempts"], {"ns": rows.numbers(ns)})
        trim(tx, "attempts", ns)
        tx.execute(SQL["revive"], params | {"ns": rows.numbers(ns)})
        for queue in queues:
            self.db.tell(queue, params["now"])

    def _move(
        self, tx: apsw.Connection, ns: list[int], first_due: Moment, params: dict[str, Any]
    ) -> None:
        tx.execute(ENSURE_QUEUE, (params["target"],))
        tx.execute(SQL["move"], params | {"ns": rows.numbers(ns)})
        self.db.tell(params["target"], first_due)

    def _tell(self, change: JobChange, queues: set[str], now: Moment) -> None:
        due_at = now if change.verb is ChangeVerb.RUN else change.due_at
        if due_at is not None:
            for queue in queues:
                self.db.tell(queue, due_at)


def _sought(job_ids: Iterable[str]) -> Any:
    """No job has an id with a NUL in it, which `carray` refuses, nor an empty one."""
    return rows.texts("" if "\0" in job_id else job_id for job_id in job_ids)


def _why(seen: _Seen | None, change: JobChange, now: Moment) -> NotChanged | None:
    """Why a job is not changed; None: it is."""
    if seen is None:
        return NotChanged("unknown")
    return decide(seen, change, now, key_taken=seen.key_taken)


def _free(found: Iterable[Any], name_of: Callable[[Any], Any]) -> Iterator[Any]:
    """Those that need no name, and the first of each name that nobody has (the last column)."""
    given: set[Any] = set()
    for row in found:
        name = name_of(row)
        if name is None:
            yield row
        elif not row[-1] and name not in given:
            given.add(name)
            yield row
