"""An inbox with a producer beside it, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncue.clock import FakeClock
from oncue.core.moment import Moment, parse
from oncue.core.queue import Queue
from oncue.ports.inbox import InboxBatch
from oncue.ports.sink import Refusal
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.buckets import PARTS, Buckets
from oncue.stores.dynamodb.inbox import TableInbox
from oncue.stores.dynamodb.inbox_lease import InboxLease, read_inbox_lease
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.wire import to_wire
from tests.stores.dynamo import OwnTable, client, new_table
from tests.stores.overheard import OverheardClient

START = parse("2122-01-24T11:57:12Z")  # not in the past: the emulator removes what has expired
BUCKETS = Buckets(5, 2)
MINUTE, HOUR = 60_000, 3_600_000


class InboxDesk:
    """`sent` has what was delivered, as (id, payload). Queue `out` is delivered to directly."""

    def __init__(self, buckets: Buckets = BUCKETS) -> None:
        self.clock = FakeClock(START)
        self.client = OverheardClient()
        self.store: DynamoStore = OwnTable(
            Table(new_table().name, lambda: self.client), self.clock, shards=2
        )
        self.buckets = buckets
        assert self.store.put_queue(None, Queue("out", sink="memory:x", retention_seconds=0))
        self.inbox = self.store.inbox
        self.inbox.set(buckets, self.now)
        self.sent: list[tuple[str, str]] = []
        self.answer: bool | None = True
        self.refusals: dict[str, Refusal] = {}
        self.begin_at(self.now - 10 * MINUTE)

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def begin_at(self, checkpoint: Moment) -> None:
        """As if the inbox had been read up to that moment."""
        first = self.buckets.of(checkpoint)
        for part in range(PARTS):
            lease = InboxLease(part, fence=1, checkpoint=first, swept_at=self.now)
            self.store.table.write([lease.as_item(1)])

    # The producer.

    def put(
        self, job_id: str, due_at: Moment, detail: Any = "x", *, queue: str | None = "out",
        shard: bool = True, **more: Any,
    ) -> dict[str, Any]:  # fmt: skip
        pk, sk = (self.buckets if shard else Buckets(shards=0)).place(due_at, job_id)
        item = {"pk": pk, "sk": sk, "detail": detail, **more}
        if queue is not None:
            item["queue"] = queue
        self.put_item(item)
        return item

    def put_item(self, item: Mapping[str, Any]) -> None:
        client().put_item(TableName=self.store.table.name, Item=to_wire(item))

    def remove_item(self, item: Mapping[str, Any]) -> None:
        key = to_wire({"pk": item["pk"], "sk": item["sk"]})
        client().delete_item(TableName=self.store.table.name, Key=key)

    # The reader.

    def accept(self, batch: InboxBatch) -> bool | None:
        if batch.queue != "out":
            return None
        if not self.answer:
            return self.answer
        self.sent += [(one.id, one.payload.decode()) for one in batch.deliveries]
        refused = {
            at: self.refusals[one.id]
            for at, one in enumerate(batch.deliveries)
            if one.id in self.refusals
        }
        assert batch.settle(refused, self.now)
        return True

    def step(self, inbox: TableInbox | None = None, holder: str = "a") -> float:
        return (inbox or self.inbox).step(holder, self.now, self.accept)

    def work_off(self, inbox: TableInbox | None = None, holder: str = "a") -> None:
        """Make steps until nothing is to be done at the moment."""
        while self.step(inbox, holder) == 0.0:
            continue

    def go_on(self, milliseconds: int, every: int = 10_000) -> None:
        """Let time pass, with steps."""
        end = self.now + milliseconds
        while self.now < end:
            self.clock.advance(min(every, end - self.now) / 1000)
            self.work_off()

    def left(self) -> list[str]:
        """The second keys of all foreign items."""
        items, _ = self.store.table.scan(None, 10_000)
        return sorted(item["sk"] for item in items if item["pk"].startswith("j#"))

    def leases(self) -> list[InboxLease]:
        found = self.store.table.read(keys.inbox_lease(part) for part in range(PARTS))
        used = range(min(PARTS, self.buckets.shards + 1))
        return [read_inbox_lease(part, found.get(keys.inbox_lease(part))) for part in used]

    def another(self) -> TableInbox:
        """The inbox as another process has it."""
        table = Table(self.store.table.name, lambda: self.client)
        return DynamoStore(table, self.clock, shards=2).inbox
