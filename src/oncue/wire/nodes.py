"""Nodes as JSON: the processes on a store."""

from __future__ import annotations

from oncue.core import nodes as core
from oncue.wire.converting import read
from oncue.wire.formats import Answer, Time


class NodeReport(Answer):
    """A process on the store, as it said of itself."""

    id: str
    host: str
    pid: int
    version: str
    started_at: Time
    seen_at: Time
    """Its last sign of life. A process that sends none for 30 seconds is no longer listed."""
    engine: bool
    """Whether it runs the loops: dispatchers, recurrer, reclaimer, pruner."""
    dispatches: list[str]
    """The queues whose jobs it delivers to their sinks."""
    works: list[str]
    """The queues whose jobs its handlers do."""
    url: str | None
    """Where it serves HTTP; null: it does not."""

    def read(self) -> core.NodeReport:
        names = {"dispatches": tuple(self.dispatches), "works": tuple(self.works)}
        return read(core.NodeReport, self, **names)


class Nodes(Answer):
    """Oldest first."""

    items: list[NodeReport]
    next_cursor: None = None
