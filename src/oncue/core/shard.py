"""Shards: the parts over which a store spreads the waiting jobs of a queue, and their order."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from oncue.core.moment import Moment

MOST_SHARDS = 1000


class Turn(NamedTuple):
    """The place of a waiting job in the order of hand-over; the least goes first."""

    not_ahead: bool
    reversed_priority: int
    due_at: Moment
    id: str


def shard_of(job_id: str, shards: int) -> int:
    """The shard of a job, in a queue that has so many. It follows from the id alone, so that every
    process finds it."""
    return crc32(job_id.encode()) % shards if shards > 1 else 0
