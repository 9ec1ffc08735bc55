"""Dump and restore in SQLite: all jobs out, all jobs in, as they are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

import apsw

from oncue.core import stamp
from oncue.core.cursor import Cursor, Page
from oncue.core.dumped import DumpedJob, key_taken
from oncue.core.job import Attempt, Diagnostic, History, Job, Operation
from oncue.core.lifecycle import FINAL
from oncue.core.moment import from_datetime, maybe_datetime, to_datetime
from oncue.stores.sqlite import rows, worker_ranges
from oncue.stores.sqlite.database import StorePart

SQL = rows.load("transfer")
ENSURE_QUEUES = rows.load("queues")["ensure"]
_HISTORY = (  # in the order of History's fields
    (SQL["operations_of"], rows.operation),
    (SQL["diagnostics_of"], rows.diagnostic),
    (SQL["attempts_of"], rows.attempt),
)
_JOB = len(Job._fields)  # columns of `export`; what follows is the rest of a DumpedJob
_INSTANT = Job._fields.index("instant")


class SqliteTransfer(StorePart):
    def export(self, after: Cursor | None, limit: int) -> Page[DumpedJob]:
        # One snapshot for jobs and their histories.
        with worker_ranges.reading(self.db, queue=None) as tx, tx:
            found = rows.fetch(tx, SQL["export"], {"after": after or "", "limit": limit})
            histories = _histories(tx, [row[_JOB] for row in found if row[-1]])
        jobs = [_dumped_job(row, histories) for row in found]
        return Page(jobs, found[-1][0] if len(found) == limit else None)

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        def admit(tx: rows.Tx) -> int:
            if jobs:
                tx.execute(ENSURE_QUEUES, (rows.texts({dumped.job.queue for dumped in jobs}),))
            return sum(_admit(tx, dumped) for dumped in jobs)

        return self.db.write(admit)


def _histories(tx: rows.Tx, ns: list[int]) -> list[dict[int, list[Any]]]:
    """Operations, diagnostics and attempts by the number of their job."""
    histories: list[dict[int, list[Any]]] = [defaultdict(list) for _ in _HISTORY]
    if ns:
        for (statement, read), found in zip(_HISTORY, histories, strict=True):
            for n, *row in rows.fetch(tx, statement, {"ns": rows.numbers(ns)}):
                found[n].append(read(row))
    return histories


def _dumped_job(row: Sequence[Any], histories: list[dict[int, list[Any]]]) -> DumpedJob:
    job = rows.job(row[:_JOB])
    n, claimed_at, digest, overlong_at, strikes, ahead, hidden, _ = row[_JOB:]
    operations, diagnostics, attempts = (tuple(found.get(n, ())) for found in histories)
    history = History(operations, diagnostics, attempts)
    if claimed_at is not None:
        outcome = str(job.state) if job.state in FINAL else None
        claimed = to_datetime(claimed_at)
        last = Attempt(job.attempt, job.epoch, claimed, job.worker, outcome, job.finished_at)
        history = replace(history, attempts=(*history.attempts, last))
    return DumpedJob(
        job, history, digest, maybe_datetime(overlong_at), strikes, bool(ahead), bool(hidden)
    )


def _admit(tx: rows.Tx, dumped: DumpedJob) -> int:
    job, history = dumped.job, dumped.history
    earlier, claimed_at = _split(dumped)
    trail = bool(earlier or history.diagnostics or history.operations)
    row = [
        *map(_column, (*job, claimed_at, dumped.digest, dumped.overlong_at, dumped.strikes)),
        *(dumped.ahead, dumped.hidden, trail),
    ]
    row[_INSTANT] = None if job.instant is None else stamp.from_datetime(job.instant)
    try:
        tx.execute(SQL["admit"], row)
    except apsw.ConstraintError as error:
        if "UNIQUE" not in str(error):
            raise
        raise key_taken(job) from None
    if not tx.changes():
        return 0
    n = tx.last_insert_rowid()
    for attempt in earlier:
        tx.execute(SQL["admit_attempt"], (n, *_columns(attempt)))
    for diagnostic in history.diagnostics:
        tx.execute(SQL["admit_diagnostic"], (n, *_columns(diagnostic)))
    for seq, operation in enumerate(history.operations):
        tx.execute(SQL["admit_operation"], (n, *_columns(operation), seq))
    return 1


def _split(dumped: DumpedJob) -> tuple[Sequence[Attempt], datetime | None]:
    """The earlier attempts, and when the one in the job's own row was claimed."""
    job, attempts = dumped.job, dumped.history.attempts
    if attempts:
        last = attempts[-1]
        if last.outcome is None or (job.state in FINAL and last.outcome == job.state):
            return attempts[:-1], last.claimed_at
    return attempts, None


def _columns(part: Attempt | Diagnostic | Operation) -> list[Any]:
    """The fields in their order, as SQLite has them."""
    return [_column(getattr(part, field.name)) for field in fields(part)]


def _column(value: Any) -> Any:
    if isinstance(value, datetime):
        return from_datetime(value)
    return json.dumps(value) if isinstance(value, dict) else value
