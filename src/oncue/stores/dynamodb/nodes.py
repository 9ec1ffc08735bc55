"""Nodes in DynamoDB: an item for each, which TTL removes if nobody else does."""

from __future__ import annotations

import msgspec

from oncue.core.moment import Moment, from_datetime
from oncue.core.nodes import LEASE_MS, NOTHING, NodeReport, is_alive
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.codec import from_text, reader, to_text
from oncue.stores.dynamodb.filing import Filing
from oncue.stores.dynamodb.writes import Item, Remove, as_ttl, has

_read = reader(NodeReport)


class DynamoNodes(Filing):
    """Implements `oncue.ports.nodes.NodeStore`."""

    def report_node(self, report: NodeReport) -> None:
        now, key = from_datetime(report.seen_at), keys.node(report.id)
        if report.running == NOTHING:
            self.table.remove(key)
        else:
            ttl = as_ttl(now + LEASE_MS)
            rec = to_text(msgspec.to_builtins(report))
            self.table.write([{**key._asdict(), "seen": now, "rec": rec, "ttl": ttl}])
        self.table.write_each(
            [
                Remove(keys.node(item["sk"]), has("seen", item["seen"]))
                for item in self._node_items()
                if not is_alive(_node(item), now)
            ]
        )

    def nodes(self, now: Moment) -> list[NodeReport]:
        alive = [node for node in map(_node, self._node_items()) if is_alive(node, now)]
        return sorted(alive, key=lambda node: (node.started_at, node.id))

    def _node_items(self) -> list[Item]:
        return list(self.table.query(keys.NODES))


def _node(item: Item) -> NodeReport:
    return _read(from_text(item["rec"]))
