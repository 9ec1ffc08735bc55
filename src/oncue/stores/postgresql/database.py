"""A PostgreSQL database as this process uses it: a pool of connections, and transactions on them.

A transaction that lost a race, or whose connection broke before its commit, is run again. If the
connection breaks during the commit, the server is asked afterwards what became of the transaction:
nothing is repeated that may have been done.
"""

from __future__ import annotations

import re
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from random import uniform
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import psycopg
from psycopg import InterfaceError, OperationalError
from psycopg import conninfo as libpq
from psycopg_pool import PoolTimeout

from oncue.clock import SystemClock
from oncue.core.errors import StoreUnavailable
from oncue.forking import now_and_after_fork
from oncue.stores.postgresql.address import PgAddress
from oncue.stores.postgresql.connections import (
    LONGEST_PAUSE_SECONDS,
    LastUsedFirst,
    insistent,
)
from oncue.stores.postgresql.trouble import ELSEWHERE, LOST_RACES, ends_connection, translate
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.statements import Statements

T = TypeVar("T")
P = ParamSpec("P")

REPEAT_SECONDS = 10.0  # a call that is repeated for so long raises
CONNECT_SECONDS = 10
AWAY_SECONDS = 1.0  # a call waits for a connection, once others have waited in vain
STATEMENT_MS = 30_000
IDLE_MS = 5_000  # in a transaction: its process stands still, or its machine is gone
_TIMELINE = "substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_NUMBER = f"SELECT pg_current_xact_id_if_assigned()::text, {_TIMELINE}"
_STATUS = f"SELECT pg_xact_status(%(xid)s::text::xid8), {_TIMELINE}"
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A statement after a lock must see what was committed before, whatever the default of the role is.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
SESSION = (
    f"SET statement_timeout = {STATEMENT_MS}; "
    f"SET idle_in_transaction_session_timeout = {IDLE_MS}; "
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; "
    "SET max_parallel_workers_per_gather = 0; SET jit = off; "
    "SET default_transaction_isolation = 'read committed'"
)
# Not `double precision[]`: none of these is long.
_ARRAY = re.compile(r"(?<![:\w]):([a-z]\w*)(?=::\w+\[\])")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")
LEAST_CONNECT_SECONDS = 2  # libpq takes less for that
_CONNECT_OPTIONS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": STATEMENT_MS,
}

_monotonic = SystemClock().monotonic


def statements(schema: str) -> Statements:
    """The statements for tables in that schema. In the files it is `oncue`. Arrays are sent in
    their binary form, which takes a fifth of the time to write."""

    def convert(text: str) -> str:
        text = _PARAMETER.sub(r"%(\1)s", _ARRAY.sub(r"%(\1)b", text))
        return text if schema == "oncue" else text.replace("oncue.", f"{schema}.")

    return Statements(__file__, convert)


def connect_options(conninfo: str) -> dict[str, Any]:
    """Options for libpq, beside those of the URL, which take precedence. All servers that the URL
    names are tried in the time that a call waits, even if the first ones do not answer."""
    given = libpq.conninfo_to_dict(conninfo)
    servers = 1 + str(given.get("host") or given.get("hostaddr") or "").count(",")
    seconds = max(int(CONNECT_SECONDS / servers), LEAST_CONNECT_SECONDS)
    options = {"connect_timeout": seconds, **_CONNECT_OPTIONS}
    unsaid = {name: value for name, value in options.items() if name not in given}
    return {"client_encoding": "utf-8", **unsaid}


AfterUnknown = Literal["ask", "repeat", "raise"]


class Unknown(Exception):
    """The connection broke during a commit."""

    def __init__(self, xid: str | None, timeline: str | None, answer: Any, tx: PgTx) -> None:
        """The transaction had this number on this timeline; None: it wrote nothing, or may be run
        again."""
        super().__init__()
        self.xid, self.timeline, self.answer, self.tx = xid, timeline, answer, tx


class PgDatabase:
    def __init__(self, address: PgAddress) -> None:
        self.address = address
        self.statements = statements(address.schema)
        self.place = address.shown
        self.on_commit: Callable[[PgTx], None] = lambda tx: None
        """Called with every transaction that has news, once it is committed."""
        self.connect_options = connect_options(address.conninfo)
        self.on_new_server: Callable[[psycopg.Connection[Any]], None] = lambda connection: None
        """Called with the first connection to a server that was started, or took over, since the
        last connection was made; before that connection is used. Not behind a pooler."""
        now_and_after_fork(self, PgDatabase._renew)

    def _renew(self) -> None:
        """A forked child has connections of its own; those of the parent are left alone."""
        self._former = getattr(self, "_pool", None)  # not closed: its sockets are the parent's
        self._opening = threading.Lock()
        self._pool: LastUsedFirst | None = None
        self._listens: bool | None = None
        self._server: object = None  # when the server of the newest connection was started
        self._why_away: psycopg.Error | None = None
        self._closing = threading.Event()

    def _connections(self) -> LastUsedFirst:
        pool = self._pool
        if pool is not None:
            return pool
        with self._opening:
            if self._closing.is_set():
                raise StoreUnavailable(f"{self.place}: the store is closed.")
            if self._pool is None:
                options = {"autocommit": True, "application_name": "oncue", **self.connect_options}
                self._pool = LastUsedFirst(
                    self.address.conninfo,
                    connection_class=self.connection_class(),
                    min_size=1,
                    max_size=self.address.pool_size,
                    timeout=CONNECT_SECONDS,
                    reconnect_timeout=CONNECT_SECONDS,
                    max_waiting=0,
                    kwargs=options,
                    configure=self._configure,
                )
            return self._pool

    def connection_class(self) -> type[psycopg.Connection[Any]]:
        """For pools. While no server accepts a connection, it is tried again."""
        return insistent(self._closing, REPEAT_SECONDS)

    @property
    def listens(self) -> bool:
        """Whether a connection stays with one process of the server, so that it can listen and
        remember settings and statements. A pooler between them gives numbers of its own."""
        if self._listens is None:
            with self.connect() as connection:
                self._find_out(connection)
        return bool(self._listens)

    def _find_out(self, connection: psycopg.Connection[Any]) -> None:
        if self.address.listen == "auto":
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            self._listens = row == (connection.info.backend_pid,)
        else:
            self._listens = self.address.listen == "yes"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection outside the pool."""
        return psycopg.connect(
            self.address.conninfo, autocommit=True, application_name="oncue", **self.connect_options
        )

    def _cause(self, error: Exception) -> Exception:
        """The error because of which no connection can be made. A `PoolTimeout` does not contain
        it."""
        if not isinstance(error, PoolTimeout):
            return error
        if self._why_away is None:
            try:
                self.connect().close()
            except psycopg.Error as cause:
                self._why_away = cause.with_traceback(None)  # it may be raised many times
        return self._why_away or error

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        """Plans must not depend on the values of parameters, nor on how many jobs there were when
        statistics were last taken: each statement has an index that is made for it. Planning a
        statement costs more than running it, so it is planned once for each connection."""
        if self._listens is None:  # on this connection: to make another may take long
            self._find_out(connection)
        if not self._listens:  # behind a pooler, settings would reach other clients
            connection.prepare_threshold = None
            return
        connection.execute(SESSION.encode(), prepare=False)
        connection.prepare_threshold, connection.prepared_max = 0, None
        began = connection.execute("SELECT pg_postmaster_start_time()", prepare=False).fetchone()
        if began != self._server:
            self.on_new_server(connection)
            self._server = began

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool. It is closed if its server takes no writes any more."""
        pool = self._connections()
        connection = self._next(pool)
        while _has_ended(connection):  # as all have after a restart of the server
            connection.close()
            pool.putconn(connection)
            connection = self._next(pool)
        self._why_away = None
        try:
            yield connection
        except ELSEWHERE:
            connection.close()
            raise
        finally:
            pool.putconn(connection)

    def _next(self, pool: LastUsedFirst) -> psycopg.Connection[Any]:
        """The first call that finds no connection waits for ten seconds, later calls for one, until
        there is a connection again."""
        return pool.getconn(CONNECT_SECONDS if self._why_away is None else AWAY_SECONDS)

    @contextmanager
    def reading(self) -> Iterator[PgTx]:
        """One snapshot, however many statements."""
        try:
            with self.connection() as connection:
                tx = PgTx(connection, self.statements, SNAPSHOT)
                try:
                    yield tx
                finally:
                    if tx.has_begun:
                        with suppress(psycopg.Error):
                            connection.execute("COMMIT")
        except (psycopg.Error, PoolTimeout) as error:
            raise translate(self._cause(error), self.place) from error

    def once(self, call: Callable[[PgTx], T]) -> T:
        """Run `call`, each of whose statements is committed by itself. It is repeated if that can
        help, so running it twice must have the same effect as running it once."""
        return self._repeat(self._run_once, call)

    def _run_once(self, call: Callable[[PgTx], T]) -> T:
        with self.connection() as connection:
            tx = PgTx(connection, self.statements)
            answer = call(tx)
        if tx.news:
            self.on_commit(tx)
        return answer

    def write(self, call: Callable[[PgTx], T], unknown: AfterUnknown = "ask") -> T:
        """Run `call` in a transaction; it may be run several times, and takes effect once.
        `unknown`: what is done if the answer to its commit got lost. `ask`: the server is asked;
        `repeat`: `call` is run again, as the second time changes nothing; `raise`: the caller gets
        the error, and decides what to do."""

        def transact(call: Callable[[PgTx], T]) -> T:
            return self._transact(unknown, call)

        return self._repeat(transact, call)

    def _repeat(self, run: Callable[[Callable[[PgTx], T]], T], call: Callable[[PgTx], T]) -> T:
        ends, pause = _monotonic() + REPEAT_SECONDS, 0.005
        while True:
            try:
                return run(call)
            except Unknown as unknown:
                answer: T = unknown.answer
                if self._is_committed(unknown, ends):
                    self.on_commit(unknown.tx)
                    return answer
                self._give_up_after(ends, unknown)
            except psycopg.errors.UniqueViolation:
                raise  # for the caller, who knows what is there twice
            except LOST_RACES as error:
                self._give_up_after(ends, error)
            except (*ELSEWHERE, OperationalError, InterfaceError) as error:
                if isinstance(error, PoolTimeout) or not _may_pass(error):
                    raise translate(self._cause(error), self.place) from error
                self._give_up_after(ends, error)
            except psycopg.Error as error:
                raise translate(error, self.place) from error
            self._closing.wait(uniform(0.5, 1.0) * pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _give_up_after(self, ends: float, error: Exception) -> None:
        if self._closing.is_set() or _monotonic() > ends:
            lost = isinstance(error, Unknown)
            raise (self._unknown_outcome() if lost else translate(error, self.place)) from error

    def _transact(self, unknown: AfterUnknown, call: Callable[[PgTx], T]) -> T:
        with self.connection() as connection:
            tx = PgTx(connection, self.statements, BEGIN, "" if unknown == "ask" else "COMMIT")
            xid = timeline = computed = None
            try:
                computed = answer = call(tx)
                if unknown == "ask" and tx.has_begun:
                    xid, timeline = tx.execute(_NUMBER).fetchall()[0]
                if tx.has_begun and not tx.is_ending:
                    tx.is_ending = True
                    connection.execute("COMMIT")
            except BaseException as error:
                lost = connection.closed or ends_connection(error)
                if not tx.is_ending or not lost:  # so it was not committed
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")
                    raise
                if unknown == "raise" and isinstance(error, psycopg.Error):
                    raise translate(error, self.place) from error
                raise Unknown(xid, timeline, computed, tx) from None
        if tx.news:
            self.on_commit(tx)
        return answer

    def _is_committed(self, lost: Unknown, ends: float) -> bool:
        """Whether a transaction whose answer got lost was committed."""
        while lost.xid is not None:
            try:
                with self.connection() as connection:
                    row = connection.execute(_STATUS.encode(), {"xid": lost.xid}).fetchone()
                assert row is not None
                status, timeline = row
                if timeline != lost.timeline:  # a standby took over, and may use numbers again
                    raise self._unknown_outcome()
                if status != "in progress":
                    return bool(status == "committed")
                self._give_up_after(ends, lost)
            except psycopg.errors.InvalidParameterValue:  # it knows no such transaction
                raise self._unknown_outcome() from None
            except (OperationalError, InterfaceError):
                self._give_up_after(ends, lost)
            self._closing.wait(0.05)
        return False

    def _unknown_outcome(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.place}: the answer to a commit got lost, so it is not known whether it was "
            "made. Look before you call again."
        )

    def close(self) -> None:
        with self._opening:
            self._closing.set()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def _has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has closed it: then there is something to be read, which is seen without
    asking the server. It may also be a notice, which is rare: then the connection is given up for
    nothing, and another is made."""
    if connection.closed:
        return True
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return bool(ready.poll(0))


def _may_pass(error: Exception) -> bool:
    """Whether the same call may succeed soon: the connection is gone, and another can be made."""
    refusal = translate(error, "")
    return isinstance(refusal, StoreUnavailable) and not isinstance(
        error, psycopg.errors.QueryCanceled | psycopg.errors.DiskFull
    )


class PgPart:
    """The methods of the store about one noun."""

    db: PgDatabase


S = TypeVar("S", bound=PgPart)


def writing(method: Callable[Concatenate[S, PgTx, P], T]) -> Callable[Concatenate[S, P], T]:
    """The method of a store as one transaction, which it is given first."""
    return _in_transaction(method, "ask")


def repeatable(method: Callable[Concatenate[S, PgTx, P], T]) -> Callable[Concatenate[S, P], T]:
    """The same for a method whose second time changes nothing and answers as the first."""
    return _in_transaction(method, "repeat")


def _in_transaction(
    method: Callable[Concatenate[S, PgTx, P], T], unknown: AfterUnknown
) -> Callable[Concatenate[S, P], T]:
    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.db.write(lambda tx: method(self, tx, *args, **kwargs), unknown)

    return run
