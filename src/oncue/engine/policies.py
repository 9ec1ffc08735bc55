"""The settings of queues, as loops and the scheduler look them up: often."""

from __future__ import annotations

from oncue.core.queue import Queue
from oncue.ports.clock import Clock
from oncue.ports.queues import QueueStore

FRESH_SECONDS = 1.0


class Policies:
    """`policies(name)` is the queue of that name, at most a second old; an unknown one has the
    default settings. Safe to use from many threads."""

    def __init__(self, store: QueueStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read: tuple[float, dict[str, Queue]] | None = None

    def __call__(self, name: str) -> Queue:
        read = self._read
        if read is None or self._clock.monotonic() - read[0] >= FRESH_SECONDS:
            # The time is taken before reading, so that what is read is never older than it claims.
            read = (self._clock.monotonic(), {queue.name: queue for queue in self._store.queues()})
            self._read = read
        queue = read[1].get(name)
        if queue is None:
            queue = read[1][name] = Queue(name)
        return queue

    def forget(self) -> None:
        """Read again at the next look-up: settings have changed."""
        self._read = None
