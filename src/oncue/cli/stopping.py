"""Ending in two stages: SIGTERM or Ctrl-C asks for an end in good order, a second one ends at once.

Nothing is lost by the second: what was acknowledged is durable, and what was under way is taken
back when its lease ends.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import NoReturn

from oncue.clock import SystemClock
from oncue.engine.alarm import SIGNAL_SECONDS

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Some supervisors signal a process and then its whole group: the same request, twice.
SAME_REQUEST_SECONDS = 0.3


class Stopping:
    """`with` it, the main thread waits here."""

    def __init__(self, meanwhile: str) -> None:
        """`meanwhile` is what goes on after the first signal: 'finishing …'."""
        self._meanwhile = meanwhile
        self._clock = SystemClock()
        self._asked_at: float | None = None
        # An Event would not do: its lock may be held by the very code that a signal interrupts.
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Stopping:
        self._before = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def asked(self) -> bool:
        """Whether a signal asked for the end."""
        return self._asked_at is not None

    def wait(self, seconds: float = math.inf) -> bool:
        """Wait so long, or until it is to end. Whether it is to end."""
        ends = self._clock.monotonic() + seconds
        while (left := ends - self._clock.monotonic()) > 0:
            with suppress(Empty):
                self._ended.get(timeout=min(left, SIGNAL_SECONDS))
                return True
        return False

    def end(self) -> None:
        """It came to its end by itself."""
        self._ended.put(None)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        now = self._clock.monotonic()
        if self._asked_at is not None:
            if now - self._asked_at < SAME_REQUEST_SECONDS:
                return
            _say("Stopped at once; what was under way is taken back when its lease ends.")
            end_at_once(128 + number)
        self._asked_at = now
        _say(f"Stopping: {self._meanwhile}. Ctrl-C again stops at once.")
        self._ended.put(None)


def end_at_once(code: int) -> NoReturn:
    """End the process with this exit code, whatever its threads do."""
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(code)


def _say(text: str) -> None:
    """Without the buffers of `sys.stderr`, which the signal may have interrupted."""
    with suppress(OSError):
        clear = b"\r\x1b[K" if os.isatty(2) else b""
        os.write(2, clear + text.encode() + b"\n")
