"""The one writer of an SQLite file in this process: group commit without a hand-over per job.

A caller that finds the writer idle commits its own call, in its own thread. Every other call is
queued for the writer's thread, which commits all that is queued together. So a commit is
only ever shared in a thread of ours: Ctrl-C is raised in the main thread, where it can interrupt
only the main thread's own call.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import apsw

from oncue.core.errors import OncueError, StoreError, StoreUnavailable
from oncue.stores.sqlite.connection import Handle
from oncue.stores.sqlite.turnstile import Turnstile
from oncue.stores.sqlite.tx import SqliteTx

T = TypeVar("T")
log = logging.getLogger("oncue.store")

GROUP_LIMIT = 1024  # calls that share one commit, so that no caller waits for an endless one


class _Outcome:
    """The outcome of a transaction. `answers` are the values of its calls, or the refusals they
    raised; they hold if it was `stored`. `failure` is anything else that a call raised: then
    nothing was stored, and there are answers of the calls before it only. `trouble` says why it was
    not stored."""

    __slots__ = ("answers", "failure", "stored", "trouble")

    def __init__(self) -> None:
        self.answers: list[tuple[Any, BaseException | None]] = []
        self.failure: BaseException | None = None
        self.stored = False
        self.trouble: BaseException | None = None


class _Ticket(Generic[T]):
    """A queued call, and its place in the transaction that it became part of. Its caller waits for
    `result`, on a plain lock: Ctrl-C can leave the locks of `Future` and `Event` locked, since
    these are taken in Python code, and the writer needs them."""

    __slots__ = ("_answer", "_answered", "_done", "call", "outcome", "position")

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.outcome: _Outcome | None = None
        self.position = 0
        self._answered = False
        self._answer: tuple[Any, BaseException | None]
        self._done = threading.Lock()
        self._done.acquire()

    def result(self) -> T:
        with self._done:
            value, error = self._answer
            if error is not None:
                raise error
            return value  # type: ignore[no-any-return]

    def resolve(self, otherwise: BaseException) -> None:
        """Answer the caller, once, by what became of the transaction, or `otherwise`."""
        if self._answered:
            return
        self._answered = True
        outcome = self.outcome
        if outcome is None or not outcome.stored:
            self._answer = None, (outcome and outcome.trouble) or otherwise
        else:
            self._answer = outcome.answers[self.position]
        self._done.release()


def start_thread(thread: threading.Thread, path: Path) -> None:
    """Start a thread of the store, if the system lets one be started now."""
    try:
        thread.start()
    except RuntimeError as error:
        raise StoreUnavailable(
            f"{path}: nothing was done, as no thread could be started ({error}). Raise the limit "
            "of threads of this user or container, or call again."
        ) from error


def closed(path: Path) -> StoreError:
    return StoreError(f"{path}: the store is closed.")


def join_thread(thread: threading.Thread | None) -> None:
    """Wait for the end of a thread, if it was ever started."""
    if thread is not None and thread.ident is not None:
        thread.join()


class Writer:
    def __init__(
        self,
        handle: Handle,
        turnstile: Turnstile,
        path: Path,
        check_file: Callable[[], None],
        trouble: Callable[[apsw.Error], StoreError],
        begun: Callable[[], None],
        committed: Callable[[], None],
    ) -> None:
        """`check_file` is called before and after each transaction; if it raises, all calls of the
        transaction are answered with that error. `trouble` translates errors of SQLite. `begun` is
        called at the beginning of each transaction, `committed` after its commit, outside it.
        Neither may raise anything but Ctrl-C."""
        self._handle = handle
        self._turnstile = turnstile
        self._path = path
        self._check_file = check_file
        self._trouble = trouble
        self._begun = begun
        self._committed = committed
        self._queue: SimpleQueue[_Ticket[Any] | None] = SimpleQueue()
        self._queueing = threading.Lock()
        # Always taken by `with`: its C code releases the lock in every case, which
        # `acquire … finally: release` does not if Ctrl-C comes between the two.
        self._lock = handle.lock
        self._owner: int | None = None
        self._full = True  # synchronous=FULL is in force
        self._thread: threading.Thread | None = None
        self._serving = False  # the thread runs; it may not, after a start that Ctrl-C interrupted
        self._closed = False

    @property
    def connection(self) -> SqliteTx:
        return self._handle.connection

    @property
    def inside(self) -> bool:
        """Whether this thread is inside the transaction under way."""
        return self._owner == threading.get_ident()

    def run(self, call: Callable[[], T], *, synced: bool = True) -> T:
        """Run `call` in a transaction and return once it is durable. Not `synced`: it survives the
        death of this process, but may be lost in a power cut; for writes that matter only to
        processes which the power cut ends as well."""
        if self.inside:
            return call()
        if self._queue.empty() and not self._lock.locked():
            with self._lock:  # waits for one commit if another thread was quicker
                return self._alone(call, synced)
        ticket = _Ticket(call)
        self._enqueue(ticket)
        return ticket.result()

    def at_once(self, attempt: Callable[[SqliteTx], bool]) -> bool:
        """Make an attempt at a single statement, which is a transaction of its own, if no other
        process and no other thread writes now. Whether it was done; if not, nothing was changed,
        and it is to be done by `run`.

        For callers beside a busy thread: it gets the interpreter during each statement, and keeps
        it for milliseconds. Here that happens once; with BEGIN and COMMIT, three times."""
        if self.inside or self._lock.locked() or not self._queue.empty():
            return False
        with self._lock:
            self._refuse_closed()
            self._check_file()
            connection = self.connection
            if connection.in_transaction or not self._turnstile.is_free():
                return False
            self._sync(full=True)
            try:
                self._turnstile.patient = False
                done = attempt(connection)
            except apsw.Error as error:
                raise self._translated(error) from error
            finally:
                self._turnstile.patient = True
            self._check_file()
            return done

    def probe(self, look: Callable[[apsw.Connection], T]) -> T | None:
        """Use the connection between transactions, or None if one is under way."""
        if self._lock.locked():
            return None
        with self._lock:
            return None if self._closed else look(self.connection)

    def close(self, *, checkpoint: bool = True) -> None:
        """Finish what was queued; nothing is accepted afterwards. See `Handle.close`."""
        with self._queueing:
            self._closed = True
        self._queue.put(None)
        join_thread(self._thread)
        with self._lock:
            self._turnstile.close()
            self._handle.close(checkpoint=checkpoint)

    def give_up(self) -> None:
        """Close the connection for now, holding its lock; it is opened again when needed."""
        self._turnstile.close()
        self._handle.close(checkpoint=False)
        self._full = True

    def renew(self) -> None:
        """In a forked child: what is queued is done by the parent's thread, which is not here."""
        self._queue = SimpleQueue()
        self._queueing = threading.Lock()
        self._thread = None
        self._serving = False

    def _refuse_closed(self) -> None:
        if self._closed:
            raise closed(self._path)

    def _enqueue(self, ticket: _Ticket[Any]) -> None:
        with self._queueing:  # `close` cannot come between the question and the queue
            self._refuse_closed()
            if not self._serving:
                name = "oncue-writer"
                self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
                start_thread(self._thread, self._path)
            self._queue.put(ticket)  # last: what is queued will be done

    def _serve(self) -> None:
        """The writer's thread: commit what is queued, until closed."""
        self._serving = True
        ticket = self._queue.get()
        while ticket is not None:
            group = [ticket]
            try:
                with self._lock:
                    self._commit_queued(group)
            except BaseException:  # a defect, or no memory: the next callers need this thread
                log.exception("%s: a commit was interrupted", self._path)
            for ticket in group:  # no caller waits for ever
                ticket.resolve(self._unknown())
            ticket = self._queue.get()
        self._queue.put(None)  # Ctrl-C while a thread was started may have led to a second one

    def _commit_queued(self, group: list[_Ticket[Any]]) -> None:
        """Commit this group of one, and up to a limit what else is queued."""
        while len(group) < GROUP_LIMIT and self._next(group):
            pass
        self._commit(group)

    def _next(self, group: list[_Ticket[Any]]) -> bool:
        """Move one call from the queue to the group, if there is one."""
        try:
            ticket = self._queue.get_nowait()  # never waits: this thread has the lock
        except Empty:
            return False
        if ticket is None:
            self._queue.put(None)  # it was the end of the queue
            return False
        group.append(ticket)
        return True

    def _commit(self, group: list[_Ticket[Any]]) -> None:
        """Commit the calls together. A call that fails is undone and fails alone: what came before
        it is committed, it is tried by itself, and what comes after it is committed."""
        parts = deque([group])
        while parts:
            part = parts.popleft()
            outcome = self._commit_together(part)
            if outcome.failure is not None and len(part) > 1:
                at = len(outcome.answers)
                cut = (part[:at], part[at : at + 1], part[at + 1 :])
                parts.extendleft(reversed([one for one in cut if one]))
                continue
            for ticket in part:
                ticket.resolve(self._unknown())

    def _commit_together(self, part: list[_Ticket[Any]]) -> _Outcome:
        """One transaction, and what became of it."""
        outcome = _Outcome()
        for position, ticket in enumerate(part):
            ticket.outcome, ticket.position = outcome, position
        try:
            self._transact([ticket.call for ticket in part], outcome)
        except BaseException as error:
            trouble = self._translated(error)
            if isinstance(error, StoreError):
                outcome.stored = False  # the file is gone or another one: nothing is certain
            elif outcome.failure is None and not isinstance(error, apsw.Error):
                raise
            elif outcome.failure is None and type(trouble) is StoreError:
                # No beginning or no commit. Any other StoreError says that nothing was stored.
                trouble = self._unknown()
            outcome.trouble = trouble
        return outcome

    def _alone(self, call: Callable[[], T], synced: bool) -> T:
        """One call, one commit, in the thread of the caller."""
        self._refuse_closed()
        outcome = _Outcome()
        try:
            self._transact([call], outcome, synced)
        except apsw.Error as error:
            raise self._translated(error) from error
        finally:
            self._sync(full=True)
        [(value, refusal)] = outcome.answers
        if refusal is not None:
            raise refusal
        return value  # type: ignore[no-any-return]

    def _transact(
        self, calls: Sequence[Callable[[], Any]], outcome: _Outcome, synced: bool = True
    ) -> None:
        """Run the calls in one transaction, then `committed`. The file must be the same before and
        after it. Even if this raises, no transaction stays open, and `outcome` tells whether it was
        stored."""
        self._check_file()
        connection = self.connection
        if connection.in_transaction:  # Ctrl-C cut the end of the last one short
            connection.execute("ROLLBACK")
        self._sync(full=synced)
        try:
            self._turnstile.enter()
            # Not by `with connection`, during which apsw lets no other thread run.
            connection.execute("BEGIN IMMEDIATE")
            self._turnstile.leave()
            self._owner = threading.get_ident()
            self._begun()
            for call in calls:
                self._answer(call, outcome)
            self._owner = None
            outcome.stored = True  # the last step before the commit
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                outcome.stored = False
                connection.execute("ROLLBACK")
            elif isinstance(error, apsw.Error):  # the commit failed
                outcome.stored = False
            if outcome.failure is None or outcome.failure is error:
                raise
            # A full disk ends the transaction by itself, and then it cannot be rolled back.
            raise outcome.failure from None
        finally:
            self._owner = None
            self._turnstile.leave()
        self._check_file()
        self._committed()

    @staticmethod
    def _answer(call: Callable[[], Any], outcome: _Outcome) -> None:
        """Note the value of a call, or its refusal: what it recorded is part of the transaction.
        Anything else that it raises ends the transaction."""
        try:
            outcome.answers.append((call(), None))
        except BaseException as error:
            if isinstance(error, StoreError) or not isinstance(error, OncueError):
                outcome.failure = error
                raise
            outcome.answers.append((None, error))

    def _sync(self, *, full: bool) -> None:
        """Whether commits wait for the disk. Asked for before each transaction, since Ctrl-C may
        have cut short the return to FULL after the last one."""
        if full is not self._full:
            self._full = False
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full

    def _translated(self, error: BaseException) -> BaseException:
        return self._trouble(error) if isinstance(error, apsw.Error) else error

    def _unknown(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._path}: the write was interrupted and may or may not have been stored. "
            "Call again: repeating it does no harm."
        )
