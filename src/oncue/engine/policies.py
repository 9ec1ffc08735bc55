"""The settings of queues, as loops and the scheduler look them up: often."""

from __future__ import annotations

import threading
from typing import NamedTuple

from oncue.core.queue import Queue, default_queue
from oncue.ports.clock import Clock
from oncue.ports.queues import QueueStore

FRESH_SECONDS = 1.0


class _Read(NamedTuple):
    at: float
    queues: dict[str, Queue]


class Policies:
    """`policies(name)` is the queue of that name, at most a second old; an unknown one is
    as `default_queue` says. Safe to use from many threads."""

    def __init__(self, store: QueueStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: _Read | None = None
        self._reading = threading.Lock()

    def __call__(self, name: str) -> Queue:
        queues = self._fresh().queues
        queue = queues.get(name)
        if queue is None:
            queue = queues[name] = default_queue(name)
        return queue

    def forget(self) -> None:
        """Read again at the next look-up: settings have changed."""
        self._read = None

    def _fresh(self) -> _Read:
        read = self._read
        if read is not None and self._clock.monotonic() - read.at < FRESH_SECONDS:
            return read
        with self._reading:  # a change wakes all dispatchers at once: one of them reads for all
            latest = self._read
            if latest is None or latest is read:
                # The time is taken before, so that what is read is never older than it claims.
                at = self._clock.monotonic()
                queues = {queue.name: queue for queue in self._store.queues()}
                self._read = latest = _Read(at, queues)
            return latest
