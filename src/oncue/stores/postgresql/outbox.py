"""Jobs in transactions of others: stored with what these transactions write, or completed with it.

The store's own calls repeat what lost a race, and hold locks for milliseconds. Neither is possible
here: a transaction of the caller goes on for as long as it likes. So a new job holds a lock for
which only the deletion of its queue waits, and nothing raises but what the server refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.errors import Conflict, InvalidInput, StoreUnavailable
from oncue.core.fencing import GONE, Refused, Settlement
from oncue.core.job import NewJob
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.core.queue import Queue, default_queue
from oncue.forking import now_and_after_fork
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import records
from oncue.stores.postgresql.borrowed import borrowed, borrowed_async
from oncue.stores.postgresql.database import CONNECT_SECONDS
from oncue.stores.postgresql.locks import shard_lock
from oncue.stores.postgresql.new_jobs import are_plain
from oncue.stores.postgresql.news import Dues, PgNews, notices_of
from oncue.stores.postgresql.records import FiledRow, read_stored
from oncue.stores.postgresql.settings import queue_row
from oncue.stores.postgresql.shards import rank_of
from oncue.stores.postgresql.steps import PgStep, Steps, run, run_async
from oncue.stores.postgresql.trouble import translate

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
        return run(lent, self._within(lent, self._inserting(jobs, now)))

    async def insert_async(
        self, connection: object, jobs: Sequence[NewJob], now: Moment
    ) -> Mapping[int, Clash]:
        lent = await borrowed_async(connection)
        return await run_async(lent, self._within(lent, self._inserting(jobs, now)))

    def complete(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None:
        lent = borrowed(connection)
        if lent in self._own:
            run(lent, self._bounding())
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return run(lent, self._within(lent, self._completing(done, now)))

    async def complete_async(
        self, connection: object, job_id: str, epoch: int, result: bytes | None, now: Moment
    ) -> Refused | None:
        lent = await borrowed_async(connection)
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return await run_async(lent, self._within(lent, self._completing(done, now)))

    def is_completed(self, job_id: str, epoch: int, result: bytes | None) -> bool:
        one = self._db.once(lambda tx: records.find(tx, [job_id])).get(job_id)
        done = Settlement(job_id, epoch, Verb.COMPLETE, result)
        return one is not None and one.record.outcome_of(done) == "succeeded"

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
                        _refuse_failed(connection)
                except psycopg.Error as error:
                    if leaving:  # not of the caller's statements
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
        """What a handler left behind does not reach the next one. Behind a pooler a prepared
        statement is not there in the next transaction."""
        connection.execute(_FORGET)
        connection.row_factory = tuple_row
        connection.cursor_factory = psycopg.Cursor
        connection.prepare_threshold = 5 if self._db.listens else None

    def _bounding(self) -> Steps[None]:
        """From here on, a process that stops holds the job that it completes no longer than that:
        the server ends its session."""
        statement = "SELECT set_config('idle_in_transaction_session_timeout', %s, true)"
        yield PgStep(statement, [str(IDLE_MS)])

    def _within(self, connection: AnyConnection, steps: Steps[T]) -> Steps[T]:
        """These steps, unless the connection leads to another database. That is found out once for
        each, by what only this store has."""
        if connection not in self._known:
            schema = self._db.address.schema
            found = yield PgStep("SELECT to_regclass(%s) IS NOT NULL", [f"{schema}.meta"])
            if found[0][0]:
                found = yield self._step("outbox", "mark")
            if not found or found[0][0] != self._mark:
                raise InvalidInput(
                    "it is connected to another database than the store "
                    f"({self._db.place}, schema {schema}), so they cannot share a transaction. "
                    "Give a connection to that one.",
                    "/connection",
                )
            self._known.add(connection)
        return (yield from steps)

    def _step(self, noun: str, name: str, **params: Any) -> PgStep:
        return PgStep(self._db.statements.load(noun)[name], params or None)

    def _telling(self, dues: Dues, ranks: Ranks | None = None) -> Steps[None]:
        """Others hear of it once the transaction is committed."""
        if dues and self._news.listens:
            notices = notices_of(dues, ranks or {})
            yield self._step("queues", "notify", channel=self._news.channel, notices=notices)

    # -- new jobs ----------------------------------------------------------------------------------

    def _inserting(self, jobs: Sequence[NewJob], now: Moment) -> Steps[dict[int, Clash]]:
        rows = yield self._insert(jobs)
        stored = {row[0] for row in rows}
        clashes: dict[int, Clash] = {}
        dues: Dues = {}
        ranks: Ranks = {}
        for position, job in enumerate(jobs):
            due_at, ranked = job.due_at, [rank_of(job.priority, ahead=False)]
            if job.id in stored:
                stored.remove(job.id)  # another one with its id clashes with it
            elif (clash := (yield from self._clashing(job, now))) is not None:
                clashes[position] = clash
                if clash.kind != "replaced":
                    continue
                ranked = [rank_of(clash.job.priority, ahead=ahead) for ahead in (False, True)]
            if due_at <= now + TOLD_MS:
                dues[job.queue] = min(due_at, dues.get(job.queue, due_at))
                ranks.setdefault(job.queue, set()).update(ranked)
        yield from self._telling(dues, ranks)
        return clashes

    def _insert(self, jobs: Sequence[NewJob]) -> PgStep:
        is_plain, lock_of = are_plain(jobs), self._store.outbox_lock
        params = self._store.insert_params(jobs, lock_of, is_plain=is_plain)
        return self._step("jobs", "insert_plain" if is_plain else "insert", **params)

    def _clashing(self, new: NewJob, now: Moment) -> Steps[Clash | None]:
        """With what a job clashes; None: what it clashed with is gone, and it is stored now."""
        for _ in range(RACES):
            same_id = yield from self._found(new.id)
            if same_id is not None:
                return Clash(of_same_id(new, same_id.record.digest), same_id.record.as_job())
            holder_id = None
            if new.key is not None:
                rows = yield self._step("jobs", "holder_of_key", queue=new.queue, key=new.key)
                holder_id = rows[0][0] if rows else None
            if holder_id is None:
                if (yield self._insert([new])):
                    return None
                continue
            clash = yield from self._meeting(new, holder_id, now)
            if clash is not None:
                return clash
        raise StoreUnavailable(
            f"{self._db.place}: the jobs that have this id or key change all the time. Roll the "
            "transaction back and begin again."
        )

    def _meeting(self, new: NewJob, holder_id: str, now: Moment) -> Steps[Clash | None]:
        """What comes of meeting the job that has the key; None: it has it no longer."""
        # Only what is changed is locked: dispatchers of the shard wait for that.
        holder = yield from self._locked(holder_id) if new.replace else self._found(holder_id)
        if holder is None or holder.record.finished_at is not None:
            return None
        record = holder.record
        if (record.queue, record.key) != (new.queue, new.key):
            return None
        kind = of_same_key(new, record.shown_state)
        if kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            record.change(change, now)
            yield self._step("jobs", "save", **records.row_of(holder))
        return Clash(kind, record.as_job())

    def _found(self, job_id: str) -> Steps[FiledRow | None]:
        rows = yield self._step("jobs", "by_ids", **records.by_ids([job_id], [job_id]))
        return read_stored(rows[0]) if rows else None

    def _locked(self, job_id: str) -> Steps[FiledRow | None]:
        """A job, locked; no range comes to cover it before the end of the transaction."""
        for _ in range(RACES):
            places = yield self._step("jobs", "places", ids=[job_id])
            numbers = [shard_lock(self._db.address.schema, *place) for place in places]
            if not numbers:
                return None
            yield self._step("locks", "share", numbers=numbers)
            rows = yield self._step("jobs", "lock_by_ids", **records.by_ids([job_id], [job_id]))
            one = read_stored(rows[0]) if rows else None
            if one is None or (one.record.queue, one.shard) == tuple(places[0]):
                return one  # else it was moved meanwhile
        return None

    # -- completions -------------------------------------------------------------------------------

    def _completing(self, done: Settlement, now: Moment) -> Steps[Refused | None]:
        found = yield self._step(
            *("claims", "complete"),
            ids=[done.id],
            epochs=[done.epoch],
            results=[done.result],
            now=now,
        )
        if found:
            _, name = found[0]
            yield from self._telling_of_room(name)
            return None
        rows = yield self._step("jobs", "lock_by_ids", **records.by_ids([done.id]))
        one = read_stored(rows[0]) if rows else None
        if one is None or (one.record.hidden and (one.forget_at or 0) <= now):
            return GONE
        if one.record.outcome_of(done) is not None:
            return None  # it was completed by this very claim
        if one.record.hidden:
            return GONE
        queue = yield from self._queue(one.record.queue)
        answer, one = self._store.settled(one, done, queue, now)
        if isinstance(answer, Refused):
            return answer
        yield self._step("jobs", "save", **records.row_of(one))
        if one.record.hidden:
            yield self._step("jobs", "remove_operations", ids=[done.id])
        yield from self._telling_of_room(queue.name)
        return None

    def _queue(self, name: str) -> Steps[Queue]:
        rows = yield self._step("queues", "named", names=[name])
        return queue_row(*rows[0]).queue if rows else default_queue(name)

    def _telling_of_room(self, queue: str) -> Steps[None]:
        if self._store.known_queue(queue).concurrency is not None:
            yield from self._telling({queue: 0})


def _refuse_failed(connection: psycopg.Connection[Any]) -> None:
    """The server answers the commit of a transaction in which a statement failed by rolling it
    back, which psycopg takes for a commit."""
    if connection.info.transaction_status == TransactionStatus.INERROR:
        raise Conflict(
            "a statement in the transaction failed, and its error was caught there: nothing of "
            "it is stored. Use a savepoint (connection.transaction()) for what may fail."
        )
