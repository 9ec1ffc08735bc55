"""A connection that can be given up and opened again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import apsw


class Handle:
    """A connection, opened when it is first needed, and the lock of the thread that uses it."""

    __slots__ = ("_connection", "_open", "lock", "owner")

    def __init__(self, open_it: Callable[[], apsw.Connection]) -> None:
        self.lock = threading.Lock()
        self.owner: int | None = None
        """The thread that reads with it."""
        self._open = open_it
        self._connection: apsw.Connection | None = None

    @property
    def connection(self) -> apsw.Connection:
        """Only for the holder of the lock."""
        found = self._connection
        if found is None:
            found = self._connection = self._open()
        return found

    def owned_by(self, thread: int) -> bool:
        return self.owner == thread and self.lock.locked()  # Ctrl-C may have left the owner behind

    def close(self, *, checkpoint: bool = True) -> None:
        """Close the connection. Without `checkpoint` the log stays as it is."""
        found, self._connection = self._connection, None
        if found is not None:
            if not checkpoint:
                found.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            found.close()
