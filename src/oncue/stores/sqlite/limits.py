"""What a queue lets through in SQLite: the pause, the rate, the concurrency."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from oncue.core import rate
from oncue.core.moment import Moment
from oncue.core.rate import Bucket, Limits
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.lines import OpenRange, hand_over_lines
from oncue.stores.sqlite.statements import load

SQL = load("queues")


class QueueLimits(NamedTuple):
    """What bounds claims on a queue."""

    limits: Limits = Limits()
    held: OpenRange | None = None
    """What is covered already."""

    def under_way(self, tx: apsw.Connection, queue: str) -> int:
        """How many jobs are dispatched or executing, as far as that matters."""
        most = self.limits.concurrency
        if most is None or self.limits.paused:
            return 0
        return _under_way(tx, queue, most, self.held)


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


def limits(tx: apsw.Connection, queue: str) -> QueueLimits:
    row = rows.first(tx, SQL["limits"], {"name": queue})
    if row is None:
        return QueueLimits()
    paused, rate_per_second, concurrency, turns, filled_at, *covered = row
    bucket = None if turns is None or filled_at is None else Bucket(turns, filled_at)
    held = OpenRange._make(covered)
    return QueueLimits(
        Limits(bool(paused), concurrency, rate_per_second, bucket),
        None if held.cutoff is None else held,
    )


def room_for(
    db: Database, tx: apsw.Connection, queue: str, bounds: QueueLimits, limit: int, now: Moment
) -> Room:
    """Room for at most `limit` jobs. Inside a write: whoever comes second finds what the first one
    took."""
    if bounds.limits.concurrency is None:
        db.bounded_queues.discard(queue)
    else:
        db.bounded_queues.add(queue)
    room = bounds.limits.room(bounds.under_way(tx, queue), limit, now)
    if room.bucket is not None and room.begun_again:
        tx.execute(SQL["put_bucket"], {"name": queue, **room.bucket._asdict()})
    return Room(room.most, room.bucket, bounds.held)


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
