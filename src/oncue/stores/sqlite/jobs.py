"""Jobs in SQLite: creation and reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain
from operator import itemgetter

import apsw

from oncue.core.clash import of_same_id, of_same_key
from oncue.core.cursor import MOST_ITEMS, Cursor
from oncue.core.job import RARE, Diagnostic, History, Job, JobFilter, JobPage, NewJob, are_plain
from oncue.core.moment import LATEST, Moment
from oncue.core.operations import OperationPages, history_with, start_of
from oncue.ports.jobs import Clash
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import StorePart, writing
from oncue.stores.sqlite.fencing import held_claims, record
from oncue.stores.sqlite.listing import page

SQL = rows.load("jobs")
# Per-job work of a bulk insert, at the speed of C.
_QUEUE_OF = itemgetter(NewJob._fields.index("queue"))
_DUE_OF = itemgetter(NewJob._fields.index("due_at"))
_PLACE_OF = itemgetter(*map(NewJob._fields.index, ("queue", "due_at")))
_PLAIN, _INSERTED = RARE.start, RARE.stop  # how many columns: of a plain job, of any job
_COLUMNS_OF = itemgetter(slice(_INSERTED))
_PLAIN_OF = itemgetter(slice(_PLAIN))
_ROWS = 64
AT_ONCE = 1024  # jobs that one statement stores; apsw keeps no statement of more than 16 KB
AT_ONCE_QUEUES = 8  # queues that such jobs may belong to


def _many_rows(statement: str) -> str:
    """An INSERT of one row, with numbered parameters, as one of `_ROWS`."""
    head, _, row = statement.rstrip(";").rpartition("VALUES ")
    numbered = re.sub(r"\?(\d+)", r"?{\1}", row)
    places = (
        [""] + [str(n * _INSERTED + place) for place in range(1, _INSERTED + 1)]
        for n in range(_ROWS)
    )
    return f"{head}VALUES {', '.join(numbered.format(*place) for place in places)}"


_INSERT_ROWS = _many_rows(SQL["insert"])


class SqliteJobs(StorePart):
    def _reading(self, job_id: str) -> AbstractContextManager[rows.Tx]:
        """A connection for reading about a job."""
        ids = rows.sought([job_id])
        return worker_ranges.reading(self.db, "around", to_show=True, ids=ids)

    def get(self, job_id: str) -> Job | None:
        with self._reading(job_id) as tx:
            return rows.get_job(tx, job_id)

    def history(self, job_id: str, after: Cursor | None = None, limit: int = MOST_ITEMS) -> History:
        start = start_of(after)
        with self._reading(job_id) as tx:
            row = rows.first(tx, SQL["number"], {"id": job_id})
            if row is None:
                return History()
            params = {"n": row[0]}
            page = rows.operation_page(tx, row[0], OperationPages(), start, limit)
            if after is not None:
                return history_with(page)
            rest = History(
                diagnostics=tuple(map(rows.diagnostic, rows.fetch(tx, SQL["diagnostics"], params))),
                attempts=tuple(map(rows.attempt, rows.fetch(tx, SQL["attempts"], params))),
            )
            return history_with(page, rest)

    @writing
    def note(self, tx: rows.Tx, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        for held in held_claims(tx, [job_id]).values():
            for one in diagnostics:
                record(tx, [(held.n, one)])

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        with worker_ranges.reading(self.db, to_show=True, queue=wanted.queue) as tx:
            return page(tx, wanted, after, limit)

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        if 0 < len(jobs) <= AT_ONCE and are_plain(jobs) and self._insert_at_once(jobs):
            return {}
        return self._insert(jobs, now)

    def _insert_at_once(self, jobs: Sequence[NewJob]) -> bool:
        """Store plain jobs if nobody else writes, and if nothing clashes: whether that was done."""
        dues = _earliest(jobs)
        if len(dues) > AT_ONCE_QUEUES:
            return False
        places, names = _places(len(jobs)), _places(len(dues))
        params = [
            *chain.from_iterable(map(_PLAIN_OF, _in_order(jobs))),
            *[None] * (_PLAIN * (places - len(jobs))),
            *dues,
            *[None] * (names - len(dues)),
            len(dues),
        ]
        return self.db.insert_at_once(_insert_in(places, names), params, len(jobs), dues)

    @writing
    def _insert(self, tx: rows.Tx, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        if any(job.digest is not None or job.key is not None for job in jobs):
            return self._insert_one_by_one(tx, jobs, now)
        ordered = _in_order(jobs)
        inserted = _insert_all(tx, ordered)
        self.db.arrived(tx, _earliest(jobs))
        if inserted == len(jobs):
            return {}
        # A minted id that is there tells of a repeated call.
        rest, places = ordered[inserted:], {job.id: place for place, job in enumerate(jobs)}
        clashes = self._insert_one_by_one(tx, rest, now)
        return {places[rest[at].id]: clash for at, clash in clashes.items()}

    def _insert_one_by_one(
        self, tx: rows.Tx, jobs: Sequence[NewJob], now: Moment
    ) -> dict[int, Clash]:
        clashes = {}
        for position, job in enumerate(jobs):
            clash = self._clash(tx, job, now)
            if clash is None:
                tx.execute(SQL["insert"], _COLUMNS_OF(job))
            else:
                clashes[position] = clash
            if clash is None or clash.kind == "replaced":
                self.db.arrived(tx, {job.queue: job.due_at})
        return clashes

    def _clash(self, tx: rows.Tx, job: NewJob, now: Moment) -> Clash | None:
        held = rows.first(tx, SQL["digest"], {"id": job.id})
        if held is not None:
            worker_ranges.split(tx, "around", {"ids": rows.texts([job.id])})
            row = rows.first(tx, SQL["get_even_hidden"], {"id": job.id})
            return Clash(of_same_id(job, held[0]), rows.job(row))
        if job.key is None:
            return None
        holder = rows.first(tx, SQL["key_holder"], {"queue": job.queue, "key": job.key})
        if holder is None:
            return None
        params = {"id": holder[0]}
        worker_ranges.split(tx, "around", {"ids": rows.texts(holder)})
        existing = rows.job(rows.first(tx, SQL["get"], params))
        kind = of_same_key(job, existing.state)
        if kind == "replaced":
            change = {"due_at": job.due_at, "payload": job.payload, "now": now}
            tx.execute(SQL["replace"], params | change)
            worker_ranges.split(tx, "around", {"ids": rows.texts(holder)})
            existing = rows.job(rows.first(tx, SQL["get"], params))
        return Clash(kind, existing)


def _in_order(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """In the order of the index of waiting jobs. Then jobs with random due times change each page
    of the index once, not once for each job."""
    if len(jobs) == 1:
        return jobs
    is_one_queue = len(set(map(_QUEUE_OF, jobs))) == 1
    return sorted(jobs, key=_DUE_OF if is_one_queue else _PLACE_OF)


def _places(count: int) -> int:
    """The next power of two, so that there are few different statements."""
    return 1 << (count - 1).bit_length()


@cache
def _insert_in(places: int, names: int) -> str:
    """The INSERT with so many places for jobs and for names of queues."""
    row = "(" + ",".join("?" * _PLAIN) + ")"
    statement = SQL["insert_at_once"].replace(row, ",".join([row] * places))
    return statement.replace("IN (?)", f"IN ({','.join('?' * names)})")


def _earliest(jobs: Sequence[NewJob]) -> dict[str, Moment]:
    """The earliest due time in each of their queues, by one pass: there may be as many queues as
    jobs."""
    if len(set(map(_QUEUE_OF, jobs))) == 1:
        return {jobs[0].queue: min(map(_DUE_OF, jobs))}
    earliest: dict[str, Moment] = {}
    for queue, due_at in zip(map(_QUEUE_OF, jobs), map(_DUE_OF, jobs), strict=True):
        if due_at < earliest.get(queue, LATEST + 1):
            earliest[queue] = due_at
    return earliest


def _insert_all(tx: rows.Tx, jobs: Sequence[NewJob]) -> int:
    """How many were inserted; those from the first one on that clashes, and a few before it, were
    not. Without a savepoint, for which SQLite would copy every page before it is changed.
    Sixty-four rows in a statement: during each statement apsw lets other threads run, and a busy
    thread then keeps the interpreter for milliseconds."""
    whole = len(jobs) - len(jobs) % _ROWS
    before = tx.total_changes()
    try:
        for start in range(0, whole, _ROWS):
            chunk = jobs[start : start + _ROWS]
            tx.execute(_INSERT_ROWS, tuple(chain.from_iterable(map(_COLUMNS_OF, chunk))))
        if whole < len(jobs):
            tx.executemany(SQL["insert"], map(_COLUMNS_OF, jobs[whole:]))
    except apsw.ConstraintError:
        return tx.total_changes() - before
    return len(jobs)
