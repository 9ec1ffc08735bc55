"""The DynamoDB store, whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncue.core.job import Claimed
from oncue.core.lacks import Lack
from oncue.core.moment import Moment
from oncue.ports.claims import RangeClaim
from oncue.ports.clock import Clock
from oncue.ports.inbox import Accept
from oncue.ports.store import Awaited, Listener, StoreFacts, Traits
from oncue.stores.dynamodb import keys, schema
from oncue.stores.dynamodb.access import DynamoAccess
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.adoption import DynamoAdoption
from oncue.stores.dynamodb.events import DynamoEvents
from oncue.stores.dynamodb.inbox import TableInbox
from oncue.stores.dynamodb.known import DEFAULT_SHARDS
from oncue.stores.dynamodb.news import POLL_SECONDS
from oncue.stores.dynamodb.nodes import DynamoNodes
from oncue.stores.dynamodb.rules_transfer import DynamoRulesTransfer
from oncue.stores.dynamodb.schedules import FITS
from oncue.stores.dynamodb.skew import ServiceClock
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

    def __init__(self, table: Table, clock: Clock, *, shards: int = DEFAULT_SHARDS) -> None:
        """`shards`: of a queue that does not say how many it has."""
        super().__init__(table, clock, shards)
        self.secret = schema.open_table(table)
        self.inbox = _PunctualInbox(self)
        self.traits = Traits(
            notice_seconds=POLL_SECONDS,
            is_remote=True,
            poll_seconds=POLL_SECONDS,
            advance_fits=FITS,
            lacks=LACKS,
            groups=4,
        )

    @classmethod
    def open(cls, address: TableAddress, clock: Clock | None = None) -> DynamoStore:
        """Without a clock of the caller, time is that of the service."""
        if clock is not None:
            return cls(Table(address.table, address.connect), clock)
        theirs = ServiceClock()
        return cls(Table(address.table, lambda: theirs.listen(address.connect())), theirs)

    def claim(self, *asked: Any, **more: Any) -> list[list[Claimed]]:
        self.require_agreement()
        return super().claim(*asked, **more)

    def claim_range(self, *asked: Any, **more: Any) -> RangeClaim:
        self.require_agreement()
        return super().claim_range(*asked, **more)

    def require_agreement(self) -> None:
        """Whatever takes work calls it first: none is taken by a clock that is far off."""
        if isinstance(self.clock, ServiceClock):
            self.clock.require_agreement(lambda: self.table.get(keys.SCHEMA))

    def watch(self, listener: Listener, queues: Awaited | None = None) -> Callable[[], None]:
        return self._news.watch(listener, queues, self.look_for_news)

    def describe(self) -> StoreFacts:
        state = schema.describe(self.table)
        details = {
            "kind": "dynamodb",
            "table": self.table.name,
            "status": state["TableStatus"].lower(),
            "mode": schema.mode_of(state),
            "throttles": self.table.throttles.count,
        }
        if "StreamSpecification" in state:
            details["stream"] = state["StreamSpecification"].get("StreamViewType")
        return StoreFacts("dynamodb", details, schema=schema.SCHEMA)

    def close(self) -> None:
        self._news.close()
        self.table.close()


class _PunctualInbox(TableInbox):
    def __init__(self, store: DynamoStore) -> None:
        super().__init__(store, store)
        self._require_agreement = store.require_agreement

    def step(
        self, holder: str, now: Moment, accept: Accept, due_until: Moment | None = None
    ) -> float:
        self._require_agreement()
        return super().step(holder, now, accept, due_until)
