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
"""Renews a lease. False: the claim was taken over."""

RETRY_SECONDS = 1.0

logger = logging.getLogger("oncue.engine")


class Kept:
    """A lease while it is kept."""

    def __init__(self, renew: Renew, lease_seconds: float, clock: Clock, since: float) -> None:
        self.next_at = since + lease_seconds / 3
        self._renew = renew
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._confirmed = since
        self._lost = self._ended = self._troubled = False
        self._lock = threading.Lock()

    @property
    def lost(self) -> bool:
        """A renewal was refused, or none was confirmed for two thirds of the lease: send nothing
        more, another dispatcher may have taken over. Judged when it is asked, by the monotonic
        clock, so that a store which does not answer cannot delay it; and for good."""
        silent = self._clock.monotonic() - self._confirmed
        if silent >= self._lease_seconds * 2 / 3:
            self._lost = True
        return self._lost

    def renew(self) -> None:
        with self._lock:
            if self._ended or self.lost:
                self.next_at = math.inf
                return
            sent = self._clock.monotonic()
            self.next_at = sent + self._lease_seconds / 3
            try:
                refused = not self._renew()
            except Exception as error:
                self.next_at = sent + min(self._lease_seconds / 3, RETRY_SECONDS)
                if not self._troubled:
                    logger.warning("a lease could not be renewed (trying again): %s", error)
                self._troubled = True
                return
            if refused or self.lost:
                self._lost = True
                self.next_at = math.inf
            else:
                self._confirmed = sent

    def end(self) -> None:
        """Returns once no renewal is under way: none may follow the settling of the claim."""
        with self._lock:
            self._ended = True


class Keeper:
    """One thread that renews any number of leases, each every third of its length. A lease
    that cannot be renewed is given up without waiting for the others: see `Kept.lost`."""

    def __init__(self, clock: Clock) -> None:
        self.loop = Loop("oncue-keeper", self.step, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: set[Kept] = set()

    @contextmanager
    def keeping(self, renew: Renew, lease_seconds: float, since: float) -> Iterator[Kept]:
        """Call `renew` every third of a lease until the block ends. It is never called after that.
        `since` is when the claim was asked for, by the monotonic clock."""
        kept = Kept(renew, lease_seconds, self._clock, since)
        try:  # from here on: what is left among the kept is renewed for ever
            with self._lock:
                self._kept.add(kept)
            wait = max(0.0, kept.next_at - self._clock.monotonic())
            self.loop.wake_for(self._clock.now() + round(wait * 1000))
            yield kept
        finally:
            with self._lock:
                self._kept.discard(kept)
            kept.end()

    def step(self) -> float | None:
        """Renew what is due for it; rest until the next one is."""
        with self._lock:
            all_kept = sorted(self._kept, key=lambda kept: kept.next_at)
        for kept in all_kept:
            if kept.next_at <= self._clock.monotonic():
                kept.renew()
        next_at = min((kept.next_at for kept in all_kept), default=math.inf)
        return None if next_at == math.inf else max(0.0, next_at - self._clock.monotonic())
