"""The circuit between a dispatcher and its sink: open while the sink is in trouble."""

from __future__ import annotations

from oncue.ports.clock import Clock

SHORTEST_PAUSE_SECONDS = 0.1
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LONGEST_ASKED_PAUSE_SECONDS = 3600.0


class Circuit:
    """Doubles the pause with every trouble in a row; the first success closes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._troubles = 0
        self._open_until = 0.0

    @property
    def closed(self) -> bool:
        return self._troubles == 0

    def trouble(self, retry_after_seconds: float | None = None) -> float:
        """Open, or open for longer. A pause that the sink asked for is kept to. Answers with it.
        While it is open, troubles of batches that were under way already count as the same."""
        if self._troubles and self._open_until > self._clock.monotonic():
            self._troubles -= 1
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._troubles, 16))
        if retry_after_seconds is not None:
            pause = min(
                max(retry_after_seconds, SHORTEST_PAUSE_SECONDS), LONGEST_ASKED_PAUSE_SECONDS
            )
        self._troubles += 1
        self._open_until = self._clock.monotonic() + pause
        return pause

    def success(self) -> None:
        self._troubles = 0

    def pause_seconds(self) -> float:
        """How long nothing may be delivered; 0 means try."""
        return max(0.0, self._open_until - self._clock.monotonic()) if self._troubles else 0.0
