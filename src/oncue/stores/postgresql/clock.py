"""The time of the database: the clock of this machine, corrected by what the server says.

The time that the server told is compared with the moment at which its answer was received: so the
corrected clock is never ahead of the server's, and nothing is early.
"""

from __future__ import annotations

import threading

from oncue.clock import SystemClock
from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.ports.clock import Clock
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.tx import PgTx

MEASURE_SECONDS = 10.0
SAMPLES = 3  # of which the quickest answer counts
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class DatabaseClock:
    """Implements `oncue.ports.clock.Clock`. Measured at the beginning and, by whoever asks next,
    every ten seconds; in a thread of its own, so that nobody waits for it."""

    def __init__(self, db: PgDatabase, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._offset_ms = 0
        self._measured = 0.0
        self._measuring = threading.Lock()
        self.measure()

    def now(self) -> Moment:
        if self._clock.monotonic() - self._measured > MEASURE_SECONDS:
            self._measure_soon()
        return self._clock.now() + self._offset_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def origin(self) -> str:
        return self._clock.origin()

    @property
    def skew_seconds(self) -> float:
        """By how much the server is ahead of this machine; negative: behind it."""
        return self._offset_ms / 1000

    def measure(self) -> None:
        def ask(tx: PgTx) -> int:
            offsets = []
            for _ in range(SAMPLES):
                theirs: int = tx.execute(_NOW).get
                offsets.append(theirs - self._clock.now())
            return max(offsets)

        self._offset_ms = self._db.once(ask)
        self._measured = self._clock.monotonic()

    def _measure_soon(self) -> None:
        if self._measuring.acquire(blocking=False):
            self._measured = self._clock.monotonic()
            threading.Thread(target=self._measure_aside, name="oncue-clock", daemon=True).start()

    def _measure_aside(self) -> None:
        try:
            self.measure()
        except StoreError:
            pass  # the last measurement holds until the server answers again
        finally:
            self._measuring.release()
