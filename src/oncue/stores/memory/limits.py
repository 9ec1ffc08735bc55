"""What a queue lets through in memory: its rate and its concurrency."""

from __future__ import annotations

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.core.rate import Limits
from oncue.stores.memory.state import Shelves


class MemoryLimits(Shelves):
    """The limits that the store knows, whatever the caller believes them to be."""

    def _limits(self, name: str) -> Limits:
        queue, bucket = self._queue(name), self._buckets.get(name)
        return Limits(queue.paused, queue.concurrency, queue.rate_per_second, bucket)

    def _room(self, name: str, limit: int, now: Moment) -> int:
        """How many jobs of the queue may be taken now, at most `limit`."""
        room = self._limits(name).room(self._under_way(name), limit, now)
        if room.bucket is not None and room.begun_again:
            self._buckets[name] = room.bucket
        return room.most

    def _spend(self, name: str, count: int, now: Moment) -> None:
        """Note that so many were taken from a queue that had room for them."""
        bound = self._queue(name).rate_per_second
        if bound is not None and count:
            bucket = rate.fill(self._buckets.get(name), bound, now)
            self._buckets[name] = rate.take(bucket, count)

    def _next_dues(self, name: str) -> list[Moment]:
        """When something of the queue can be taken, as far as can be told."""
        limits, held = self._limits(name), self._ranges.get(name)
        moments = [None if held is None else held.lease_until]
        if not limits.is_full(self._under_way(name)):
            moments += [turn.due_at for turn in self._lines[name]]
            moments += [r.not_before for r in self._put_off.values() if r.queue == name]
        return limits.next_turns(at for at in moments if at is not None)

    def _under_way(self, name: str) -> int:
        """How many jobs of the queue are dispatched or executing."""
        held = self._ranges.get(name)
        covered = 0 if held is None else sum(r.covered for r in held.records.values())
        return covered + sum(record.queue == name for record in self._taken.values())
