"""Nodes in SQLite."""

from __future__ import annotations

import json
from dataclasses import asdict

from oncue.core.moment import Moment, from_datetime
from oncue.core.nodes import NOTHING, NodeReport, lease_bounds
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import StorePart

SQL = rows.load("nodes")


def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


_node = rows.reader(NodeReport, dispatches=_names, works=_names)


class SqliteNodes(StorePart):
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

        def write(tx: rows.Tx) -> None:
            tx.execute(SQL["prune"], {"after": after, "before": before})
            tx.execute(SQL["forget" if report.running == NOTHING else "report"], params)

        self.db.write(write, synced=False)

    def nodes(self, now: Moment) -> list[NodeReport]:
        after, before = lease_bounds(now)
        with self.db.reading() as tx:
            return [
                _node(row)
                for row in rows.fetch(tx, SQL["alive"], {"after": after, "before": before})
            ]
