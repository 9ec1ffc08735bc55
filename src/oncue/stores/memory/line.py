"""The line in front of one queue: its waiting jobs, in the order of hand-over."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from oncue.core.moment import Moment
from oncue.stores.memory.record import Record


class Rank(NamedTuple):
    """What comes before the due time in the order of hand-over; the least goes first."""

    behind: bool
    reversed_priority: int


def rank_of(record: Record) -> Rank:
    return Rank(not record.ahead, -record.priority)


def hand_over_key(record: Record) -> tuple[object, ...]:
    """The order of hand-over within a queue."""
    return (not record.ahead, -record.priority, record.due_at, record.id)


class Place(NamedTuple):
    due_at: Moment
    id: str


class Line:
    """A heap of places for each rank. A job that leaves, or moves, stays in its old heap as a
    place that no longer counts, and is dropped when it comes to the front."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._ranks: dict[str, tuple[Rank, Place]] = {}
        self._heaps: dict[Rank, list[Place]] = {}

    def put(self, record: Record) -> None:
        """Let a job wait at the place that its fields give it now."""
        rank = rank_of(record)
        place = Place(record.due_at, record.id)
        self._records[record.id] = record
        self._ranks[record.id] = rank, place
        heappush(self._heaps.setdefault(rank, []), place)

    def remove(self, job_id: str) -> None:
        self._records.pop(job_id, None)
        self._ranks.pop(job_id, None)

    def first_due(self, now: Moment) -> Record | None:
        """The job to hand over next."""
        for rank in sorted(self._heaps):
            front = self._front(rank)
            if front is not None and front.due_at <= now:
                return self._records[front.id]
        return None

    def next_due(self) -> Moment | None:
        fronts = [self._front(rank) for rank in self._heaps]
        return min((front.due_at for front in fronts if front is not None), default=None)

    def _front(self, rank: Rank) -> Place | None:
        heap = self._heaps[rank]
        while heap and self._ranks.get(heap[0].id) != (rank, heap[0]):
            heappop(heap)
        return heap[0] if heap else None
