"""SQLite files and `os.fork`.

No SQLite connection may be carried over a fork, not even to be closed there. So all connections of
this process are closed before it forks, and both processes open them again when they need them.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Protocol
from weakref import WeakSet

from oncue.clock import SystemClock

FORK_SECONDS = 10.0  # the longest wait for transactions and reads under way

log = logging.getLogger("oncue.store")
_monotonic = SystemClock().monotonic


class Forked(Protocol):
    def pause(self, seconds: float) -> bool:
        """Wait for what is under way, close every connection and let none be opened. Whether that
        was done within so many seconds; if not, all is as before."""
        ...

    def resume(self) -> None:
        """Connections may be opened again."""
        ...

    def renew(self) -> None:
        """Only in the child, and only after a pause that succeeded: none of the parent's threads
        is here. To be followed by `resume`."""
        ...


_opened: WeakSet[Forked] = WeakSet()
_changing = threading.Lock()  # held during the fork: nothing comes to `_opened` meanwhile
_paused: list[Forked] = []
_abandoned: list[Forked] = []


def remember(database: Forked) -> None:
    """To be called before the first connection is opened."""
    with _changing:
        _opened.add(database)


def _before() -> None:
    ends = _monotonic() + FORK_SECONDS
    _changing.acquire()
    for database in list(_opened):
        if database.pause(max(0.0, ends - _monotonic())):
            _paused.append(database)
        else:
            log.warning("forked while the store was in use: the child cannot use it")


def _after_in_parent() -> None:
    while _paused:
        _paused.pop().resume()
    _changing.release()


def _after_in_child() -> None:
    if not _changing.locked():  # forked by code that does not announce it: nothing was closed
        return
    _abandoned.extend(set(_opened) - set(_paused))  # closing their connections could hang
    for database in _paused:
        database.renew()
    _after_in_parent()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
