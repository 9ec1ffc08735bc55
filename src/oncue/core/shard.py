"""Shards: the parts over which a store spreads the waiting jobs of a queue."""

from __future__ import annotations

from zlib import crc32

MOST_SHARDS = 1000


def shard_of(job_id: str, shards: int) -> int:
    """The shard of a job, in a queue that has so many. It follows from the id alone, so that every
    process finds it."""
    return crc32(job_id.encode()) % shards if shards > 1 else 0
