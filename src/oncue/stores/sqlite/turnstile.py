"""Processes take turns at the write lock of an SQLite file.

SQLite's lock is not fair: a waiting process looks again after a rest of up to 100 ms, and a busy
one takes the lock again within microseconds, so that the waiting one waits for seconds. Here a
writer passes a turnstile before it waits for the write lock, and leaves it when it has the lock. A
busy process therefore stands behind the one that waits already.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from functools import cache
from typing import Any

from oncue.clock import SystemClock
from oncue.stores.sqlite import connection as limits

TURN_SECONDS = 1.0  # the longest wait for a turn; the holder may have been stopped by SIGSTOP
WITHOUT_SECONDS = 30.0  # afterwards a turnstile that is taken is passed by for so long
_STEPS = ((0.05, 0.0005), (0.5, 0.002), (float("inf"), 0.01))  # waited so long → look every …

_monotonic = SystemClock().monotonic


class Turnstile:
    """A `flock` on the write-ahead log, which every process that uses the file has open. SQLite
    puts no lock of its own on that file, and the kernel lets go when a process dies.

    It only makes waiting fair: the write lock alone keeps writers apart. So errors here, such as a
    file system without `flock`, are ignored."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._held = False
        self._without_until = 0.0
        self._waiting_since = 0.0
        self.patient = True
        """Whether `wait_for_lock` waits. Otherwise a lock that is taken is an error at once."""

    def open(self, log: str) -> None:
        """After a connection has read the database: then the log is there, and stays."""
        self.close()
        try:
            self._file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def close(self) -> None:
        file, self._file, self._held = self._file, None, False
        if file is not None:
            os.close(file)

    def enter(self) -> None:
        """Wait for a turn, but not for ever."""
        self.patient = True  # Ctrl-C may have left it False
        if self._taken():
            return
        began = _monotonic()
        longest = min(TURN_SECONDS, limits.BUSY_MS / 1000)
        while not self._taken():
            waited = _monotonic() - began
            if waited >= longest or began < self._without_until:
                self._without_until = max(self._without_until, began + WITHOUT_SECONDS)
                return
            _rest(waited)

    def leave(self) -> None:
        if self._held and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._held = False

    def is_free(self) -> bool:
        """Whether no process waits for a turn. During the call no other thread gets the
        interpreter; with `fcntl` one would."""
        if self._file is None:
            return True
        flock, why = _flock()
        if flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB) == 0:
            flock(self._file, fcntl.LOCK_UN)
            return True
        return bool(why() != errno.EWOULDBLOCK)  # else there is no such lock here

    def wait_for_lock(self, tries: int) -> bool:
        """SQLite's busy handler. Only one process at a time waits here, so it looks often."""
        if not self.patient:
            return False
        now = _monotonic()
        if tries == 0:
            self._waiting_since = now
        waited = now - self._waiting_since
        if waited >= limits.BUSY_MS / 1000:
            return False
        _rest(waited)
        return True

    def _taken(self) -> bool:
        if self._file is None:
            return True
        self._held = True  # before it is: Ctrl-C may come at once, and `leave` twice does no harm
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._held = False
            return False
        except OSError:  # there is no such lock here
            self._held = False
        return True


@cache
def _flock() -> tuple[Any, Any]:
    """`flock` of the system, which keeps the interpreter during the call, and a function that
    returns the number of its last error."""
    import ctypes  # takes milliseconds, which not every program needs

    return ctypes.PyDLL(None, use_errno=True).flock, ctypes.get_errno


def _rest(waited: float) -> None:
    # Not an alarm: nothing can wake it, and it must be shorter than a transaction.
    time.sleep(next(step for bound, step in _STEPS if waited < bound))  # noqa: TID251
