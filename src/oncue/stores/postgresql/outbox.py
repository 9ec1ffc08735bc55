"""Jobs in transactions of others: stored with what these transactions write, or completed with it.

The store's own calls repeat what lost a race, and hold locks for milliseconds. Neither is possible
here: a transaction of the caller goes on for as long as it likes. So a new job holds a lock for
which only the deletion of its queue waits, and nothing raises but what the server refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.transaction import OutOfOrderTransactionNesting
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from oncue.core.errors import Conflict, InvalidInput, StoreUnavailable
from oncue.core.fencing import Refused, Settlement
from oncue.core.job import NewJob
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.forking import now_and_after_fork
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import records
from oncue.stores.postgresql.borrowed import borrowed, borrowed_async
from oncue.stores.postgresql.clashes import (
    clashing,
    new_ranks,
    not_stored,
    replacing,
    seen_clashes,
    to_replace,
)
from oncue.stores.postgresql.database import CONNECT_SECONDS
from oncue.stores.postgresql.endings import asked_completion, known_answer
from oncue.stores.postgresql.news import Dues, PgNews, notices_of
from oncue.stores.postgresql.records import read_stored
from oncue.stores.postgresql.settings import queue_row
from oncue.stores.postgresql.steps import run, run_async
from oncue.stores.postgresql.trouble import translate
from oncue.stores.postgresql.tx import Asked, Steps

if TYPE_CHECKING:
    from oncue.stores.postgresql.queues import PgQueues

TOLD_MS = 60_000  # what is due later than that is not told: a look finds it in time
RACES = 20
# As DISCARD ALL, but for prepared statements: psycopg does not always notice that these are gone.
_FORGET = (
    "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; "
    "SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES"
)
IDLE_MS = 10_000  # a transaction of ours that has completed a job is ended by the server then
ENDED = (
    "the transaction was ended in the block (by COMMIT, ROLLBACK or the end of its connection), so "
    "the job is not completed with it. The end of the block commits."
)
STOOD_STILL = (
    "the server has ended the transaction, as nothing was done in it for longer than the role's "
    f"idle_in_transaction_session_timeout, or for {IDLE_MS // 1000} seconds after the completion. "
    "Do what takes long before the block."
)
T = TypeVar("T")
Ranks = dict[str | None, set[int]]
AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


class PgOutbox:
    """Implements `oncue.ports.outbox.Outbox`."""

    def __init__(self, store: PgQueues, news: PgNews, secret: bytes) -> None:
        self._store = store
        self._db = store.db
        self._news = news
        self._mark = sha256(secret).digest()
        now_and_after_fork(self, PgOutbox._renew)

    def _renew(self) -> None:
        self._known: WeakSet[AnyConnection] = WeakSet()  # to be on the store's database
        self._own: WeakSet[AnyConnection] = WeakSet()
        self._lock = threading.Lock()
        self._former = getattr(self, "_pool", None)  # not closed: its sockets are the parent's
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None

    # -- what the port says ------------------------------------------------------------------------

    def insert(
        self, connection: object, jobs: Sequence[NewJob], now: Moment
    ) -> Mapping[int, Clash]:
        lent = borrowed(connection)
        return self._run(lent, self._inserting(jobs, now))

    async def insert_async(
        self, connection: object, jobs: Sequence[NewJob], now: Moment
    ) -> Mapping[int, Clash]:
        lent = await borrowed_async(connection)
        return await self._run_async(lent, self._inserting(jobs, now))

    def complete(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None:
        lent = borrowed(connection)
        if lent in self._own:
            _refuse_over(lent)
            run(lent, self._db.statements, self._bounding())
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return self._run(lent, self._completing(done, now))

    async def complete_async(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None:
        lent = await borrowed_async(connection)
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return await self._run_async(lent, self._completing(done, now))

    def is_completed(self, job_id: str, epoch: int, result: bytes | None) -> bool | None:
        one = self._db.once(lambda tx: records.lock(tx, [job_id], free=True)).get(job_id)
        if one is None:
            return None if self._db.once(lambda tx: records.find(tx, [job_id])) else False
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return one.record.outcome_of(done) == "succeeded"

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with self._connections().connection() as connection:
                self._own.add(connection)
                leaving = False
                try:
                    with connection.transaction():
                        yield connection
                        leaving = True
                        _refuse_over(connection)
                except psycopg.errors.IdleInTransactionSessionTimeout as error:
                    raise Conflict(STOOD_STILL) from error  # not that the server is away
                except OutOfOrderTransactionNesting as error:
                    connection.close()  # it would fail in each block after this one
                    raise Conflict(ENDED) from error
                except psycopg.Error as error:
                    if leaving or connection.closed:  # not of the caller's statements
                        raise translate(error, self._db.place) from error
                    raise
        except (PoolTimeout, PoolClosed) as error:
            raise translate(error, self._db.place) from error

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    # -- connections -------------------------------------------------------------------------------

    def _connections(self) -> ConnectionPool[psycopg.Connection[Any]]:
        """Apart from those of the store: handlers may change what belongs to a session."""
        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._db.address.conninfo,
                    connection_class=self._db.connection_class(),
                    min_size=0,
                    max_size=self._db.address.pool_size,
                    timeout=CONNECT_SECONDS,
                    reconnect_timeout=CONNECT_SECONDS,
                    kwargs={
                        "autocommit": True,
                        "application_name": "oncue handler",
                        **self._db.connect_options,
                    },
                    configure=self._as_new,
                    reset=self._as_new,
                    open=True,
                )
            return self._pool

    def _as_new(self, connection: psycopg.Connection[Any]) -> None:
        """Remove what a handler has changed, so that it does not reach the next one. Behind a
        pooler, a prepared statement does not exist in the next transaction."""
        connection.execute(_FORGET)
        connection.row_factory = tuple_row
        connection.cursor_factory = psycopg.Cursor
        connection.prepare_threshold = 5 if self._db.listens else None

    def _bounding(self) -> Steps[None]:
        """From here on, the server ends the session if the process stands still for `IDLE_MS`, so
        that it does not hold the job it completes for longer."""
        yield "outbox", "bound", {"ms": str(IDLE_MS)}

    def _run(self, connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
        return run(connection, self._db.statements, self._within(connection, steps))

    async def _run_async(self, connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
        return await run_async(connection, self._db.statements, self._within(connection, steps))

    def _within(self, connection: AnyConnection, steps: Steps[T]) -> Steps[T]:
        """These steps, unless the connection leads to another database. That is checked once for
        each connection, by a mark that only this store has."""
        if connection not in self._known:
            found = yield "outbox", "is_there", None
            if found[0][0]:
                found = yield "outbox", "mark", None
            if not found or found[0][0] != self._mark:
                place = f"{self._db.place}, schema {self._db.address.schema}"
                raise InvalidInput(
                    f"it is connected to another database than the store ({place}), so they cannot "
                    "share a transaction. Give a connection to that one.",
                    "/connection",
                )
            self._known.add(connection)
        return (yield from steps)

    def _telling(self, dues: Dues, ranks: Ranks | None = None) -> Steps[None]:
        """Others hear of it once the transaction is committed."""
        if dues and self._news.listens:
            notices = notices_of(dues, ranks or {})
            yield "queues", "notify", {"channel": self._news.channel, "notices": notices}

    # -- new jobs ----------------------------------------------------------------------------------

    def _inserting(self, jobs: Sequence[NewJob], now: Moment) -> Steps[dict[int, Clash]]:
        if any(job.replace for job in jobs):
            yield from self._refuse_old_snapshot()
        rows = yield self._insert(jobs)
        left = not_stored(jobs, {row[0] for row in rows})
        clashes = yield from self._clashes_together(left, now)
        dues: Dues = {}
        ranks: Ranks = {}
        for position, job in enumerate(jobs):
            clash = clashes.get(position)
            if clash is None and position in left:
                clash = yield from self._clashing(job, now)
                if clash is not None:
                    clashes[position] = clash
            of_job = new_ranks(job, clash)
            if of_job and job.due_at <= now + TOLD_MS:
                dues[job.queue] = min(job.due_at, dues.get(job.queue, job.due_at))
                ranks.setdefault(job.queue, set()).update(of_job)
        yield from self._telling(dues, ranks)
        return clashes

    def _refuse_old_snapshot(self) -> Steps[None]:
        """A transaction with an old snapshot does not see that the job was handed over since, not
        even after it has locked the job."""
        [[isolation]] = yield "outbox", "isolation", None
        if isolation in ("repeatable read", "serializable"):
            raise InvalidInput(
                f"'replace' must see the job as it is now, and this transaction is {isolation}. Use"
                " read committed, or if_exists='keep'.",
                "/if_exists",
            )

    def _insert(self, jobs: Sequence[NewJob]) -> Asked:
        return self._store.asked_insert(jobs, self._store.outbox_lock)

    def _clashes_together(self, new: Mapping[int, NewJob], now: Moment) -> Steps[dict[int, Clash]]:
        """As far as nobody has to be waited for."""
        if len(new) < 2:
            return {}
        clashes = yield from seen_clashes(new)
        wanted = to_replace(new, clashes)
        return clashes | (yield from replacing(self._db.address.schema, wanted, now))

    def _clashing(self, new: NewJob, now: Moment) -> Steps[Clash | None]:
        """As `clashes.py: clashing`, repeated if another transaction was quicker."""
        for _ in range(RACES):
            with suppress(psycopg.errors.SerializationFailure):  # not of the server: of the steps
                schema = self._db.address.schema
                return (yield from clashing(schema, new, partial(self._insert, [new]), now))
        raise StoreUnavailable(
            f"{self._db.place}: the jobs that have this id or key change all the time. Roll the "
            "transaction back and begin again."
        )

    # -- completions -------------------------------------------------------------------------------

    def _completing(self, done: Settlement, now: Moment) -> Steps[Refused | None]:
        found = yield asked_completion([done], now)
        if found:
            [[_, name, is_hidden]] = found
            if is_hidden:
                yield "jobs", "remove_operations", {"ids": [done.id]}
            yield from self._telling_of_room(name)
            return None
        rows = yield "jobs", "lock_by_ids", records.by_ids([done.id])
        one = read_stored(rows[0]) if rows else None
        known = known_answer(one, done, now)
        if one is None or known is not None:
            return known if isinstance(known, Refused) else None
        queue = yield from self._queue(one.record.queue)
        answer, one = self._store.settled(one, done, queue, now)
        if isinstance(answer, Refused):
            return answer
        yield "jobs", "save", records.row_of(one)
        if one.record.hidden:
            yield "jobs", "remove_operations", {"ids": [done.id]}
        yield from self._telling_of_room(queue.name)
        return None

    def _queue(self, name: str) -> Steps[Queue]:
        rows = yield "queues", "named", {"names": [name]}
        return queue_row(*rows[0]).queue if rows else default_queue(name)

    def _telling_of_room(self, queue: str) -> Steps[None]:
        if self._store.known_queue(queue).concurrency is not None:
            yield from self._telling({queue: 0})


def _refuse_over(connection: psycopg.Connection[Any]) -> None:
    """If a statement in the transaction failed, the server answers the commit by rolling it back,
    which psycopg takes for a commit. psycopg takes a transaction that was ended by a statement for
    open. If a block is begun in it, psycopg raises `OutOfOrderTransactionNesting`."""
    status = connection.info.transaction_status
    if status in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
        raise Conflict(ENDED)
    if status == TransactionStatus.INERROR:
        raise Conflict(
            "a statement in the transaction failed, and its error was caught there: nothing of "
            "it is stored. Use a savepoint (connection.transaction()) for what may fail."
        )
