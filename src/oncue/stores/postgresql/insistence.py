"""Connections that are tried again at short intervals while no server takes them. A pool by itself
doubles its pauses without a limit: it finds a server that is back only seconds later."""

from __future__ import annotations

import threading
from random import uniform
from typing import Any, Self

import psycopg

from oncue.clock import SystemClock

LONGEST_PAUSE_SECONDS = 0.5
_monotonic = SystemClock().monotonic


def insistent(closing: threading.Event, seconds: float) -> type[psycopg.Connection[Any]]:
    """Connections whose `connect` gives up after so many seconds, or when the event is set."""

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
