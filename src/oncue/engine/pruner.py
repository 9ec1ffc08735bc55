"""The pruner: finished jobs past their queue's retention → gone."""

from __future__ import annotations

from oncue.ports.clock import Clock
from oncue.ports.queues import QueueStore
from oncue.telemetry import Telemetry

CHUNK = 2000
REST_BETWEEN_CHUNKS_SECONDS = 0.05  # bulk work never starves dispatch
REST_SECONDS = 60.0


class Pruner:
    def __init__(self, store: QueueStore, clock: Clock, telemetry: Telemetry | None = None) -> None:
        self._store = store
        self._clock = clock
        self._telemetry = telemetry or Telemetry(clock)

    def step(self) -> float:
        """Remove one chunk from each queue; rest briefly while any chunk was full."""
        full = False
        for queue in self._store.queues():
            now = self._clock.now()
            kept = queue.retention_seconds
            # Also where history is kept for ever: what is only remembered is forgotten in time.
            finished_before = 0 if kept is None else now - round(kept * 1000)
            touched = self._store.prune(queue.name, finished_before, now, CHUNK)
            self._telemetry.pruned(touched)
            full = full or touched >= CHUNK
        return REST_BETWEEN_CHUNKS_SECONDS if full else REST_SECONDS
