"""The pruner: finished jobs past their queue's retention, and events that can never matter again,
→ gone."""

from __future__ import annotations

from oncue.core.event import Bounds
from oncue.core.retention import retention
from oncue.ports.clock import Clock
from oncue.ports.queues import QueueStore
from oncue.telemetry.counters import Telemetry

CHUNK = 2000
REST_BETWEEN_CHUNKS_SECONDS = 0.05  # bulk work never starves dispatch
REST_SECONDS = 60.0


class Pruner:
    def __init__(
        self,
        store: QueueStore,
        clock: Clock,
        telemetry: Telemetry | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.bounds = bounds or Bounds()
        self._store = store
        self._clock = clock
        self._telemetry = telemetry or Telemetry(clock)

    def step(self) -> float:
        """Remove what is old enough, a chunk of each kind; rest briefly if there may be more."""
        now = self._clock.now()
        kept = retention(self._store.queues(), self.bounds, now)
        pruned = self._store.prune(kept, now, CHUNK)
        self._telemetry.count("pruned_rows", pruned.jobs)
        return REST_BETWEEN_CHUNKS_SECONDS if pruned.more else REST_SECONDS
