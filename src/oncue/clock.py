"""The clocks. `SystemClock` is the only place in oncue that reads the wall clock."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from oncue.core.moment import Moment

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _origin() -> str:
    """Names the present run of this machine, where the system does so; else this process, so that
    monotonic clocks are compared only where that is certainly right."""
    try:
        return BOOT_ID.read_text("ascii").strip()
    except OSError:
        return secrets.token_hex(16)


class SystemClock:
    """The time of this machine."""

    _ORIGIN = _origin()

    def now(self) -> Moment:
        return time.time_ns() // 1_000_000

    def seconds_until(self, moment: Moment) -> float:
        return (moment * 1_000_000 - time.time_ns()) / 1e9

    def monotonic(self) -> float:
        return time.monotonic()

    def origin(self) -> str:
        return self._ORIGIN


class FakeClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, start_ms: Moment = 1_800_000_000_000) -> None:
        self._now = start_ms
        self._monotonic = 0.0
        self._origin = 0

    def now(self) -> Moment:
        return self._now

    def seconds_until(self, moment: Moment) -> float:
        return (moment - self._now) / 1000

    def monotonic(self) -> float:
        return self._monotonic

    def origin(self) -> str:
        return str(self._origin)

    def reboot(self) -> None:
        """Start the machine again: the monotonic reading begins anew."""
        self._origin += 1
        self._monotonic = 0.0

    def advance(self, seconds: float) -> Moment:
        """Let time pass; both readings move on. The new moment."""
        self._now += round(seconds * 1000)
        self._monotonic += seconds
        return self._now

    def set(self, ms: Moment) -> None:
        """Turn the wall clock, in either direction, as an administrator would: the monotonic
        reading does not notice."""
        self._now = ms
