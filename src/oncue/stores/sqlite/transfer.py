"""Dump and restore in SQLite: all jobs out, all jobs in, as they are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw

from oncue.core import stamp
from oncue.core.dumped import DumpedJob, key_taken
from oncue.core.job import Attempt, History
from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment, from_datetime, maybe_datetime
from oncue.ports.transfer import Export
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.rules_transfer import RulesTransfer
from oncue.stores.sqlite.statements import load

SQL = load("transfer")
OPERATIONS_OF = load("claims")["operations_of"]
ENSURE_QUEUE = load("queues")["ensure"]
_JOB = 29  # columns of `export` that make a Job; what follows is the rest of a DumpedJob


class Transfer(RulesTransfer):
    db: Database

    def export(self, after: str | None, limit: int) -> Export:
        with self.db.reading() as tx, tx:  # one snapshot for jobs and their histories
            found = rows.fetch(tx, SQL["export"], {"after": after or "", "limit": limit})
            sides = _sides(tx, [row[_JOB] for row in found if row[-1]])
        jobs = [_dumped_job(row, sides) for row in found]
        return Export(jobs, found[-1][0] if len(found) == limit else None)

    def admit(self, jobs: Sequence[DumpedJob]) -> int:
        def admit(tx: apsw.Connection) -> int:
            for queue in {dumped.job.queue for dumped in jobs}:
                tx.execute(ENSURE_QUEUE, (queue,))
            return sum(_admit(tx, dumped) for dumped in jobs)

        return self.db.write(admit)


class _Sides:
    """What belongs to jobs by their number: attempts, diagnostics, operations."""

    def __init__(self) -> None:
        self.attempts: dict[int, list[Attempt]] = defaultdict(list)
        self.diagnostics: dict[int, list[Any]] = defaultdict(list)
        self.operations: dict[int, list[Any]] = defaultdict(list)


def _sides(tx: apsw.Connection, ns: list[int]) -> _Sides:
    sides = _Sides()
    if not ns:
        return sides
    own = {"ns": rows.numbers(ns)}
    for n, *row in rows.fetch(tx, SQL["attempts_of"], own):
        sides.attempts[n].append(rows.attempt(row))
    for n, *row in rows.fetch(tx, SQL["diagnostics_of"], own):
        sides.diagnostics[n].append(rows.diagnostic(row))
    for n, *row in rows.fetch(tx, OPERATIONS_OF, own):
        sides.operations[n].append(rows.operation(row))
    return sides


def _dumped_job(row: Sequence[Any], sides: _Sides) -> DumpedJob:
    job = rows.job(row[:_JOB])
    n, claimed_at, digest, overlong_at, strikes, ahead, hidden, _ = row[_JOB:]
    attempts = sides.attempts.get(n, [])
    if claimed_at is not None:
        outcome = str(job.state) if job.state in FINAL else None
        ended = (job.attempt, job.epoch, claimed_at, job.worker, outcome, _ms(job.finished_at))
        attempts = [*attempts, rows.attempt(ended)]
    history = History(
        tuple(sides.operations.get(n, ())), tuple(sides.diagnostics.get(n, ())), tuple(attempts)
    )
    return DumpedJob(
        job, history, digest, maybe_datetime(overlong_at), strikes, bool(ahead), bool(hidden)
    )


def _admit(tx: apsw.Connection, dumped: DumpedJob) -> int:
    job, history = dumped.job, dumped.history
    earlier, claimed_at = _split(dumped)
    trail = bool(earlier or history.diagnostics or history.operations)
    row = (
        *(job.id, job.queue, str(job.state), _ms(job.due_at), job.payload_json, job.priority),
        *(job.attempt, _ms(job.created_at), _ms(job.updated_at), job.owner, job.key),
        *(_ms(job.expires_at), job.max_attempts, job.timeout_seconds, _ms(job.finished_at)),
        *(job.result_json, job.error, job.message, job.percent, int(job.cancel_requested)),
        *(job.epoch, job.worker, _ms(job.lease_until), job.attempt_base, claimed_at),
        *(dumped.digest, _ms(dumped.overlong_at), dumped.strikes, int(dumped.ahead)),
        *(int(dumped.hidden), int(trail), job.rule),
        *(None if job.instant is None else stamp.from_datetime(job.instant), job.schedule),
        *(_ms(job.not_before), job.refusals),
    )
    try:
        tx.execute(SQL["admit"], row)
    except apsw.ConstraintError as error:
        if "UNIQUE" not in str(error):
            raise
        raise key_taken(job) from None
    if not tx.changes():
        return 0
    if trail:
        _admit_sides(tx, tx.last_insert_rowid(), earlier, history)
    return 1


def _admit_sides(tx: apsw.Connection, n: int, earlier: Sequence[Attempt], history: History) -> None:
    for a in earlier:
        own = (n, a.epoch, a.attempt, _ms(a.claimed_at), _ms(a.ended_at), a.worker, a.outcome)
        tx.execute(SQL["admit_attempt"], own)
    for d in history.diagnostics:
        facts = json.dumps(d.facts)
        tx.execute(
            SQL["admit_diagnostic"], (n, _ms(d.at), d.code, d.detail, d.attempt, d.epoch, facts)
        )
    for seq, o in enumerate(history.operations):
        told = (o.percent, o.message, o.result)
        tx.execute(SQL["admit_operation"], (n, o.name, seq, o.state, _ms(o.updated_at), *told))


def _split(dumped: DumpedJob) -> tuple[Sequence[Attempt], Moment | None]:
    """The earlier attempts, and when the one in the job's own row was claimed."""
    job, attempts = dumped.job, dumped.history.attempts
    if attempts:
        last = attempts[-1]
        if last.outcome is None or (job.state in FINAL and last.outcome == job.state):
            return attempts[:-1], from_datetime(last.claimed_at)
    return attempts, None


def _ms(moment: datetime | None) -> Moment | None:
    return None if moment is None else from_datetime(moment)
