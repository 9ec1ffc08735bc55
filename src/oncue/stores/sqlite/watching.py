"""The listeners to one SQLite file in this process, and the news for them.

SQLite only reports that another process has committed. One read then finds out for all listeners
together whether settings have changed, and when each awaited queue has work.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import apsw

from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.ports.store import Awaited, Listener
from oncue.stores.listeners import awaited_by, tell
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.connection import pragma
from oncue.stores.sqlite.writer import Writer, join_thread, start_thread

SQL = rows.load("watching")
log = logging.getLogger("oncue.store")

WATCH_SECONDS = 0.05  # how often an idle process looks whether another one wrote

UNCOUNTED = -1  # in place of how many jobs are under way

News = tuple[str | None, Moment]
Reading = Callable[[], AbstractContextManager[rows.Tx]]


class OtherProcesses:
    """News of what other processes wrote. Remembers what listeners were last told, and reports only
    changes: a queue may hold due work that cannot be taken, and every commit of another process
    would wake all its listeners. Used by one thread, except for `forget`."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._last: dict[str, list[Any]] = {}
        self._stale: set[str] = set()

    def forget(self, queue: str) -> None:
        """This process has taken jobs of the queue, or is about to look whether it is full: changes
        by other processes from now on are news, even if the queue then looks as before."""
        self._stale.add(queue)

    def news(self, tx: rows.Tx, queues: Collection[str] | None) -> list[News]:
        """The news for listeners of these queues (None: of all)."""
        stale, self._stale = self._stale, set()  # before reading, so that none is missed
        try:
            revision = settings_revision(tx)
            now = _facts(tx, queues)
        except BaseException:  # no listener was told: all of it is still news
            self._stale |= stale
            raise
        news: list[News] = [] if revision == self._revision else [(None, 0)]
        for queue, found in now.items():
            uncounted = any(facts[-1] == UNCOUNTED for facts in found)
            if uncounted or queue in stale or found != self._last.get(queue):
                news += [(queue, moment) for moment, *_ in found if moment is not None]
        self._revision, self._last = revision, now
        return news


def _facts(tx: rows.Tx, queues: Collection[str] | None) -> dict[str, list[Any]]:
    """By queue, what may be news of it."""
    if queues is None:
        queues = [name for [name] in rows.fetch(tx, SQL["names"])]
    found: dict[str, list[Any]] = defaultdict(list)
    if queues:
        for queue, *facts in rows.fetch(tx, SQL["moments"], {"queues": rows.texts(queues)}):
            found[queue].append(facts)
    return found


def settings_revision(tx: rows.Tx) -> int:
    """A number that grows with every change of queues, schedules and access tokens."""
    return int(rows.first(tx, SQL["revision"])[0])


def queues_revision(tx: rows.Tx) -> int:
    """A number that grows whenever the list of queues or their settings change."""
    return int(rows.first(tx, SQL["revision"])[1])


class Watching:
    """Listeners are told of what this process wrote after each commit, by the thread that made it;
    and of what others wrote by a thread that looks for it, from the first listener on."""

    def __init__(self, writer: Writer, reading: Reading, path: Path) -> None:
        self.others = OtherProcesses()
        self._writer = writer
        self._reading = reading
        self._path = path
        self._news: dict[str | None, Moment] = {}
        self._listeners: list[tuple[Listener, Awaited | None]] = []
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._others_wrote = False
        self._version: object = None
        self._commits_seen: int | None = None
        """SQLite's counter of all commits, after the last one of this process."""

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        """See `oncue.ports.store.Store.watch`."""
        with self._starting:
            if self._thread is None or self._thread.ident is None:
                self._thread = threading.Thread(target=self._watch, name="oncue-watch", daemon=True)
                start_thread(self._thread, self._path)
        self._listeners = [*self._listeners, (listener, queues)]

        def stop() -> None:
            self._listeners = [known for known in self._listeners if known[0] is not listener]

        return stop

    def stop(self) -> None:
        """End the thread. Can be repeated."""
        self._stopping.set()
        join_thread(self._thread)

    def note(self, queue: str | None, due_at: Moment) -> None:
        """Inside a write: what listeners are to be told after the commit."""
        known = self._news.get(queue)
        if known is None or due_at < known:
            self._news[queue] = due_at

    @property
    def settings_changed(self) -> bool:
        """Inside a write: whether it has changed settings, or an earlier one may have."""
        return None in self._news

    def begun(self) -> bool:
        """At the beginning of a transaction: whether something may have been stored since the last
        one here that this process does not know of. Another process has committed; or a call was
        interrupted or failed after it had noted news, and they are still there."""
        undone = bool(self._news)
        if undone:
            self._news = {None: 0}
        others = self._writer.connection.data_version() != self._commits_seen
        self._others_wrote = self._others_wrote or others
        return undone or others

    def committed(self) -> None:
        """Tell what the transaction noted."""
        self._commits_seen = self._writer.connection.data_version()
        for queue, due_at in list(self._news.items()):
            self._tell(queue, due_at)
        self._news.clear()

    @property
    def has_news(self) -> bool:
        """Whether something is noted, perhaps by a call that was interrupted or failed."""
        return bool(self._news)

    def undone(self) -> None:
        """Nothing was stored, so what was noted is not told."""
        self._news.clear()

    def committed_at_once(self) -> bool:
        """As `committed`, after a transaction of one statement, for which `begun` was not called.
        Whether another process has committed since the transaction before it."""
        seen = self._commits_seen
        others = seen is None or self._writer.connection.data_version() != seen + 1
        self._others_wrote = self._others_wrote or others
        self.committed()
        return others

    def forget_version(self) -> None:
        """The connection is given up: the versions of the next one begin anew."""
        self._version = self._commits_seen = None

    def renew(self) -> None:
        """In a forked child: the listeners are of loops and waiting requests, whose threads are not
        here."""
        self._listeners = []
        self._thread = None
        self._starting = threading.Lock()
        self._news.clear()
        stopped, self._stopping = self._stopping.is_set(), threading.Event()
        if stopped:
            self._stopping.set()

    def _watch(self) -> None:
        while not self._stopping.wait(WATCH_SECONDS):
            try:
                self._writer.probe(self._look_for_commits)
                if self._others_wrote:
                    self._tell_of_others()
            except (apsw.Error, StoreError) as error:  # passing: the next look will tell
                log.debug("watching %s: %s", self._path, error)
            except BaseException:  # this thread is the only one that sees other processes
                log.exception("watching %s", self._path)

    def _look_for_commits(self, connection: rows.Tx) -> None:
        """Notice commits by other processes; announce our own that Ctrl-C kept unannounced."""
        # Changes when another connection commits, never by this one's own commits.
        version = pragma(connection, "data_version")
        if version != self._version:
            self._version = version
            self._others_wrote = True
        if self._news:
            self._news.clear()
            self._commits_seen = None  # for `begun`: a call was interrupted or failed
            self._tell(None, 0)

    def _tell_of_others(self) -> None:
        """Find out what other processes wrote, as far as a listener here waits for it."""
        self._others_wrote = False  # before reading: what follows is found by the next look
        try:
            with self._reading() as tx:
                news = self.others.news(tx, awaited_by(self._listeners))
        except BaseException:
            self._others_wrote = True
            raise
        for queue, moment in news:
            self._tell(queue, moment)

    def _tell(self, queue: str | None, due_at: Moment) -> None:
        tell([listener for listener, _ in self._listeners], queue, due_at)
