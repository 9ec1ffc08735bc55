"""How long DynamoDB takes for a burst, by the limits that it publishes; nothing is measured.

A partition takes 1,000 write units in a second, and a table as many as its quota, or as a new table
begins with. Jobs that wait are spread over shards, one partition each, and removing one costs units
of writing in its shard (`hot_units`) and in all (`units`). The model goes second by second and
knows only how many jobs are left in each partition. It has no burst capacity, and no partition is
split: both would help, and nobody can count on them.

Whoever removes jobs tries no more than `pace` in a second, and where it was throttled, a tenth more
than it was allowed the last time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from math import ceil
from typing import NamedTuple

PARTITION_WRITES = 1_000
DEFAULT_QUOTA = 40_000
NEW_TABLE_WRITES = 4_000
AGAIN = 1.1
NOTHING = 0.001  # of a job; sums of fractions are not exact


class Burst(NamedTuple):
    """Jobs that fall due evenly over some seconds; 1 second: all at once."""

    title: str
    jobs: int
    shards: int
    quota: int = DEFAULT_QUOTA
    due_seconds: int = 60
    pace: float = float("inf")
    units: float = 1
    hot_units: float = 1
    partitions: int | None = None
    """So many partitions that the shards are hashed onto; None: each shard has its own."""


class Outcome(NamedTuple):
    """What became of a burst."""

    burst: Burst
    seconds: int
    throttles: int
    peak_writes: float
    """Write units in the busiest second."""
    limit: str
    """What made it last: `partitions`, `quota`, `pace`, or the jobs themselves: `due`."""
    left: tuple[float, ...]
    """Jobs that were left at the beginning of each second, and at the end."""


def shards_needed(jobs: int, seconds: int = 60, hot_units: float = 1) -> int:
    """The fewest shards whose partitions let so many jobs pass in that time."""
    return ceil(jobs * hot_units / seconds / PARTITION_WRITES)


def quota_needed(jobs: int, seconds: int = 60, units: float = 1) -> int:
    """Write units in a second, in whole thousands, as one asks for them."""
    return ceil(jobs * units / seconds / 1_000) * 1_000


def spread(shards: int, partitions: int | None) -> Counter[int]:
    """How many partitions have how many shards."""
    if partitions is None:
        return Counter({1: shards})
    homes = Counter(_hash(f"w#jobs#{shard}") % partitions for shard in range(shards))
    return Counter(homes.values())


def drain(burst: Burst) -> Outcome:
    """Play it until no job is left."""
    homes = spread(burst.shards, burst.partitions)
    groups = [_Group(burst, shards, number) for shards, number in homes.items()]
    left, limits = [float(burst.jobs)], Counter[str]()
    throttles = peak = 0.0
    while left[-1] > NOTHING:
        offered = sum(group.offer(len(left) - 1) for group in groups)
        passed = sum(group.passed for group in groups)
        share = min(1.0, burst.quota / (passed * burst.units))
        limits[_limit(groups, share)] += 1
        done = sum(group.settle(share) for group in groups)
        throttles, peak = throttles + offered - done, max(peak, done * burst.units)
        left.append(left[-1] - done)
    [(limit, _)] = limits.most_common(1)
    return Outcome(burst, len(left) - 1, round(throttles), peak, limit, tuple(left))


class _Group:
    """Partitions that have the same number of shards, and so the same number of jobs."""

    def __init__(self, burst: Burst, shards: int, number: int) -> None:
        self._number = number
        self._burst = burst
        self._jobs = burst.jobs * shards / burst.shards
        self._due = 0.0
        self._most = burst.pace * shards / burst.shards
        self._try = self._most
        self._offered = 0.0
        self._passed = 0.0
        self.is_throttled = False
        self.is_paced = False

    @property
    def passed(self) -> float:
        """Jobs that the partitions let pass in this second."""
        return self._passed * self._number

    def offer(self, second: int) -> float:
        """Jobs that somebody tries to remove in this second."""
        if second < self._burst.due_seconds:
            self._due += self._jobs / self._burst.due_seconds
        self._offered = min(self._due, self._try)
        self._passed = min(self._offered, PARTITION_WRITES / self._burst.hot_units)
        self.is_paced = self._offered == self._most < self._due
        self.is_throttled = self._passed < self._offered
        return self._offered * self._number

    def settle(self, share: float) -> float:
        """So much of what the partitions let pass is done."""
        done = self._passed * share
        self._due -= done
        if done < self._offered:
            self._try = done * AGAIN
        else:
            self._try = min(self._most, max(self._try, done) * AGAIN)
        return done * self._number


def _limit(groups: Sequence[_Group], share: float) -> str:
    if share < 1:
        return "quota"
    if any(group.is_throttled for group in groups):
        return "partitions"
    return "pace" if any(group.is_paced for group in groups) else "due"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
