"""Waiting: until a moment, exactly, unless something comes earlier. All of it happens here."""

from __future__ import annotations

import math
import threading

from oncue.core.moment import LATEST, Moment
from oncue.core.polling import about
from oncue.ports.clock import Clock

# If a signal came just before a wait of the main thread, or came to another thread (as it may after
# SIGCONT), Python notices it only when that wait ends.
SIGNAL_SECONDS = 1.0
TURNED_SECONDS = 0.001  # smaller differences come from reading two clocks one after the other
LONGEST_REST_SECONDS = 30.0  # wake-ups can be lost, and wall clocks can be set


class Alarm:
    """For one sleeper and any number of wakers. Call `arm` before looking for work and `rest` after
    finding none: a wake-up in between shortens the rest, so none is lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Always taken by `with self._lock`, done in C. `with self._changed` is Python code,
        # in which Ctrl-C can leave the lock taken for ever.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._planned: Moment = LATEST
        self._ends = math.inf  # the same by the monotonic clock, as the wall clock may be set back
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def arm(self) -> None:
        """Forget the wake-ups so far: the caller is about to look for work."""
        with self._lock:
            self._planned, self._ends = LATEST, math.inf

    def wake(self) -> None:
        """End the rest now."""
        with self._lock:
            self._planned = 0
            self._changed.notify_all()

    def wake_for(self, due_at: Moment) -> None:
        """End the rest at `due_at` if it would last longer. After the wall clock was set forward, a
        rest that was planned until `due_at` would last longer, too."""
        with self._lock:
            ends = self._clock.monotonic() + self._clock.seconds_until(due_at)
            if due_at < self._planned or ends < self._ends - TURNED_SECONDS:
                self._planned = min(self._planned, due_at)
                self._ends = min(self._ends, ends)
                self._changed.notify_all()

    def stop(self) -> None:
        """End this rest and every later one at once."""
        with self._lock:
            self._stopped = True
            self._changed.notify_all()

    def rest(self, seconds: float | None, longest: float = LONGEST_REST_SECONDS) -> float:
        """Wait so long (None: until woken), but no longer than `longest` less a random part of up
        to a quarter, so that many threads do not wake at the same moment. Returns how many seconds
        too long the rest was: many, if the process or the machine stood still."""
        if seconds is not None and seconds <= 0:
            return 0.0
        seconds = min(seconds or longest, about(longest))
        now, monotonic = self._clock.now, self._clock.monotonic
        ends = monotonic() + seconds
        with self._lock:
            self._ends = min(self._ends, ends)
            self._planned = min(self._planned, now() + math.ceil(seconds * 1000 - 1e-6))
            while True:
                at = monotonic()
                left = min(self._ends - at, self._clock.seconds_until(self._planned))
                if self._stopped or left <= 0:
                    return max(0.0, at - ends)
                self._changed.wait(left)

    def pause(self, seconds: float) -> None:
        """Wait so long. Wake-ups do not shorten it, only `stop` does."""
        ends = self._clock.monotonic() + seconds
        with self._lock:
            while not self._stopped and (left := ends - self._clock.monotonic()) > 0:
                self._changed.wait(min(left, SIGNAL_SECONDS))
