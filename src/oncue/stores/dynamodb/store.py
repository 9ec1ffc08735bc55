"""The DynamoDB store, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncue.clock import SystemClock
from oncue.core.lacks import Lack
from oncue.ports.clock import Clock
from oncue.ports.store import Awaited, Listener, StoreFacts, Traits
from oncue.stores.dynamodb import schema
from oncue.stores.dynamodb.access import DynamoAccess
from oncue.stores.dynamodb.address import Address
from oncue.stores.dynamodb.adoption import DynamoAdoption
from oncue.stores.dynamodb.events import DynamoEvents
from oncue.stores.dynamodb.inbox import TableInbox
from oncue.stores.dynamodb.known import DEFAULT_SHARDS
from oncue.stores.dynamodb.news import POLL_SECONDS
from oncue.stores.dynamodb.nodes import DynamoNodes
from oncue.stores.dynamodb.rules_transfer import DynamoRulesTransfer
from oncue.stores.dynamodb.schedules import FITS
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.transfer import DynamoTransfer

LACKS: frozenset[Lack] = frozenset({"counts", "all-jobs", "all-events", "prune-counts"})


class DynamoStore(
    DynamoTransfer,
    DynamoEvents,
    DynamoRulesTransfer,
    DynamoAdoption,
    DynamoAccess,
    DynamoNodes,
):
    """Implements `oncue.ports.store.Store` on one table."""

    def __init__(
        self, table: Table, clock: Clock | None = None, *, shards: int = DEFAULT_SHARDS
    ) -> None:
        """`shards`: of a queue that does not say how many it has."""
        super().__init__(table, clock or SystemClock(), shards)
        self.secret = schema.open_table(table)
        self.inbox = TableInbox(self, self)
        self.traits = Traits(
            notice_seconds=POLL_SECONDS,
            is_remote=True,
            poll_seconds=POLL_SECONDS,
            advance_fits=FITS,
            lacks=LACKS,
            groups=4,
        )

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> DynamoStore:
        address = Address.read(url)
        return cls(Table(address.table, address.connect), clock)

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self._news.watch(listener, queues, self.look_for_news)

    def describe(self) -> StoreFacts:
        told: dict[str, Any] = schema.describe(self.table)
        details = {
            "kind": "dynamodb",
            "table": self.table.name,
            "status": told["TableStatus"].lower(),
            "mode": told.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        }
        return StoreFacts("dynamodb", details, schema=schema.SCHEMA)

    def close(self) -> None:
        self._news.close()
        self.table.close()
