"""One SQLite file as this process uses it: one connection that writes, and those that read."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import apsw

from oncue.clock import SystemClock
from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.stores.sqlite import fork
from oncue.stores.sqlite.connection import Handle, connect, pragma, prepare, translate
from oncue.stores.sqlite.presence import Presence
from oncue.stores.sqlite.rows import texts
from oncue.stores.sqlite.statements import load
from oncue.stores.sqlite.turnstile import Turnstile
from oncue.stores.sqlite.tx import SqliteTx
from oncue.stores.sqlite.watching import Watching
from oncue.stores.sqlite.writer import Writer, closed

if TYPE_CHECKING:
    from oncue.stores.sqlite.settings import KnownQueues

T = TypeVar("T")
P = ParamSpec("P")
READERS_KEPT = 4
ENSURE_QUEUES = load("queues")["ensure"]

_monotonic = SystemClock().monotonic


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self.known_queues: set[str] = set()
        """Queues whose rows are certainly there: cleared by a commit of another process, which may
        have deleted one, and by a transaction here that may have been undone."""
        self.bounded_queues: set[str] = set()
        """Queues with a concurrency that this process takes from, as its last claim found them."""
        self.expected: dict[str, Moment] = {}
        """When queues have work, as this process last found out; 0: they had some just now."""
        self.queues_read: tuple[int, list[Queue]] | None = None
        """The queues as they were at a revision of the settings."""
        self.settings: KnownQueues | None = None
        """Their settings, as a transaction that writes last read them."""
        self._handles: list[Handle] = []
        self._opening = threading.Lock()
        """Held to add to `_handles`, and over a fork."""
        self._held: list[threading.Lock] = []
        self._readers: deque[Handle] = deque()
        self.presence = Presence(path)
        self._turnstile = Turnstile()
        self.writer = Writer(
            self._new_handle(self._open_writer),
            self._turnstile,
            path,
            self.presence.check,
            self._trouble,
            self._begun,
            lambda: self.watching.committed(),
        )
        self.watching = Watching(self.writer, self.reading, path)
        self._closing = False
        self._closed = False
        fork.remember(self)
        with self._opening:
            fork.refuse_abandoned(path)
            prepare(path)
            self.presence.note_file()
        self.writer.probe(lambda connection: None)  # opens it and with it the log

    def _new_handle(self, open_it: Callable[[], SqliteTx]) -> Handle:
        handle = Handle(open_it)
        with self._opening:
            self._handles = [*self._handles, handle]
        return handle

    def _connect(self) -> SqliteTx:
        place = Path(self.presence.place)
        fork.refuse_abandoned(place)
        try:
            return connect(place, self.presence.look)
        except StoreError:
            self.presence.look()  # that the file is missing says more
            raise

    def _trouble(self, error: apsw.Error) -> StoreError:
        """The meaning of an error of SQLite, which does not know that the file is missing."""
        try:
            self.presence.look()
        except StoreError as missing:
            return missing
        return translate(error, self.path)

    def _open_writer(self) -> SqliteTx:
        self.presence.check()
        connection = self._connect()
        connection.note = self.watching.note
        connection.set_busy_handler(self._turnstile.wait_for_lock)
        pragma(connection, "user_version")  # opens the log
        self.presence.note_log(opened=True)
        self._turnstile.open(self.presence.log)
        return connection

    def write(self, call: Callable[[SqliteTx], T], *, synced: bool = True) -> T:
        """Run `call` in a write transaction, shared with others where that saves a commit. See
        `Writer.run` for `synced`."""
        self._refuse_after_fork()
        return self.writer.run(lambda: call(self.writer.connection), synced=synced)

    @contextmanager
    def reading(self) -> Iterator[SqliteTx]:
        """A connection for reading; inside a write, the writer's own."""
        self._refuse_after_fork()
        if self.writer.inside:
            yield self.writer.connection
            return
        if self._closing:
            raise closed(self.path)
        self.presence.check()
        try:
            handle = self._readers.pop()
        except IndexError:
            handle = self._new_handle(self._connect)
        try:
            with handle.lock:
                handle.owner = threading.get_ident()
                connection = handle.connection
                with connection:  # one snapshot, however many statements
                    yield connection
        except apsw.Error as error:
            raise self._trouble(error) from error
        finally:
            handle.owner = None
            self._give_back(handle)

    def _give_back(self, handle: Handle) -> None:
        if len(self._readers) < READERS_KEPT and not self._closing:
            self._readers.append(handle)
            return
        with handle.lock:
            handle.close()
        with self._opening:  # only now: `pause` must see it as long as it is open
            self._handles = [known for known in self._handles if known is not handle]

    def tell(self, queue: str | None, due_at: Moment) -> None:
        """Note, inside a write, what listeners are to be told after the commit."""
        self.watching.note(queue, due_at)

    def arrived(self, tx: apsw.Connection, dues: Mapping[str, Moment]) -> None:
        """Inside a write: jobs were stored in these queues, the first of each due at this moment.
        Not before: a repeated call must not make a queue again that was deleted meanwhile."""
        if new := dues.keys() - self.known_queues:
            tx.execute(ENSURE_QUEUES, (texts(new),))
        for queue, due_at in dues.items():
            self.tell(queue, due_at)
        self.known_queues |= new  # after the news, which is left if the transaction is undone

    def insert_at_once(
        self, statement: str, params: Sequence[Any], count: int, dues: Mapping[str, Moment]
    ) -> bool:
        """Insert so many jobs by one statement, if that is possible now: see `Writer.at_once`. The
        first of each of these queues is due at this moment. If one of the queues is not there, the
        statement must insert nothing."""
        self._refuse_after_fork()

        def insert(tx: SqliteTx) -> bool:
            if self.watching.has_news:
                return False
            for queue, due_at in dues.items():  # before: Ctrl-C may come right after the commit
                self.tell(queue, due_at)
            with suppress(apsw.ConstraintError, apsw.BusyError):
                tx.execute(statement, params)
                if tx.changes() == count:
                    if self.watching.committed_at_once():
                        self.known_queues = set(dues)
                    return True
            self.watching.undone()
            return False

        return dues.keys() <= self.known_queues and self.writer.at_once(insert)

    def tell_room(self, queue: str) -> None:
        """Note, inside a write, that a job of the queue is no longer under way: a queue at its
        concurrency has room again. Other processes notice the commit."""
        if queue in self.bounded_queues:
            self.tell(queue, 0)

    def close(self) -> None:
        """Can be repeated: the first call may have been interrupted by Ctrl-C."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closing = True
        self.watching.stop()
        # SQLite would empty a log that the file now at the path may use.
        replaced = self.presence.is_replaced()
        orphaned = replaced and self.presence.owns_log()
        if orphaned:  # the old file may have been moved away: what was stored last goes there
            with suppress(apsw.Error, StoreError):
                self.writer.probe(lambda connection: pragma(connection, "wal_checkpoint"))
        self.writer.close(checkpoint=not replaced)
        while self._readers:
            handle = self._readers.pop()
            with handle.lock:
                handle.close(checkpoint=not replaced)
        if orphaned:
            self.presence.remove_log()
        self._closed = True  # the file at the path may be another store's from now on

    # -- over a fork -----------------------------------------------------------------------------

    def pause(self, seconds: float) -> bool:
        """Wait for what is under way, close every connection and let none be opened. Whether that
        was done within so many seconds; if not, all is as before."""
        ends = _monotonic() + seconds

        def hold(lock: threading.Lock) -> bool:
            if taken := lock.acquire(timeout=max(0.0, ends - _monotonic())):
                self._held.append(lock)
            return taken

        me, known = threading.get_ident(), self._handles
        using = self.writer.inside or any(handle.owned_by(me) for handle in known)
        paused = False
        try:
            if (
                os.getpid() == self._pid
                and not using
                and all(hold(handle.lock) for handle in known)
                and hold(self._opening)
                and all(hold(handle.lock) for handle in self._handles if handle not in known)
            ):
                self._give_up()
                paused = True
        finally:
            if not paused:
                self.resume()
        return paused

    def _give_up(self) -> None:
        self.writer.give_up()
        for handle in self._handles:
            handle.close(checkpoint=False)
        self.presence.note_log(opened=False)
        self.watching.forget_version()

    def resume(self) -> None:
        """Connections may be opened again."""
        while self._held:
            self._held.pop().release()

    def renew(self) -> None:
        """Only in the child, and only after a pause that succeeded: none of the parent's threads
        is here. To be followed by `resume`."""
        self._pid = os.getpid()
        self.watching.renew()
        self.writer.renew()

    # --------------------------------------------------------------------------------------------

    def _refuse_after_fork(self) -> None:
        if os.getpid() != self._pid:
            raise fork.forked_in_use(self.path)

    def _begun(self) -> None:
        """At the beginning of each transaction, when no other process can write."""
        if self.watching.begun():
            self.known_queues.clear()


class StorePart:
    """The methods of the store about one noun."""

    db: Database


S = TypeVar("S", bound=StorePart)


def writing(
    method: Callable[Concatenate[S, apsw.Connection, P], T],
) -> Callable[Concatenate[S, P], T]:
    """The method of a store as one write transaction; it is given the connection first."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.db.write(lambda tx: method(self, tx, *args, **kwargs))

    return run
