"""The one writer of an SQLite file in this process: group commit without a hand-over per job.

A blocking caller that finds the writer idle becomes the writer for that commit, in its own thread,
and takes along whatever others have queued meanwhile. Only `submit`, whose callers must not block,
needs a thread; it is started on first use.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import apsw

from oncue.core.errors import OncueError, StoreError, StoreUnavailable
from oncue.stores.sqlite.connection import translate

T = TypeVar("T")

GROUP_LIMIT = 1024  # calls that share one commit, so that no caller waits for an endless one


class _Ticket:
    __slots__ = ("call", "error", "future", "value")

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.future: Future[Any] = Future()
        self.value: Any = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.future.set_exception(error)


class _CallFailed(Exception):
    """One of the calls of a group raised, and the transaction was undone."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Writer:
    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        begun: Callable[[], None],
        committed: Callable[[], None],
    ) -> None:
        """`begun` is called at the beginning of each transaction, `committed` after its commit,
        outside it. Neither may raise."""
        self.connection = connection
        self._path = path
        self._begun = begun
        self._committed = committed
        self._queue: deque[_Ticket] = deque()
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._kick = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def inside(self) -> bool:
        """Whether this thread is inside the transaction under way."""
        return self._owner == threading.get_ident()

    def run(self, call: Callable[[], T], *, synced: bool = True) -> T:
        """Run `call` in a transaction and return once it is durable. Not `synced`: it may be lost
        with the power, together with everybody it concerns; it survives the death of the process
        all the same."""
        if self.inside:
            return call()
        if not self._queue and self._lock.acquire(blocking=False):
            try:
                return self._alone(call) if synced else self._unsynced(call)
            finally:
                self._lock.release()
                self._hand_on()
        ticket = _Ticket(call)
        self._enqueue(ticket)
        self._lead(ticket)
        return ticket.future.result()  # type: ignore[no-any-return]

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """The same, off this thread."""
        ticket = _Ticket(call)
        self._enqueue(ticket)
        self._start_thread()
        self._kick.set()
        return ticket.future

    def probe(self, look: Callable[[apsw.Connection], T]) -> T | None:
        """Use the connection between transactions, or None if one is under way."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return None if self._closed else look(self.connection)
        finally:
            self._lock.release()
            self._hand_on()

    def close(self) -> None:
        """Finish what was queued; nothing is accepted afterwards."""
        self._closed = True
        self._kick.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._drain(None)
            self.connection.close()
        while self._queue:  # queued between the last look and the end
            self._queue.popleft().fail(self._is_closed())

    def _is_closed(self) -> StoreError:
        return StoreError(f"{self._path}: the store is closed.")

    def _enqueue(self, ticket: _Ticket) -> None:
        if self._closed:
            raise self._is_closed()
        self._queue.append(ticket)

    def _lead(self, own: _Ticket) -> None:
        """Be the writer until `own` is done, if nobody is. Whoever is, takes `own` along: it was
        queued before the lock was tried, and whoever lets go of the lock looks again."""
        while not own.future.done() and self._lock.acquire(blocking=False):
            try:
                self._drain(own)
            finally:
                self._lock.release()
                self._hand_on()

    def _hand_on(self) -> None:
        """After letting go of the lock: see that what was queued meanwhile finds a writer."""
        if self._queue and not self._closed:
            self._start_thread()
            self._kick.set()

    def _start_thread(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._serve, name="oncue-writer", daemon=True)
                    thread.start()
                    self._thread = thread

    def _serve(self) -> None:
        while not self._closed:
            self._kick.wait()
            self._kick.clear()
            while self._queue:  # looked at again after letting go: see `_lead`
                with self._lock:
                    self._drain(None)

    def _drain(self, own: _Ticket | None) -> None:
        while self._queue and not (own is not None and own.future.done()):
            count = min(len(self._queue), GROUP_LIMIT)
            group = [self._queue.popleft() for _ in range(count)]
            # From here on nobody can cancel: each is answered by what becomes of it.
            self._commit([t for t in group if t.future.set_running_or_notify_cancel()], own)

    def _alone(self, call: Callable[[], T]) -> T:
        """One caller, one commit: nobody to answer but the caller."""
        if self._closed:
            raise self._is_closed()
        try:
            [(value, refusal)] = self._transact([call])
        except _CallFailed as failed:
            raise self._translated(failed.error) from failed.error
        except apsw.Error as error:
            raise translate(error, self._path) from error
        self._committed()
        if refusal is not None:
            raise refusal
        return value  # type: ignore[no-any-return]

    def _unsynced(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise self._is_closed()
        self.connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return self._alone(call)
        finally:
            self.connection.execute("PRAGMA synchronous = FULL")

    def _commit(self, group: list[_Ticket], own: _Ticket | None) -> None:
        try:
            answers = self._transact([ticket.call for ticket in group])
        except _CallFailed as failed:
            self._each_alone(group, own, failed.error)
        except BaseException as error:  # no beginning or no commit: the same for all
            passing = isinstance(error, Exception)
            for ticket in group:
                mine = passing or ticket is own
                ticket.fail(self._translated(error) if mine else self._unknown())
            if not passing and own is not None and own not in group:
                raise
        else:
            self._committed()
            for ticket, answer in zip(group, answers, strict=True):
                ticket.value, ticket.error = answer
                ticket.resolve()

    def _each_alone(self, group: list[_Ticket], own: _Ticket | None, error: BaseException) -> None:
        """One of them spoilt it for all: each gets a transaction of its own."""
        if len(group) == 1:
            group[0].fail(self._translated(error))
            return
        for ticket in group:
            self._commit([ticket], own)
        # A Ctrl-C that came during somebody's call does not come again: it is the leader's.
        spoilt = any(isinstance(ticket.error, type(error)) for ticket in group)
        if own is not None and not isinstance(error, Exception) and not spoilt:
            raise error

    def _translated(self, error: BaseException) -> BaseException:
        return translate(error, self._path) if isinstance(error, apsw.Error) else error

    def _unknown(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._path}: the write was interrupted and may or may not have been stored. "
            "Look, or call again: it does no harm."
        )

    def _transact(self, calls: Sequence[Callable[[], Any]]) -> list[tuple[Any, OncueError | None]]:
        """Run the calls in one transaction. Their values, or the refusals they raised."""
        connection = self.connection
        answers: list[tuple[Any, OncueError | None]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._owner = threading.get_ident()
            self._begun()
            for call in calls:
                try:
                    answers.append((call(), None))
                except StoreError as error:
                    raise _CallFailed(error) from error
                except OncueError as refusal:  # what it recorded is part of it
                    answers.append((None, refusal))
                except BaseException as error:
                    raise _CallFailed(error) from error
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            self._owner = None
        return answers
