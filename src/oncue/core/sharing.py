"""Due jobs, shared out among workers that ask for them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from oncue.core.job import Claimed
from oncue.core.queue import Queue

T = TypeVar("T")

First = Callable[[int, bool], Sequence[T]]
"""`first(limit, reclaimed)`: the first jobs that can be taken, reclaimed work or what else waits.
It answers with each job only once."""


class Taker(NamedTuple):
    """A worker that asks for due jobs."""

    worker: str
    limit: int
    """How many at most."""
    lease_seconds: float | None = None
    """None: as the queue of each job says."""
    reclaimed_limit: int = 1
    """How many of reclaimed work at most."""
    is_near: bool = False
    """Whether it runs where the file of the store is, if that is a file: a power cut ends it as
    well, so its claim need not survive one."""
    together: bool = False
    """Whether it settles all its jobs by one call, as a rule: then a store may claim many of them
    by one record."""

    def lease_ms(self, queue: Queue) -> int:
        """The length of the lease that it gets on a job of this queue."""
        seconds = queue.lease_seconds if self.lease_seconds is None else self.lease_seconds
        return round(seconds * 1000)


def share_out(takers: Sequence[Taker], first: First[T]) -> list[Sequence[T]]:
    """The share of each taker, in order: each as if those before it had asked just before.

    Reclaimed work may have killed its worker, so it is not taken in bulk: a taker that gets
    some gets no more of it than its `reclaimed_limit`, and nothing else."""
    sizes = [min(taker.limit, taker.reclaimed_limit) for taker in takers]
    shares = _deal(sizes, first(sum(sizes), True))
    rest = [place for place, share in enumerate(shares) if not share]
    sizes = [takers[place].limit for place in rest]
    if sizes:
        for place, share in zip(rest, _deal(sizes, first(sum(sizes), False)), strict=True):
            shares[place] = share
    return shares


def in_order(claims: Iterable[Claimed], queues: Sequence[Queue]) -> list[Claimed]:
    """Jobs of one taker in the order in which they are handed over."""
    places: dict[str, int] = {}
    for queue in queues:  # a queue may be named twice
        places.setdefault(queue.name, len(places))
    return sorted(
        claims, key=lambda one: (places.get(one.queue, 0), -one.priority, one.due_at, one.id)
    )


def _deal(sizes: Sequence[int], jobs: Sequence[T]) -> list[Sequence[T]]:
    ends = accumulate(sizes)
    return [jobs[end - size : end] for size, end in zip(sizes, ends, strict=True)]
