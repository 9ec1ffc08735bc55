"""The pruner: finished jobs past their queue's retention, and events that can never matter again,
→ gone."""

from __future__ import annotations

from typing import Protocol

from oncue.core.event import Bounds
from oncue.ports.clock import Clock
from oncue.ports.events import EventStore
from oncue.ports.queues import QueueStore
from oncue.telemetry import Telemetry

CHUNK = 2000
REST_BETWEEN_CHUNKS_SECONDS = 0.05  # bulk work never starves dispatch
REST_SECONDS = 60.0


class PrunedStore(QueueStore, EventStore, Protocol):
    """What of a store grows old."""


class Pruner:
    def __init__(
        self,
        store: PrunedStore,
        clock: Clock,
        telemetry: Telemetry | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self._store = store
        self._clock = clock
        self._telemetry = telemetry or Telemetry(clock)

    def step(self) -> float:
        """Remove one chunk from each queue, and one of events; rest briefly while any was full."""
        full = False
        oldest = self._store.oldest_finished()
        for queue in self._store.queues() if oldest else ():
            now = self._clock.now()
            kept = queue.retention_seconds
            before = 0 if kept is None else now - round(kept * 1000)
            if oldest.get(queue.name, before) < before:
                removed = self._store.prune(queue.name, before, now, CHUNK)
                self._telemetry.pruned(removed)
                full = full or removed >= CHUNK
        full = self._store.forget(self._clock.now(), CHUNK) >= CHUNK or full
        full = self._store.prune_events(self._clock.now(), self.bounds, CHUNK) or full
        return REST_BETWEEN_CHUNKS_SECONDS if full else REST_SECONDS
