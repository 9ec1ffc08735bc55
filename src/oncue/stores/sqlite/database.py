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
from oncue.core.queue import Queue
from oncue.ports.store import Awaited, Listener
from oncue.stores.sqlite.connection import connect, pragma, prepare, translated
from oncue.stores.sqlite.watching import Abroad, awaited_by
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
        """Queues whose rows are certainly there, as long as no other process deletes one: any
        foreign commit clears it."""
        self._known_version: object = None
        self._deleted_queues: set[str] = set()
        self.bounded_queues: set[str] = set()
        """Queues with a concurrency that this process takes from, as its last claim found them."""
        self.queues_read: tuple[int, list[Queue]] | None = None
        """The queues as they were at a revision of the settings."""
        self._told: dict[str | None, Moment] = {}
        self.writer = Writer(connect(path), path, self._begun, self._after_commit)
        self._readers: deque[apsw.Connection] = deque()
        self._listeners: list[tuple[Listener, Awaited | None]] = []
        self._abroad = Abroad()
        self._others_wrote = False
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

    def forget_queue(self, name: str) -> None:
        """Note, inside a write, that the row of a queue is gone."""
        self.known_queues.discard(name)
        self._deleted_queues.add(name)

    def tell_room(self, queue: str) -> None:
        """Note, inside a write, that a job of the queue is no longer under way: at its concurrency,
        that is what everybody here waits for. Other processes notice the commit."""
        if queue in self.bounded_queues:
            self.tell(queue, 0)

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        self._listeners = [*self._listeners, (listener, queues)]
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="oncue-watch", daemon=True)
            self._watching.start()

        def stop() -> None:
            self._listeners = [known for known in self._listeners if known[0] is not listener]

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
        """At the beginning of each transaction, when nobody else can write."""
        self._told.clear()
        self._deleted_queues.clear()
        version = self._foreign_version(self.writer.connection)
        if version != self._known_version:
            self._known_version = version
            self.known_queues.clear()

    def _after_commit(self) -> None:
        told = {queue for queue in self._told if queue is not None}
        self.known_queues |= told - self._deleted_queues
        if not self._listeners:
            return
        for queue, due_at in self._told.items():
            self._notify(queue, due_at)
        try:
            self._look_abroad(self.writer.connection)
        except apsw.Error as error:  # the watching thread looks again
            log.debug("watching %s: %s", self.path, error)

    def _watch(self) -> None:
        while not self._closing.wait(WATCH_SECONDS):
            try:
                self.writer.probe(self._look_abroad)
                if self._others_wrote:
                    self._tell_of_others()
            except (apsw.Error, StoreError) as error:  # passing: the next look will tell
                log.debug("watching %s: %s", self.path, error)

    def _look_abroad(self, connection: apsw.Connection) -> None:
        version = self._foreign_version(connection)
        if version != self._version:
            self._version = version
            self._others_wrote = True

    def _tell_of_others(self) -> None:
        """Find out what other processes wrote, as far as somebody here waits for it."""
        self._others_wrote = False  # before reading: what follows is found by the next look
        try:
            with self.reading() as tx:
                news = self._abroad.news(tx, awaited_by(self._listeners))
        except BaseException:
            self._others_wrote = True
            raise
        for queue, moment in news:
            self._notify(queue, moment)

    @staticmethod
    def _foreign_version(connection: apsw.Connection) -> object:
        """Changes when another connection commits, never by this one's own commits."""
        return pragma(connection, "data_version")

    def _notify(self, queue: str | None, due_at: Moment) -> None:
        for listener, _ in self._listeners:
            try:
                listener(queue, due_at)
            except Exception:  # the write is done; whoever listens cannot undo it
                log.exception("a listener of the store failed")
