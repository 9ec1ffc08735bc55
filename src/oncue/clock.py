"""The clocks. `SystemClock` is the only place in oncue that reads the wall clock."""

from __future__ import annotations

import time

from oncue.core.moment import Moment


class SystemClock:
    """The time of this machine."""

    def now(self) -> Moment:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class FakeClock:
    """A clock that stands still until it is told otherwise; for tests and simulations."""

    def __init__(self, start_ms: Moment = 1_800_000_000_000) -> None:
        self._now = start_ms
        self._monotonic = 0.0

    def now(self) -> Moment:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> Moment:
        """Let time pass; both readings move on. The new moment."""
        self._now += round(seconds * 1000)
        self._monotonic += seconds
        return self._now

    def set(self, ms: Moment) -> None:
        """Turn the wall clock, in either direction, as an administrator would: the monotonic
        reading does not notice."""
        self._now = ms
