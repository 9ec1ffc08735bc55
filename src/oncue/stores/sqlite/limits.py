"""What a queue lets through in SQLite: the pause, the rate, the concurrency."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.core.rate import Bucket
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.lines import hand_over_lines, open_range
from oncue.stores.sqlite.statements import load

SQL = load("queues")


class Limits(NamedTuple):
    """A queue's row as far as it bounds claims, in the order of `queues.sql: limits`."""

    paused: int = 0
    rate_per_second: float | None = None
    concurrency: int | None = None
    turns: int | None = None
    filled_at: Moment | None = None

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
        return _under_way(tx, queue, self.concurrency) >= self.concurrency


class Room(NamedTuple):
    """How many jobs of a queue may be taken now, and what taking them will cost."""

    most: int
    bucket: Bucket | None = None

    def spend(self, tx: apsw.Connection, queue: str, count: int) -> None:
        """Note that so many were taken."""
        if self.bucket is not None and count:
            left = rate.take(self.bucket, count)
            tx.execute(SQL["put_bucket"], {"name": queue, **left._asdict()})


def limits(tx: apsw.Connection, queue: str) -> Limits:
    row = rows.first(tx, SQL["limits"], {"name": queue})
    return Limits() if row is None else Limits._make(row)


def room_for(db: Database, tx: apsw.Connection, queue: str, limit: int, now: Moment) -> Room:
    """Room for at most `limit` jobs. Inside a write: whoever comes second finds what the first one
    took. One statement unless the queue is limited."""
    own = limits(tx, queue)
    if own.paused:
        return Room(0)
    if own.concurrency is None:
        db.bounded_queues.discard(queue)
    else:
        db.bounded_queues.add(queue)
        limit = min(limit, own.concurrency - _under_way(tx, queue, own.concurrency))
    if own.rate_per_second is None or not limit:
        return Room(limit)
    bucket = rate.fill(own.bucket, own.rate_per_second, now)
    if own.bucket is not None and bucket.at < own.bucket.at:
        # The clock was set back: if nothing is taken now, the new beginning has to be kept.
        tx.execute(SQL["put_bucket"], {"name": queue, **bucket._asdict()})
    return Room(min(limit, bucket.whole), bucket)


def _under_way(tx: apsw.Connection, queue: str, limit: int) -> int:
    """How many jobs of the queue are dispatched or executing, counted up to `limit`."""
    count = int(rows.first(tx, SQL["count_live"], {"queue": queue, "limit": limit})[0])
    held = open_range(tx, queue)
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
        own = {"queue": queue, "line": line, **bounds}
        count += int(rows.first(tx, SQL["count_covered_in_line"], own)[0])
    return count
