"""What a worker has in hand: jobs of one queue that were claimed together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from oncue.core.queue import Queue
from oncue.worker.handlers import Handler
from oncue.worker.job import HandledJob
from oncue.worker.source import Ending

T = TypeVar("T")


class Batch:
    """The runner takes from the left of `pending` and puts how it ended into `done`; the heartbeats
    may take both away, to hand back and to settle. Whoever writes about the batch holds `settling`,
    so that no heartbeat follows a settlement."""

    __slots__ = (
        *("acknowledged", "began", "done", "handler", "largest", "pending", "queue", "running"),
        "settling",
    )

    def __init__(
        self, queue: Queue, handler: Handler, jobs: Sequence[HandledJob], now: float
    ) -> None:
        self.queue = queue
        self.handler = handler
        self.pending = deque(jobs)
        self.largest = max(len(job.claim.payload) for job in jobs)
        self.running: list[HandledJob] = []
        self.done: deque[Ending] = deque()
        self.settling = threading.Lock()
        self.began = now
        self.acknowledged = now
        """When the last confirmed heartbeat was sent, by the monotonic clock."""

    def take_pending(self) -> list[HandledJob]:
        return _take_all(self.pending)

    def take_done(self) -> list[Ending]:
        return _take_all(self.done)


def _take_all(waiting: deque[T]) -> list[T]:
    """Empty a deque that others take from as well."""
    taken: list[T] = []
    while True:
        try:
            taken.append(waiting.popleft())
        except IndexError:
            return taken
