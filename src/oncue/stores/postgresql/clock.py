"""The time of the database: what the server said, and how long ago that was.

The time that has passed since is read from the monotonic clock, which nobody sets. It counts from
the moment at which the answer was received, so this time is ahead of the server's at most by its
rounding to whole milliseconds: half of one, which is less than the commit of a claim takes.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from oncue.clock import SystemClock
from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.ports.clock import Clock
from oncue.stores.postgresql.database import PgDatabase
from oncue.stores.postgresql.tx import PgTx

MEASURE_SECONDS = 10.0
COMPARE_SECONDS = 0.01  # the time is read for every job
JUMP_MS = 500  # between the two clocks of this machine: one was set, or the machine was asleep
SAMPLES = 3  # of which the quickest answer counts
_NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision * 1000"


class DatabaseClock:
    """Implements `oncue.ports.clock.Clock`. Measured at the beginning, on the first connection to
    another server (not behind a pooler), and every ten seconds. The last is begun by a call of
    `now` and done in a thread of its own, so that no call waits for it."""

    def __init__(self, db: PgDatabase, clock: Clock | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._offset_ms = 0.0  # from the monotonic clock to the server's
        self._wall_ms = 0.0  # … and to the one of this machine
        self._measured = 0.0
        self._monotonic = self._clock.monotonic
        self._compared = 0.0
        self._measuring = threading.Lock()
        self.measure()
        db.on_new_server = self._measure_on

    def now(self) -> Moment:
        seconds = self._monotonic()
        if seconds >= self._compared + COMPARE_SECONDS:
            self._compare(seconds)
        return round(1000 * seconds + self._offset_ms)

    def seconds_until(self, moment: Moment) -> float:
        return (moment - 0.5 - self._offset_ms) / 1000 - self._monotonic()  # as `now` rounds

    def _compare(self, seconds: float) -> None:
        """Measure again if it is time to, or if a clock of this machine has jumped."""
        self._compared = seconds
        jump_ms = self._clock.now() - 1000 * seconds - self._wall_ms
        if seconds - self._measured > MEASURE_SECONDS or abs(jump_ms) > JUMP_MS:
            self._measure_soon()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def origin(self) -> str:
        return self._clock.origin()

    @property
    def skew_seconds(self) -> float:
        """By how much the server is ahead of this machine; negative: behind it."""
        return round(self._offset_ms - self._wall_ms) / 1000

    def measure(self) -> None:
        self._learn(self._db.once(self._ask))

    def _measure_on(self, connection: psycopg.Connection[Any]) -> None:
        self._learn(self._ask(PgTx(connection, self._db.statements)))

    def _ask(self, tx: PgTx) -> float:
        """The offset: that of the quickest answer."""
        offsets = []
        for _ in range(SAMPLES):
            theirs: float = tx.execute(_NOW).get
            offsets.append(theirs - 1000 * self._clock.monotonic())
        return max(offsets)

    def _learn(self, offset_ms: float) -> None:
        self._offset_ms = offset_ms
        self._measured = self._clock.monotonic()
        self._wall_ms = self._clock.now() - 1000 * self._measured

    def _measure_soon(self) -> None:
        if self._measuring.acquire(blocking=False):
            self._measured = self._clock.monotonic()
            self._wall_ms = self._clock.now() - 1000 * self._measured
            threading.Thread(target=self._measure_aside, name="oncue-clock", daemon=True).start()

    def _measure_aside(self) -> None:
        try:
            self.measure()
        except StoreError:
            pass  # the last measurement holds until the server answers again
        finally:
            self._measuring.release()
