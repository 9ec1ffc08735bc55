"""Finds the news for listeners in commits of other processes.

SQLite tells only that somebody committed. One read then finds out for all listeners together what
they want to know: whether settings have changed, and when each awaited queue has work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw

from oncue.core.moment import Moment
from oncue.ports.store import Awaited, Listener
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("watching")

News = tuple[str | None, Moment]


class Abroad:
    """Remembers the revision of the settings that listeners were last told of. Used by one
    thread."""

    def __init__(self) -> None:
        self._revision: int | None = None

    def news(self, tx: apsw.Connection, queues: Collection[str] | None) -> list[News]:
        """What listeners are to be told, of these queues (None: of all). A moment they know already
        may be among it: it wakes nobody, because nobody rests longer than that."""
        told: list[News] = []
        revision = settings_revision(tx)
        if revision != self._revision:
            self._revision = revision
            told.append((None, 0))
        if queues is None:
            queues = [name for [name] in rows.fetch(tx, SQL["names"])]
        if queues:
            found = rows.fetch(tx, SQL["moments"], {"queues": rows.texts(queues)})
            told += [(queue, moment) for queue, moment in found if moment is not None]
        return told


def settings_revision(tx: apsw.Connection) -> int:
    """A number that grows with every change of queues, schedules and access tokens."""
    return int(rows.first(tx, SQL["revision"])[0])


def awaited_by(listeners: Sequence[tuple[Listener, Awaited | None]]) -> set[str] | None:
    """The queues that these listeners wait for; None: all."""
    wanted: set[str] = set()
    for _, awaited in listeners:
        if awaited is None:
            return None
        wanted.update(awaited())
    return wanted
