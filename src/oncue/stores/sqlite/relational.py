"""Rules, events, schedules, access tokens and nodes in SQLite: what `stores/relational` needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from oncue.core.firing import FiredJob
from oncue.core.job import Job, NewJob
from oncue.stores.relational.nouns import RelationalNouns
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart
from oncue.stores.sqlite.tx import SqliteTx

T = TypeVar("T")
_INSERT_FIRED = rows.load("jobs")["insert_fired"]
_INSERT_OCCURRENCE = rows.load("schedules")["insert_occurrence"]


class SqliteRelational(StorePart, RelationalNouns[SqliteTx]):
    def _write(self, call: Callable[[SqliteTx], T], *, synced: bool = True) -> T:
        return self.db.write(call, synced=synced)

    def _read(self) -> AbstractContextManager[SqliteTx]:
        return self.db.reading()

    def _insert_fired(self, tx: SqliteTx, fired: FiredJob) -> None:
        job, rule, instant = fired
        tx.execute(_INSERT_FIRED, (*job[:6], rule, instant))
        self.db.arrived(tx, {job.queue: job.due_at})

    def _insert_occurrence(self, tx: SqliteTx, job: NewJob, schedule: str) -> None:
        tx.execute(_INSERT_OCCURRENCE, (*job[:6], job.owner, schedule, job.epoch))
        self.db.arrived(tx, {job.queue: job.due_at})

    def _job_in(self, tx: SqliteTx, job_id: str | None) -> Job | None:
        return rows.get_job(tx, job_id)

    def _withdraw(self, tx: SqliteTx, job_id: str) -> None:
        tx.do("schedules", "withdraw", {"id": job_id})
