"""Work that was stored, and the listeners that are told of it.

Listeners are told of what this process wrote by the thread that wrote it. Other processes are told
by NOTIFY, after the commit and by a thread of its own, which sends what has gathered meanwhile in
one go: inside the transactions it would make commits wait for each other. What is due later than
the next look need not be told. A look about every second finds work without a notice; behind a
pooler, where LISTEN does not work, there are only looks.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from random import uniform
from typing import Any

import psycopg

from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener
from oncue.stores.listeners import awaited_by, tell
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.known_lines import LONGEST_SECONDS, SHARE, KnownLines
from oncue.stores.postgresql.tx import PgTx

LISTEN_SECONDS = 0.9  # between two looks, where NOTIFY tells
POLL_SECONDS = 0.25  # … and where it does not
NOTICE_SECONDS = LONGEST_SECONDS + 2  # ahead: what is due later is found by a look at everything
NOTICE_BYTES = 7000  # the server takes 8000
RETRY_SECONDS = 1.0
GATHER_SECONDS = 0.001  # after each notice, in which the next one grows

log = logging.getLogger("oncue.store")

Dues = dict[str | None, Moment]
Look = Callable[[Collection[str] | None], tuple[str, dict[str, Moment]]]
"""What the database says of these queues (None: of all): a mark that changes with the settings, and
when each is next due."""


class PgNews:
    def __init__(
        self,
        db: PgDatabase,
        look: Look,
        known: KnownLines,
        clock: Callable[[], Clock],
        read_mark: Callable[[], str],
    ) -> None:
        """`known` gets news before the listeners do. `read_mark`: the mark of the settings now."""
        self._db = db
        self._look = look
        self._known = known
        self._read_mark = read_mark
        self._mark = ""
        self._clock = clock
        self.listens = db.listens
        self.channel = f"oncue_{db.address.schema}"
        now_and_after_fork(self, PgNews._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[tuple[Listener, Awaited | None]] = []
        self._unsent: Dues = {}
        self._ranks: dict[str | None, set[int]] = {}
        self._to_send = threading.Event()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sender_pid = 0
        self._waking = os.pipe()
        self._took = deque([0.0], maxlen=3)  # the shortest counts: others may delay a look

    @property
    def rest_seconds(self) -> float:
        return LISTEN_SECONDS if self.listens else POLL_SECONDS

    def watch(self, listener: Listener, queues: Awaited | None) -> Callable[[], None]:
        entry = (listener, queues)
        if not self._mark:  # what was changed before is no news
            with suppress(StoreError):
                self._mark = self._read_mark()
        with self._lock:
            self._listeners.append(entry)
            self._start(self._hear if self.listens else self._poll, "oncue-postgresql-news")

        def stop() -> None:
            with self._lock:
                if entry in self._listeners:
                    self._listeners.remove(entry)

        return stop

    def _start(self, run: Callable[[], None], name: str) -> None:
        if not any(one.name == name for one in self._threads) and not self._closing.is_set():
            thread = threading.Thread(target=run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def note_news(self, tx: PgTx) -> None:
        """Pass on the news of a transaction that this process has committed."""
        news = tx.news
        self._tell(news, tx.ranks)
        if not self.listens:
            return
        soon = self._clock().now() + round(1000 * NOTICE_SECONDS)
        with self._lock:
            for queue, due_at in news.items():
                if due_at <= soon:
                    self._unsent[queue] = min(due_at, self._unsent.get(queue, due_at))
                    self._ranks.setdefault(queue, set()).update(tx.ranks.get(queue or "", ()))
            if self._unsent:
                self._start(self._send, "oncue-postgresql-notify")
                self._to_send.set()

    def _tell(self, news: Dues, ranks: Mapping[str, Collection[int]]) -> None:
        self._known.note_news(news, ranks)
        self._tell_listeners(news)

    def _tell_listeners(self, news: Dues) -> None:
        with self._lock:
            listeners = [listener for listener, _ in self._listeners]
        for queue, due_at in news.items():
            tell(listeners, queue, due_at)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._to_send.set()
        os.write(self._waking[1], b"x")
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)
        for end in self._waking if not any(one.is_alive() for one in self._threads) else ():
            with suppress(OSError):
                os.close(end)

    # What other processes are told.

    def _send(self) -> None:
        while not self._closing.is_set() or self._unsent:
            try:
                with self._db.connect() as connection:
                    # What is told is a hint: no commit need wait for the disk because of it.
                    connection.execute("SET synchronous_commit = off")
                    self._sender_pid = connection.info.backend_pid
                    self._send_on(connection)
            except psycopg.Error as error:
                log.debug("other processes could not be told: %s", error)
                if self._closing.wait(uniform(0.5, 1.0) * RETRY_SECONDS):
                    return

    def _send_on(self, connection: psycopg.Connection[Any]) -> None:
        """Send notices until the store is closed, also those of the last jobs that were stored: the
        process may end afterwards."""
        notify = self._db.statements.load("queues")["notify"].encode()
        while not self._closing.is_set() or self._unsent:
            self._to_send.wait()
            self._to_send.clear()
            with self._lock:
                news, self._unsent = self._unsent, {}
                ranks, self._ranks = self._ranks, {}
            if notices := notices_of(news, ranks):
                connection.execute(notify, {"channel": self.channel, "notices": notices})
                self._closing.wait(GATHER_SECONDS)

    # What other processes tell.

    def _hear(self) -> None:
        while not self._closing.is_set():
            try:
                with self._db.connect() as connection:
                    connection.execute(f"LISTEN {self.channel}".encode())
                    self._known.hears(True)
                    self._hear_on(connection)
            except psycopg.Error as error:
                log.debug("nothing is heard from other processes at the moment: %s", error)
                self._closing.wait(uniform(0.5, 1.0) * RETRY_SECONDS)
            finally:
                self._known.hears(False)

    def _hear_on(self, connection: psycopg.Connection[Any]) -> None:
        rest = self._look_around()
        with selectors.DefaultSelector() as ready:
            ready.register(connection.fileno(), selectors.EVENT_READ)
            ready.register(self._waking[0], selectors.EVENT_READ)
            next_look = self._clock().monotonic() + rest
            while not self._closing.is_set():
                rest = next_look - self._clock().monotonic()
                if rest <= 0 or not ready.select(rest):
                    next_look = self._look_around() + self._clock().monotonic()
                for notice in connection.notifies(timeout=0):
                    if notice.pid != self._sender_pid:  # not of this process
                        self._tell(*_read_notice(notice.payload))

    def _poll(self) -> None:
        rest = self.rest_seconds
        while not self._closing.wait(rest):
            rest = self._look_around()

    def _look_around(self) -> float:
        """Look what is due, and whether settings have changed since the last look. Returns how long
        to rest before the next one: longer if it took long, and with a random part, so that not all
        processes look at the same moment."""
        began, took = self._clock().monotonic(), 0.0
        with self._lock:
            listeners = list(self._listeners)
        if listeners:
            try:
                self._looked(*self._look(awaited_by(listeners)))
                took = self._clock().monotonic() - began
            except StoreError as error:
                log.debug("looking for news failed: %s", error)
        self._took.append(took)
        longest = LONGEST_SECONDS if self.listens else LISTEN_SECONDS
        rest = max(self.rest_seconds, min(SHARE * min(self._took), longest))
        return uniform(0.8, 1.0) * rest

    def _looked(self, mark: str, dues: Mapping[str, Moment]) -> None:
        """Pass on what a look has found. The known lines are those of the look already; they are
        forgotten if settings have changed."""
        news: Dues = dict(dues.items())
        if mark != self._mark:
            self._known.note_news({None: 0}, {})
            news[None] = 0
        self._mark = mark
        self._tell_listeners(news)


def notices_of(news: Dues, ranks: Mapping[str | None, Collection[int]]) -> list[str]:
    """As few texts as the server takes. By queue: the first due time, then the ranks."""
    notices: list[str] = []
    some: dict[str, list[int]] = {}
    size = 0
    for queue, due_at in news.items():
        numbers = [due_at, *ranks.get(queue, ())]
        size += len(queue or "") + 20 + 4 * len(numbers)
        if size > NOTICE_BYTES:
            notices.append(json.dumps(some))
            some, size = {}, 0
        some[queue or ""] = numbers
    return [*notices, json.dumps(some)] if some else notices


def _read_notice(text: str) -> tuple[Dues, dict[str, list[int]]]:
    try:
        read = {queue: [int(one) for one in what] for queue, what in json.loads(text).items()}
        dues: Dues = {queue or None: what[0] for queue, what in read.items()}
        return dues, {queue: what[1:] for queue, what in read.items()}
    except (ValueError, TypeError, AttributeError, IndexError):  # of another program
        return {None: 0}, {}
