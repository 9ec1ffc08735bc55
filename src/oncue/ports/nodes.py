"""The store, as far as nodes go: which processes are at work on it."""

from __future__ import annotations

from typing import Protocol

from oncue.core.moment import Moment
from oncue.core.nodes import NodeReport


class NodeStore(Protocol):
    def report_node(self, report: NodeReport) -> None:
        """Keep what a node says of itself, in place of what it said before; a node that runs
        nothing any more is forgotten. Nodes whose lease has ended (`core/nodes.py: is_alive`) are
        removed. One small write, which a power cut may undo. Listeners are not told."""

    def nodes(self, now: Moment) -> list[NodeReport]:
        """The nodes whose lease has not ended, by start then id."""
