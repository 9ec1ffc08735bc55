"""Time, from one place."""

from __future__ import annotations

from typing import Protocol

from oncue.core.moment import Moment


class Clock(Protocol):
    """The only source of time. Everything else takes the moment as an argument."""

    def now(self) -> Moment:
        """The present moment in whole milliseconds, rounded down: never ahead of the truth."""

    def seconds_until(self, moment: Moment) -> float:
        """The time until `now` reaches that moment, as exactly as is known. Negative: the moment is
        past."""

    def monotonic(self) -> float:
        """Seconds that never go back and that no clock change touches; for measuring lengths."""

    def origin(self) -> str:
        """What `monotonic` counts from. Readings of two processes can be compared if their origins
        are equal."""
