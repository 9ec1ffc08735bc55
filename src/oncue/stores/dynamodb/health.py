"""How a table and its queues are, for `oncue doctor`. What it costs is said by each function."""

from __future__ import annotations

from typing import Any, NamedTuple

from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.stores.dynamodb import keys
from oncue.stores.dynamodb.keys import LAST, PUT_OFF
from oncue.stores.dynamodb.known import DEFAULT_SHARDS, KnownQueue
from oncue.stores.dynamodb.store import DynamoStore
from oncue.stores.dynamodb.table import Table
from oncue.stores.dynamodb.wire import query_of

SHARD_WRITES = 700
"""Write units per second that a shard should have at most; its partition takes 1,000."""
DRAINED_PER_SECOND = 1000.0 * DEFAULT_SHARDS
"""Jobs of a queue that can be delivered, at one write unit of their shard each."""
WINDOW_MS = 60_000
MOST_COUNTED = SHARD_WRITES * WINDOW_MS // 1000
"""In a shard; each job that is delivered costs its shard one unit."""


class QueueLoad(NamedTuple):
    queue: Queue
    shards: int
    due: list[int]
    """By shard, how many of its jobs are due within the next minute, those overdue included. Of
    more than `MOST_COUNTED` not all are counted."""
    oldest_due_at: Moment | None
    """Of the jobs that wait and are not put off."""

    @property
    def busiest(self) -> int:
        return max(self.due, default=0)


def loads(store: DynamoStore, now: Moment) -> list[QueueLoad]:
    """Of every queue. Costs (ranks in use + 1) × 0.5 read units for each shard, and 0.5 for every
    4 KB of the jobs that are counted."""
    found = (known for known in store._all_queues() if known.exists)
    return [_load(store, known, now) for known in found]


def _load(store: DynamoStore, known: KnownQueue, now: Moment) -> QueueLoad:
    until = keys.digits(now + WINDOW_MS)

    def look(pk: str) -> tuple[Moment | None, int]:
        heads = {rank: at for rank, at in store._head(pk).items() if rank != PUT_OFF}
        due = 0
        for rank, first in heads.items():
            if first <= now + WINDOW_MS and due <= MOST_COUNTED:
                last = f"{rank}#{until}#{LAST}"
                due += _count(store.table, pk, f"{rank}#", last, MOST_COUNTED - due)
        return min(heads.values(), default=None), due

    looked = store.table.each(look, known.lines())
    oldest = min((at for at, _ in looked if at is not None), default=None)
    return QueueLoad(known.queue, known.spreads[-1], [due for _, due in looked], oldest)


def _count(table: Table, pk: str, above: str, upto: str, most: int) -> int:
    """How many items a partition has there. When more than `most` were found, it stops."""
    asked = query_of(pk, ("pk", "sk"), above, upto) | {"Select": "COUNT"}
    found = 0
    while found <= most:
        answer = table.call("query", **asked)
        found += answer["Count"]
        if "LastEvaluatedKey" not in answer:
            break
        asked["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    return found


def time_to_live(store: DynamoStore) -> dict[str, Any]:
    """As the service describes it. Costs nothing."""
    ttl: dict[str, Any] = store.table.call("describe_time_to_live")["TimeToLiveDescription"]
    return ttl


def write_quota(store: DynamoStore) -> int:
    """The write units per second that the account allows a table. Costs nothing; the service
    answers it a few times per second only."""
    limits = store.table.call("describe_limits")
    return int(limits["TableMaxWriteCapacityUnits"])
