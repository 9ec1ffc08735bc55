"""SQLite files and `os.fork`.

No SQLite connection may be carried over a fork, not even to be closed there. So all connections of
this process are closed before it forks, and both processes open them again when they need them.
"""

from __future__ import annotations

import _thread
import logging
import os
import signal
import threading
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from oncue.clock import SystemClock
from oncue.core.errors import StoreUnusable
from oncue.forking import around_fork
from oncue.stores.sqlite.presence import identity

if TYPE_CHECKING:
    from oncue.stores.sqlite.database import Database

FORK_SECONDS = 10.0  # the longest wait for transactions and reads under way

log = logging.getLogger("oncue.store")
_monotonic = SystemClock().monotonic


_opened: WeakSet[Database] = WeakSet()
_changing = threading.Lock()  # held during the fork: nothing comes to `_opened` meanwhile
_paused: list[Database] = []
_abandoned: list[Database] = []  # kept for good: closing their connections could hang
_handlers: dict[signal.Signals, Any] = {}  # the program's, while signals are held back
_noted: list[tuple[int, signal.Signals]] = []  # process and number of signals that came meanwhile
_afterwards = SimpleNamespace(act=int)  # called when the fork is over; `int()` does nothing


def remember(database: Database) -> None:
    """To be called before the first connection is opened."""
    with _changing:
        _opened.add(database)


def refuse_abandoned(path: Path) -> None:
    """SQLite keeps one list of its locks on a file for the whole process. In a child that has
    connections of its parent's that list is wrong, and a new connection would lose data."""
    if _abandoned and identity(str(path)) in {database.presence.file for database in _abandoned}:
        raise forked_in_use(path)


def forked_in_use(path: Path) -> StoreUnusable:
    return StoreUnusable(
        f"{path}: this process was forked while its parent used the store, and cannot use the "
        "file. Fork outside the store's calls, or start the process by spawn or exec."
    )


def _before() -> None:
    _hold_signals()
    ends = _monotonic() + FORK_SECONDS
    _changing.acquire()
    for database in list(_opened):
        try:
            if database.pause(max(0.0, ends - _monotonic())):
                _paused.append(database)
                continue
        except Exception:
            log.exception("could not close the store before a fork")
        log.warning("forked while the store was in use: the child cannot use it")


def _after_in_parent() -> None:
    while _paused:
        _paused.pop().resume()
    if _changing.locked():  # it is not if `_before` was interrupted
        _changing.release()
    _release_signals()


def _after_in_child() -> None:
    _abandoned.extend(set(_opened) - set(_paused) - set(_abandoned))
    for database in _paused:
        database.renew()
    _after_in_parent()


def _hold_signals() -> None:
    """Ctrl-C in between would leave locks behind. It is raised only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):
            _handlers[number] = handler
            signal.signal(number, _note)


def _note(number: int, _: object) -> None:
    _noted.append((os.getpid(), signal.Signals(number)))


def _release_signals() -> None:
    while _handlers:
        signal.signal(*_handlers.popitem())
    numbers = [number for process, number in _noted if process == os.getpid()]
    _noted.clear()
    _afterwards.act = partial(list, map(_thread.interrupt_main, numbers))


around_fork(_before, _after_in_parent, _after_in_child)
# Signals that were held back come when `os.fork` has returned: what is raised while it calls Python
# code is only printed. So this last step is all in C, where no signal is handled.
os.register_at_fork(after_in_parent=partial(methodcaller("act"), _afterwards))
