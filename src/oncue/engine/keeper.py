"""The keeper: renews the leases of what is being delivered."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncue.engine.loop import Loop
from oncue.ports.clock import Clock

Renew = Callable[[], bool]
"""Holds a lease longer. False: it was taken over, and there is nothing left to hold."""

RETRY_SECONDS = 1.0

logger = logging.getLogger("oncue.engine")


class Kept:
    """A lease while it is kept. `lost` once a renewal was refused."""

    def __init__(self, renew: Renew, every_seconds: float, next_at: float) -> None:
        self.lost = False
        self.next_at = next_at
        self._renew = renew
        self._every_seconds = every_seconds
        self._troubled = False
        self._lock = threading.Lock()
        self._ended = False

    def renew(self, monotonic: float) -> None:
        with self._lock:
            if self._ended:
                return
            self.next_at = monotonic + self._every_seconds
            try:
                self.lost = not self._renew()
            except Exception as error:
                self.next_at = monotonic + min(self._every_seconds, RETRY_SECONDS)
                if not self._troubled:
                    logger.warning("a lease could not be renewed (trying again): %s", error)
                self._troubled = True
            if self.lost:
                self.next_at = math.inf

    def end(self) -> None:
        """Returns once no renewal is under way: none may follow the settling of the claim."""
        with self._lock:
            self._ended = True


class Keeper:
    """One thread that renews any number of leases, each at its own pace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: set[Kept] = set()
        self._loop = Loop("oncue-keeper", self.step, clock)

    def start(self) -> None:
        self._loop.start()

    def stop(self, timeout: float | None = None) -> bool:
        return self._loop.stop(timeout)

    @contextmanager
    def keeping(self, renew: Renew, every_seconds: float) -> Iterator[Kept]:
        """Call `renew` every so often until the block ends. It is never called after that."""
        kept = Kept(renew, every_seconds, self._clock.monotonic() + every_seconds)
        with self._lock:
            self._kept.add(kept)
        self._loop.wake_for(self._clock.now() + round(every_seconds * 1000))
        try:
            yield kept
        finally:
            with self._lock:
                self._kept.discard(kept)
            kept.end()

    def step(self) -> float | None:
        """Renew what is due for it; rest until the next one is."""
        with self._lock:
            all_kept = list(self._kept)
        for kept in all_kept:
            if kept.next_at <= self._clock.monotonic():
                kept.renew(self._clock.monotonic())
        next_at = min((kept.next_at for kept in all_kept), default=math.inf)
        return None if next_at == math.inf else max(0.0, next_at - self._clock.monotonic())
