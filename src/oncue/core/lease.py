"""The lease of a claim: how long a worker may be silent, and whether it asked for that itself.

A claim begins with a lease. If a dispatcher made the claim, hand-over to the sink ends that lease:
a worker that may not have the job yet cannot send a heartbeat. A heartbeat of the worker
that names a length begins a lease of the worker's own, which neither the dispatcher's renewals nor
the hand-over change. So it makes no difference whether the worker or the hand-over comes first.
"""

from __future__ import annotations

from typing import NamedTuple

from oncue.core.missed import is_astray, moved_lease
from oncue.core.moment import Moment
from oncue.core.queue import Queue


class Lease(NamedTuple):
    until: Moment | None
    """None: silence is not bounded."""
    length_ms: int | None = None
    """How long it was when it was given; None: not known, the claim came from another store."""
    asked: bool = False
    """Whether the worker asked for it, by a heartbeat."""

    def touched(self, touch: Touch, queue: Queue, now: Moment) -> Lease:
        """After a sign of life of a job of this queue. A dispatcher that still delivers the job
        renews only what it holds."""
        seconds = queue.lease_seconds if touch.renew else None
        if touch.lease_seconds is not None:
            seconds = touch.lease_seconds
        if seconds is None or (not touch.start and (self.asked or self.until is None)):
            return self
        length_ms = round(seconds * 1000)
        return Lease(self._not_before_given(now) + length_ms, length_ms, touch.start)

    def heard_of(self, now: Moment) -> Lease:
        """After the answer to the claim got lost, and its taker got it by asking again."""
        if self.until is None or self.length_ms is None:
            return self
        return self._replace(until=max(self.until, now + self.length_ms))

    def after_hand_over(self) -> Lease:
        """A sink took the job for a worker elsewhere."""
        return self if self.asked else NO_LEASE

    def moved(self, missed_ms: int, heard_at: Moment, now: Moment) -> Lease:
        """This lease after `missed_ms` were missed; the worker was last heard at `heard_at`."""
        if self.until is None:
            return self
        length_ms = self._length(self.until, heard_at)
        return self._replace(until=moved_lease(self.until, length_ms, missed_ms, now))

    def is_astray(self, heard_at: Moment, now: Moment) -> bool:
        """Whether it was given by a clock that has been set back since."""
        if self.until is None:
            return False
        return is_astray(self.until, self._length(self.until, heard_at), now)

    def _length(self, until: Moment, heard_at: Moment) -> int:
        return max(0, until - heard_at) if self.length_ms is None else self.length_ms

    def _not_before_given(self, now: Moment) -> Moment:
        """A caller may have read the clock before it was set forward and come to the store after
        leases were moved: its renewal must not end the lease in the past. If the clock was set back
        instead, the lease is astray, and the reclaimer shortens it."""
        if self.until is None or self.length_ms is None:
            return now
        return max(now, self.until - self.length_ms)


NO_LEASE = Lease(None)


class Touch(NamedTuple):
    """A sign of life."""

    id: str
    epoch: int
    lease_seconds: float | None = None
    """Renews the lease to now + this; None leaves it, unless `renew` is set."""
    message: str | None = None
    percent: float | None = None
    start: bool = True
    """dispatched → executing, and a lease is the worker's own from now on. False: a dispatcher that
    still delivers renews its lease; one that the worker asked for, or that hand-over has ended, is
    left as it is. Refused without a trace."""
    renew: bool = False
    """Without `lease_seconds`: renews the lease by the length that its queue gives."""


class Touched(NamedTuple):
    lease_until: Moment | None
    cancel_requested: bool
