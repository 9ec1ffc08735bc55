"""What a queue lets through in memory: its rate and its concurrency."""

from __future__ import annotations

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.stores.memory.shelves import Shelves


class MemoryLimits(Shelves):
    """The limits that the store knows, whatever the caller believes them to be."""

    def _room(self, name: str, limit: int, now: Moment) -> int:
        """How many jobs of the queue may be taken now, at most `limit`."""
        queue = self._queue(name)
        if queue.paused:
            return 0
        if queue.concurrency is not None:
            limit = min(limit, max(0, queue.concurrency - self._under_way(name)))
        if queue.rate_per_second is not None and limit:
            kept = self._buckets.get(name)
            bucket = rate.fill(kept, queue.rate_per_second, now)
            if rate.has_begun_again(kept, bucket):
                self._buckets[name] = bucket
            limit = min(limit, bucket.whole)
        return limit

    def _spend(self, name: str, count: int, now: Moment) -> None:
        """Note that so many were taken from a queue that had room for them."""
        bound = self._queue(name).rate_per_second
        if bound is not None and count:
            bucket = rate.fill(self._buckets.get(name), bound, now)
            self._buckets[name] = rate.take(bucket, count)

    def _next_dues(self, name: str) -> list[Moment]:
        """When something of the queue can be taken, as far as can be told."""
        queue = self._queue(name)
        if queue.paused:
            return []
        full = queue.concurrency is not None and self._under_way(name) >= queue.concurrency
        held = self._ranges.get(name)
        moments = [None if held is None else held.lease_until]
        if not full:
            moments.append(self._lines[name].next_due())
            moments += [r.not_before for r in self._put_off.values() if r.queue == name]
        bucket, turn_at = self._buckets.get(name), 0
        if queue.rate_per_second is not None and bucket is not None:
            turn_at = rate.ready_at(bucket, queue.rate_per_second)
        return [max(at, turn_at) for at in moments if at is not None]

    def _under_way(self, name: str) -> int:
        """How many jobs of the queue are dispatched or executing."""
        held = self._ranges.get(name)
        covered = 0 if held is None else sum(r.covered for r in held.records.values())
        return covered + sum(record.queue == name for record in self._taken.values())
