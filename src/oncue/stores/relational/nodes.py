"""Nodes in a store on SQL."""

from __future__ import annotations

import json
from dataclasses import asdict

from oncue.core.moment import Moment, from_datetime
from oncue.core.nodes import NOTHING, NodeReport, lease_bounds
from oncue.stores.relational.part import RelationalPart, X
from oncue.stores.relational.rows import reader


def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


_node = reader(NodeReport, dispatches=_names, works=_names)


class RelationalNodes(RelationalPart[X]):
    """Implements `oncue.ports.nodes.NodeStore`."""

    def report_node(self, report: NodeReport) -> None:
        seen_at = from_datetime(report.seen_at)
        after, before = lease_bounds(seen_at)
        params = {
            **asdict(report),
            "started_at": from_datetime(report.started_at),
            "seen_at": seen_at,
            "dispatches": json.dumps(report.dispatches),
            "works": json.dumps(report.works),
        }

        def write(tx: X) -> None:
            tx.do("nodes", "prune", {"after": after, "before": before})
            tx.do("nodes", "forget" if report.running == NOTHING else "report", params)

        self._write(write, synced=False)

    def nodes(self, now: Moment) -> list[NodeReport]:
        after, before = lease_bounds(now)
        with self._read() as tx:
            found = tx.rows("nodes", "alive", {"after": after, "before": before})
            return [_node(row) for row in found]
