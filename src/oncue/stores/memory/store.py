"""The memory store, whole: one lock, plain dictionaries, nothing survives the process."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from oncue.clock import SystemClock
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, StoreFacts, Traits
from oncue.stores.memory.access import MemoryAccess
from oncue.stores.memory.jobs import MemoryJobs
from oncue.stores.memory.nodes import MemoryNodes
from oncue.stores.memory.queues import MemoryQueues
from oncue.stores.memory.ranges import MemoryRanges
from oncue.stores.memory.transfer import MemoryTransfer


class MemoryStore(
    MemoryJobs, MemoryRanges, MemoryTransfer, MemoryQueues, MemoryAccess, MemoryNodes
):
    """Implements `oncue.ports.store.Store` for one process: for tests, for a first try, and as the
    definition of the port. If another store answers differently, that store is wrong."""

    def __init__(self, clock: Clock | None = None, *, shards: int = 1) -> None:
        """`shards`: of a queue that does not say how many it has."""
        super().__init__()
        self._shards = shards
        self.clock = clock or SystemClock()
        self.secret = secrets.token_bytes(32)
        self.traits = Traits()

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        with self._lock:
            self._listeners.append(listener)

        def stop() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return stop

    def describe(self) -> StoreFacts:
        durability = "none: everything ends with the process"
        return StoreFacts("memory", {"kind": "memory", "durability": durability})

    def close(self) -> None:
        """Nothing to give back."""
