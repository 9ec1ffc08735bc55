"""Nodes in memory."""

from __future__ import annotations

from oncue.core.moment import Moment, from_datetime
from oncue.core.nodes import NOTHING, NodeReport, is_alive
from oncue.stores.memory.state import MemoryState


class MemoryNodes(MemoryState):
    """Implements `oncue.ports.nodes.NodeStore`."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[str, NodeReport] = {}

    def report_node(self, report: NodeReport) -> None:
        now = from_datetime(report.seen_at)
        with self._lock:
            every = [*self._nodes.values(), report]
            self._nodes = {node.id: node for node in every if is_alive(node, now)}
            if report.running == NOTHING:
                del self._nodes[report.id]

    def nodes(self, now: Moment) -> list[NodeReport]:
        with self._lock:
            alive = [node for node in self._nodes.values() if is_alive(node, now)]
        return sorted(alive, key=lambda node: (node.started_at, node.id))
