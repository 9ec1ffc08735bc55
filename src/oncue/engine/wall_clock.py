"""Noticing that the wall clock was set."""

from __future__ import annotations

from oncue.core.missed import JUMP_MS
from oncue.ports.clock import Clock


class WallClock:
    """Compares the wall clock with the time that has really passed. After the wall clock was set
    forward, a rest that was planned before ends too late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = self._ahead()

    def was_set(self) -> bool:
        """Whether it was set since the last call."""
        before, self._ahead_ms = self._ahead_ms, self._ahead()
        return abs(self._ahead_ms - before) > JUMP_MS

    def _ahead(self) -> float:
        """By how much it is ahead of the monotonic clock."""
        return self._clock.now() - 1000 * self._clock.monotonic()
