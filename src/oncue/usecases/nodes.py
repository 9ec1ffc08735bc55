"""Nodes: which processes are at work on the store."""

from __future__ import annotations

from oncue.core.nodes import NodeReport
from oncue.usecases.local import Local


class LocalNodes(Local):
    def nodes(self) -> list[NodeReport]:
        """The processes that run loops, workers or a server on this store, the oldest first; also
        of other machines. One that was killed is listed for up to 30 seconds. Workers that work
        for a server (`Client.work`) are not known here."""
        return self.store.nodes(self.clock.now())
