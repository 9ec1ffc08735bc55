"""What a queue lets through in SQLite: the pause, the rate, the concurrency."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.core.rate import Bucket
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.lines import OpenRange, hand_over_lines
from oncue.stores.sqlite.statements import load

SQL = load("queues")


class Limits(NamedTuple):
    """What bounds claims on a queue, in the order of `queues.sql: limits`."""

    paused: int = 0
    rate_per_second: float | None = None
    concurrency: int | None = None
    turns: int | None = None
    filled_at: Moment | None = None
    held: OpenRange | None = None

    @property
    def bucket(self) -> Bucket | None:
        if self.turns is None or self.filled_at is None:
            return None
        return Bucket(self.turns, self.filled_at)

    def next_turn_at(self) -> Moment:
        """When the rate lets the next job through."""
        if self.rate_per_second is None or self.bucket is None:
            return 0
        return rate.ready_at(self.bucket, self.rate_per_second)

    def is_full(self, tx: apsw.Connection, queue: str) -> bool:
        """Whether as many jobs are under way as may be."""
        if self.concurrency is None:
            return False
        return _under_way(tx, queue, self.concurrency, self.held) >= self.concurrency


class Room(NamedTuple):
    """How many jobs of a queue may be taken now, and what taking them will cost."""

    most: int
    bucket: Bucket | None = None
    held: OpenRange | None = None
    """What is covered already."""

    def spend(self, tx: apsw.Connection, queue: str, count: int) -> None:
        """Note that so many were taken."""
        if self.bucket is not None and count:
            left = rate.take(self.bucket, count)
            tx.execute(SQL["put_bucket"], {"name": queue, **left._asdict()})


def limits(tx: apsw.Connection, queue: str) -> Limits:
    row = rows.first(tx, SQL["limits"], {"name": queue})
    if row is None:
        return Limits()
    bounds, held = row[:5], OpenRange._make(row[5:])
    return Limits._make((*bounds, None if held.cutoff is None else held))


def room_for(
    db: Database, tx: apsw.Connection, queue: str, bounds: Limits, limit: int, now: Moment
) -> Room:
    """Room for at most `limit` jobs. Inside a write: whoever comes second finds what the first one
    took."""
    if bounds.paused:
        return Room(0, held=bounds.held)
    if bounds.concurrency is None:
        db.bounded_queues.discard(queue)
    else:
        db.bounded_queues.add(queue)
        limit = min(
            limit, bounds.concurrency - _under_way(tx, queue, bounds.concurrency, bounds.held)
        )
    if bounds.rate_per_second is None or not limit:
        return Room(limit, held=bounds.held)
    bucket = rate.fill(bounds.bucket, bounds.rate_per_second, now)
    if rate.has_begun_again(bounds.bucket, bucket):
        tx.execute(SQL["put_bucket"], {"name": queue, **bucket._asdict()})
    return Room(min(limit, bucket.whole), bucket, bounds.held)


def _under_way(tx: apsw.Connection, queue: str, limit: int, held: OpenRange | None) -> int:
    """How many jobs of the queue are dispatched or executing, counted up to `limit`."""
    count = int(rows.first(tx, SQL["count_live"], {"queue": queue, "limit": limit})[0])
    if held is None:
        return count
    for line, _ in hand_over_lines(tx, queue):
        if line > held.through_line or count >= limit:
            break
        if line == held.through_line:
            last = (held.through_due, held.through_id)
        else:
            last = (held.cutoff, rows.AFTER_EVERY_TEXT)
        bounds = {"due_at": last[0], "id": last[1], "limit": limit - count}
        params = {"queue": queue, "line": line, **bounds}
        count += int(rows.first(tx, SQL["count_covered_in_line"], params)[0])
    return count
