"""Changes of jobs in SQLite: a page is found by reading alone, then changed by a few statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from oncue.core.bulk import FILTERS, BulkChange
from oncue.core.changes import ChangeVerb, JobChange, NotChanged, SeenJob, decide
from oncue.core.job import JobFilter
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkFound
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database, writing
from oncue.stores.sqlite.fencing import trim
from oncue.stores.sqlite.statements import load
from oncue.stores.sqlite.walking import find_all

SQL = load("bulk")
_seen = rows.reader(SeenJob)


class Changes:
    db: Database

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        with self.db.reading() as tx:
            return find_all(tx, change, wanted, after, limit)

    @writing
    def change(
        self, tx: apsw.Connection, job_ids: Sequence[str], change: JobChange, now: Moment
    ) -> Mapping[int, NotChanged]:
        """By a few statements for all of them; then the others are looked at."""
        if not job_ids:
            return {}
        params = {
            **{name: getattr(change.wanted, name) for name in FILTERS},
            "now": now,
            "begun_at": change.begun_at,
            "due_at": change.due_at,
            "priority": change.priority,
            "payload": change.payload,
            "target": change.queue,
        }
        changed = self._changed(tx, change.verb, params | {"ids": _sought(job_ids)})
        left = {at: job_id for at, job_id in enumerate(job_ids) if job_id not in changed}
        if not left:
            return {}
        found = rows.fetch(tx, SQL["seen"], params | {"ids": _sought(left.values())})
        whys = {row[0]: decide(_seen(row), change, now) for row in found}
        assert None not in whys.values(), "the statements and core.changes disagree"
        return {at: whys.get(job_id) or NotChanged("unknown") for at, job_id in left.items()}

    def _changed(self, tx: apsw.Connection, verb: ChangeVerb, params: dict[str, Any]) -> set[str]:
        """The ids of the jobs that were changed."""
        found = rows.fetch(tx, SQL[verb], params)
        if verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE):
            found = list(_with_free_keys(found))
            ns = [row[3] for row in found]
            if ns and verb is ChangeVerb.REVIVE:
                tx.execute(SQL["keep_attempts"], {"ns": rows.numbers(ns)})
                trim(tx, "attempts", ns)
            if ns:
                tx.execute(SQL[f"{verb}_found"], params | {"ns": rows.numbers(ns)})
        for _, queue, due_at, *_ in found:
            if due_at is not None:
                self.db.arrived(tx, queue, due_at)
        return {row[0] for row in found}


def _sought(job_ids: Iterable[str]) -> Any:
    """No job has an id with a NUL in it, which `carray` refuses, nor an empty one."""
    return rows.texts("" if "\0" in job_id else job_id for job_id in job_ids)


def _with_free_keys(found: Iterable[Any]) -> Iterator[Any]:
    """Those that have no key, and the first of each key that is free where the job will be."""
    given: set[tuple[str, str]] = set()
    for row in found:
        _, queue, _, _, key, taken = row
        if key is None:
            yield row
        elif not taken and (queue, key) not in given:
            given.add((queue, key))
            yield row
