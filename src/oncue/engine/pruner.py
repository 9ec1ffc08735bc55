"""The pruner: finished jobs past their queue's retention, and events that can never matter again,
→ gone."""

from __future__ import annotations

from oncue.core.event import Bounds
from oncue.core.retention import retention
from oncue.engine.node import Node

CHUNK = 2000
REST_BETWEEN_CHUNKS_SECONDS = 0.05  # bulk work never starves dispatch
REST_SECONDS = 60.0


class Pruner:
    def __init__(self, node: Node) -> None:
        self.bounds = Bounds()
        self._node = node

    def step(self) -> float:
        """Remove what is old enough, a chunk of each kind; rest briefly if there may be more."""
        store, now = self._node.store, self._node.clock.now()
        pruned = store.prune(retention(store.queues(), self.bounds, now), now, CHUNK)
        self._node.telemetry.count("pruned_rows", pruned.jobs or 0)
        return REST_BETWEEN_CHUNKS_SECONDS if pruned.more else REST_SECONDS
