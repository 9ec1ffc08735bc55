"""The batch that a worker runs: jobs of one queue that were claimed together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TypeVar

from oncue.core.job import Claimed
from oncue.ports.clock import Clock
from oncue.worker.handlers import Handler
from oncue.worker.job import TRUSTED, HandledJob
from oncue.worker.results import Results
from oncue.worker.source import ClaimedBatch, ClaimEnd, ClaimSource

T = TypeVar("T")


class RunningBatch:
    """The runner takes from the left of `pending` and puts how it ended into `done`; the heartbeats
    may take both away, to hand back and to settle. A thread that writes about the batch holds
    `settling`, so that no heartbeat follows a settlement."""

    def __init__(
        self,
        claimed: ClaimedBatch,
        handler: Handler,
        source: ClaimSource,
        results: Results,
        clock: Clock,
    ) -> None:
        self.queue, claims, self.began, self.taken = claimed
        self.handler = handler
        self.source = source
        self.results = results
        self.clock = clock
        keep_until = self.began + self.queue.lease_seconds * TRUSTED
        self.pending = deque([HandledJob(claim, self, keep_until) for claim in claims])
        self.largest = max(map(len, map(attrgetter("payload"), claims)))
        self.running: list[HandledJob] = []
        self.done: deque[ClaimEnd] = deque()
        self.completed: Sequence[Claimed] = ()
        """All jobs of a batch handler that were completed without results."""
        self.settling = threading.Lock()
        self.acknowledged = self.began
        """When the last confirmed heartbeat was sent, by the monotonic clock."""

    def hand_back(self, jobs: Iterable[HandledJob]) -> None:
        """Note that these were not begun, or not finished, and may be done by another worker. What
        a transaction is about to complete is left to it."""
        left = (job for job in jobs if not job.is_over and job.completion is None)
        self.done.extend(ClaimEnd(job.claim, "release") for job in left)

    def settle(self) -> None:
        """Write down how the jobs ended, as far as they have."""
        with self.settling:
            ends, completed = take_all(self.done), self.completed
            self.completed = ()
            self.results.insist(lambda: self.source.settle(self.queue, ends))
            if completed:
                self.results.insist(lambda: self.source.complete_all(self.queue, completed))


def take_all(waiting: deque[T]) -> list[T]:
    """Empty a deque that others take from as well."""
    taken: list[T] = []
    with suppress(IndexError):
        while True:
            taken.append(waiting.popleft())
    return taken
