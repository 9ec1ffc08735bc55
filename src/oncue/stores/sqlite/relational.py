"""Rules, events, schedules, access tokens and nodes in SQLite: what `stores/relational` needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import apsw

from oncue.core.firing import FiredJob
from oncue.core.job import Job, NewJob
from oncue.core.moment import Moment
from oncue.stores.relational.nouns import RelationalNouns
from oncue.stores.relational.tx import Named
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database, StorePart

T = TypeVar("T")
NOUNS = ("rules", "events", "rules_transfer", "schedules", "access", "nodes")
_SQL = {noun: rows.load(noun) for noun in NOUNS}
_INSERT_FIRED = rows.load("jobs")["insert_fired"]
_INSERT_OCCURRENCE = _SQL["schedules"]["insert_occurrence"]


class SqliteTx:
    """Implements `oncue.stores.relational.tx.RelationalTx`."""

    __slots__ = ("_execute", "connection", "db")

    def __init__(self, connection: apsw.Connection, db: Database) -> None:
        self.connection = connection
        self.db = db
        self._execute = connection.execute

    def run(self, noun: str, name: str, params: Named | None = None, /) -> apsw.Cursor:
        return self._execute(_SQL[noun][name], params)

    def rows(self, noun: str, name: str, params: Named | None = None, /) -> list[Any]:
        return self._execute(_SQL[noun][name], params).fetchall()

    def do(self, noun: str, name: str, params: Named, /) -> None:
        self._execute(_SQL[noun][name], params)

    def change(self, noun: str, name: str, params: Named, /) -> int:
        self._execute(_SQL[noun][name], params)
        return self.connection.changes()

    def texts(self, values: Iterable[str], /) -> Any:
        return rows.texts(values)

    def numbers(self, values: Iterable[int], /) -> Any:
        return rows.numbers(values)

    def tell(self, queue: str | None, due_at: Moment, /) -> None:
        """The revision of the settings is raised by triggers."""
        self.db.tell(queue, due_at)


class SqliteRelational(StorePart, RelationalNouns[SqliteTx]):
    def _write(self, call: Callable[[SqliteTx], T], *, synced: bool = True) -> T:
        return self.db.write(lambda connection: call(SqliteTx(connection, self.db)), synced=synced)

    @contextmanager
    def _read(self) -> Iterator[SqliteTx]:
        with self.db.reading() as connection:
            yield SqliteTx(connection, self.db)

    def _insert_fired(self, tx: SqliteTx, fired: FiredJob) -> None:
        job, rule, instant = fired
        tx.connection.execute(_INSERT_FIRED, (*job[:6], rule, instant))
        self.db.arrived(tx.connection, {job.queue: job.due_at})

    def _insert_occurrence(self, tx: SqliteTx, job: NewJob, schedule: str) -> None:
        row = (*job[:6], job.owner, schedule, job.epoch)
        tx.connection.execute(_INSERT_OCCURRENCE, row)
        self.db.arrived(tx.connection, {job.queue: job.due_at})

    def _job_in(self, tx: SqliteTx, job_id: str | None) -> Job | None:
        return rows.get_job(tx.connection, job_id)

    def _withdraw(self, tx: SqliteTx, job_id: str) -> None:
        tx.do("schedules", "withdraw", {"id": job_id})
