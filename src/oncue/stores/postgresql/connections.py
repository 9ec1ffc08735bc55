"""Connections of a pool: how they are made, and which of them is used next."""

from __future__ import annotations

import logging
import threading
from collections import deque
from random import uniform
from typing import Any, Self

import psycopg
from psycopg_pool import ConnectionPool

from oncue.clock import SystemClock

LONGEST_PAUSE_SECONDS = 0.5
_monotonic = SystemClock().monotonic

# psycopg warns of each connection that the server has closed, and of each pipeline that has failed,
# though the caller gets the error. A program that configures no logging is not shown these lines.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class LastUsedFirst(ConnectionPool[psycopg.Connection[Any]]):
    """A pool that gives the connection that was used last. The usual one gives that which was used
    the longest time ago: then each journey wakes another process of the server, none of them has
    anything in the caches of its core, and the pool never finds out that it has too many."""

    def __init__(self, conninfo: str, **options: Any) -> None:
        super().__init__(conninfo, open=False, **options)
        self._pool = _Stack()
        self.open()


class _Stack(deque[psycopg.Connection[Any]]):
    def append(self, connection: psycopg.Connection[Any], /) -> None:
        self.appendleft(connection)


def insistent(closing: threading.Event, seconds: float) -> type[psycopg.Connection[Any]]:
    """Connections whose `connect` gives up after so many seconds, or when the event is set. They
    are tried again at short intervals while no server takes them. A pool by itself doubles its
    pauses without a limit: it finds a server that is back only seconds later."""

    class Insistent(psycopg.Connection[Any]):
        @classmethod
        def connect(cls, *args: Any, **options: Any) -> Self:
            ends, pause = _monotonic() + seconds, 0.05
            while True:
                try:
                    return super().connect(*args, **options)
                except psycopg.OperationalError:
                    if closing.is_set() or _monotonic() > ends:
                        raise
                closing.wait(uniform(0.5, 1.0) * pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    return Insistent
