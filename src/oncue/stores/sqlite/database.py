"""One SQLite file as this process uses it: the writer, the readers, and who is told of new work."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.ports.store import Listener
from oncue.stores.listeners import tell
from oncue.stores.sqlite.connection import connect, pragma, prepare, translated
from oncue.stores.sqlite.writer import Writer

T = TypeVar("T")
log = logging.getLogger("oncue.store")

WATCH_SECONDS = 0.05  # how often an idle process looks whether another one wrote
READERS_KEPT = 4


class Database:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        prepare(path)
        self.known_queues: set[str] = set()
        """Queues whose rows are certainly there."""
        self.bounded_queues: set[str] = set()
        """Queues with a concurrency that this process takes from, as its last claim found them."""
        self._told: dict[str | None, Moment] = {}
        self.writer = Writer(connect(path), path, self._begun, self._after_commit)
        self._readers: deque[apsw.Connection] = deque()
        self._listeners: list[Listener] = []
        self._version = self._foreign_version(self.writer.connection)
        self._watching: threading.Thread | None = None
        self._closing = threading.Event()

    def write(self, call: Callable[[apsw.Connection], T], *, synced: bool = True) -> T:
        """Run `call` in a write transaction, shared with others where that saves a commit. See
        `Writer.run` for `synced`."""
        self._refuse_after_fork()
        return self.writer.run(lambda: call(self.writer.connection), synced=synced)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A connection for reading; inside a write, the writer's own."""
        self._refuse_after_fork()
        if self.writer.inside:
            yield self.writer.connection
            return
        if self._closing.is_set():
            raise StoreError(f"{self.path}: the store is closed.")
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = connect(self.path)
        try:
            with translated(self.path), connection:  # one snapshot, however many statements
                yield connection
        finally:
            if len(self._readers) < READERS_KEPT and not self._closing.is_set():
                self._readers.append(connection)
            else:
                connection.close()

    def tell(self, queue: str | None, due_at: Moment) -> None:
        """Note, inside a write, what listeners are to be told after the commit."""
        known = self._told.get(queue)
        if known is None or due_at < known:
            self._told[queue] = due_at

    def tell_room(self, queue: str) -> None:
        """Note, inside a write, that a job of the queue is no longer under way: at its concurrency,
        that is what everybody here waits for. Other processes notice the commit."""
        if queue in self.bounded_queues:
            self.tell(queue, 0)

    def watch(self, listener: Listener) -> Callable[[], None]:
        self._listeners = [*self._listeners, listener]
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="oncue-watch", daemon=True)
            self._watching.start()

        def stop() -> None:
            self._listeners = [known for known in self._listeners if known is not listener]

        return stop

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        if self._watching is not None:
            self._watching.join()
        self.writer.close()
        while self._readers:
            self._readers.pop().close()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        self._refuse_after_fork()
        return self.writer.submit(call)

    def _refuse_after_fork(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path}: this process was forked from the one that opened the store. "
                "Open the store anew after forking."
            )

    def _begun(self) -> None:
        """What an interrupted or failed call left may or may not be stored: look at everything."""
        if self._told:
            self._told.clear()
            self._told[None] = 0

    def _after_commit(self) -> None:
        self.known_queues.update(queue for queue in self._told if queue is not None)
        for queue, due_at in list(self._told.items()):
            self._notify(queue, due_at)
        self._told.clear()
        if self._listeners:
            try:
                self._look_abroad(self.writer.connection)
            except apsw.Error as error:  # the watching thread looks again
                log.debug("watching %s: %s", self.path, error)

    def _watch(self) -> None:
        while not self._closing.wait(WATCH_SECONDS):
            try:
                self.writer.probe(self._look_abroad)
            except apsw.Error as error:  # passing: the next look will tell
                log.debug("watching %s: %s", self.path, error)
            except BaseException:  # this thread is the only one that sees other processes
                log.exception("watching %s", self.path)

    def _look_abroad(self, connection: apsw.Connection) -> None:
        """Tell of commits by other processes, and of our own that Ctrl-C kept from being told."""
        version = self._foreign_version(connection)
        if version != self._version or self._told:
            self._version = version
            self._told.clear()
            self._notify(None, 0)

    @staticmethod
    def _foreign_version(connection: apsw.Connection) -> object:
        """Changes when another connection commits, never by this one's own commits."""
        return pragma(connection, "data_version")

    def _notify(self, queue: str | None, due_at: Moment) -> None:
        tell(self._listeners, queue, due_at)
