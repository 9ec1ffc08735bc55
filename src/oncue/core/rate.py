"""How fast jobs of a queue may be handed over: the token bucket, in whole numbers. Its tokens are
called turns, because a token is something else here.

A bucket gains `rate` turns a second and holds a tenth of a second's worth, at least one. Each
hand-over takes a turn. So any window of T seconds sees at most rate × T + max(1, rate / 10)
hand-overs. Every division rounds against the taker, so that many small steps add up to no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oncue.core.moment import LATEST, Moment

TURN = 1_000_000_000  # what a turn counts, so that fractions of one are whole numbers
BURSTS_PER_SECOND = 10  # a full bucket is a tenth of a second's worth
# Callers read the clock before they come to the store, and overtake each other. What is older than
# this tells of a clock that was set back.
OVERTAKING_MS = 1000


class Bucket(NamedTuple):
    turns: int
    """In units of which `TURN` make one."""
    at: Moment
    """Up to when gains have been counted."""

    @property
    def whole(self) -> int:
        """How many may be taken."""
        return self.turns // TURN


class Room(NamedTuple):
    """How many jobs of a queue may be taken."""

    most: int
    bucket: Bucket | None = None
    """From which turns are taken, if the queue has a rate."""
    begun_again: bool = False
    """`fill` found that the clock was set back. Then the bucket has to be kept even if nothing is
    taken: otherwise it would begin again each time, and never gain a turn."""


class Limits(NamedTuple):
    """What a queue lets through: its settings, and the bucket of its rate as it was kept."""

    paused: bool = False
    concurrency: int | None = None
    rate_per_second: float | None = None
    bucket: Bucket | None = None

    def room(self, under_way: int, limit: int, now: Moment) -> Room:
        """Room for at most `limit` jobs while so many are dispatched or executing."""
        if self.paused:
            return Room(0)
        if self.concurrency is not None:
            limit = min(limit, max(0, self.concurrency - under_way))
        if self.rate_per_second is None or not limit:
            return Room(limit)
        filled = fill(self.bucket, self.rate_per_second, now)
        most = min(limit, filled.whole)
        return Room(most, filled, self.bucket is not None and filled.at < self.bucket.at)

    def is_full(self, under_way: int) -> bool:
        """Whether as many jobs are under way as may be."""
        return self.concurrency is not None and under_way >= self.concurrency

    def next_turns(self, dues: Iterable[Moment]) -> list[Moment]:
        """When jobs that can be taken at these moments may be taken: not before the next turn."""
        if self.paused:
            return []
        turn_at = 0
        if self.rate_per_second is not None and self.bucket is not None:
            turn_at = ready_at(self.bucket, self.rate_per_second)
        return [max(due, turn_at) for due in dues]


def fill(bucket: Bucket | None, rate: float, now: Moment) -> Bucket:
    """The bucket with all that it gained by now; None: it was never used, and is full.

    A `now` that was overtaken gains nothing. One that lies further back means that the clock was
    set back: the bucket begins again there, empty.
    """
    room = capacity(rate)
    if bucket is None:
        return Bucket(room, now)
    bucket = begun_again(bucket, now)
    elapsed = now - bucket.at
    if elapsed <= 0:
        return Bucket(min(room, bucket.turns), bucket.at)
    per_ms, divisor = _gain(rate)
    return Bucket(min(room, bucket.turns + elapsed * per_ms // divisor), now)


def begun_again(bucket: Bucket, now: Moment) -> Bucket:
    """The bucket, or an empty one from now on if it is from before the clock was set back."""
    return Bucket(0, now) if bucket.at > now + OVERTAKING_MS else bucket


def take(bucket: Bucket, count: int) -> Bucket:
    """The bucket after that many were taken; at most `bucket.whole`."""
    return bucket._replace(turns=bucket.turns - count * TURN)


def ready_at(bucket: Bucket, rate: float) -> Moment:
    """The first moment at which one may be taken."""
    missing = TURN - bucket.turns
    if missing <= 0:
        return bucket.at
    per_ms, divisor = _gain(rate)
    return min(LATEST, bucket.at - (-missing * divisor // per_ms))


def capacity(rate: float) -> int:
    """What a full bucket holds."""
    numerator, denominator = rate.as_integer_ratio()
    return max(TURN, TURN * numerator // (BURSTS_PER_SECOND * denominator))


def _gain(rate: float) -> tuple[int, int]:
    """What a bucket gains in a millisecond, as a fraction: floats would round up at times."""
    numerator, denominator = rate.as_integer_ratio()
    return TURN * numerator, 1000 * denominator
