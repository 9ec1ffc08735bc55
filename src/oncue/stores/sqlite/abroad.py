"""Finds the news for listeners in commits of other processes.

SQLite tells only that somebody committed. One read then finds out for all listeners together what
they want to know: whether settings have changed, and when each awaited queue has work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import apsw

from oncue.core.moment import Moment
from oncue.ports.store import Awaited, Listener
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("watching")
UNCOUNTED = -1  # in place of how many jobs are under way

News = tuple[str | None, Moment]


class Abroad:
    """Remembers what listeners were last told, and tells only of changes: queues may hold due work
    that cannot be taken, and each commit of another process would wake everybody who waits for it.
    Used by one thread, except for `forget`."""

    def __init__(self) -> None:
        self._revision: int | None = None
        self._last: dict[str, list[Any]] = {}
        self._stale: set[str] = set()

    def forget(self, queue: str) -> None:
        """This process has taken jobs of the queue since, or is about to look whether it is full:
        what others do about it from now on is news, even if the queue then looks as before."""
        self._stale.add(queue)

    def news(self, tx: apsw.Connection, queues: Collection[str] | None) -> list[News]:
        """What listeners are to be told, of these queues (None: of all)."""
        stale, self._stale = self._stale, set()  # before reading, so that none is missed
        try:
            revision = settings_revision(tx)
            now = _facts(tx, queues)
        except BaseException:  # nobody was told: all of it is still news
            self._stale |= stale
            raise
        told: list[News] = [] if revision == self._revision else [(None, 0)]
        for queue, found in now.items():
            uncounted = any(facts[-1] == UNCOUNTED for facts in found)
            if uncounted or queue in stale or found != self._last.get(queue):
                told += [(queue, moment) for moment, *_ in found if moment is not None]
        self._revision, self._last = revision, now
        return told


def _facts(tx: apsw.Connection, queues: Collection[str] | None) -> dict[str, list[Any]]:
    """By queue, what may be news of it."""
    if queues is None:
        queues = [name for [name] in rows.fetch(tx, SQL["names"])]
    found: dict[str, list[Any]] = defaultdict(list)
    if queues:
        for queue, *facts in rows.fetch(tx, SQL["moments"], {"queues": rows.texts(queues)}):
            found[queue].append(facts)
    return found


def settings_revision(tx: apsw.Connection) -> int:
    """A number that grows with every change of queues, schedules and access tokens."""
    return int(rows.first(tx, SQL["revision"])[0])


def queues_revision(tx: apsw.Connection) -> int:
    """A number that grows whenever the list of queues or their settings change."""
    return int(rows.first(tx, SQL["revision"])[1])


def awaited_by(listeners: Sequence[tuple[Listener, Awaited | None]]) -> set[str] | None:
    """The queues that these listeners wait for; None: all."""
    wanted: set[str] = set()
    for _, awaited in listeners:
        if awaited is None:
            return None
        wanted.update(awaited())
    return wanted
