"""How much may be taken from a queue in SQLite by its pause, its rate and its concurrency, and in
which lines something is due.

A claim needs the write lock, which all processes share. Idle workers and dispatchers ask often and
find nothing, so a claim first looks, by reading alone, whether it could find anything. Without the
look, a hundred of them delayed every other writer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from oncue.core import rate
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue
from oncue.core.rate import Bucket, Limits, Room
from oncue.stores.sqlite import lines, rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.reclaims import expire_due

SQL = rows.load("queues")
RANGES = rows.load("ranges")


class QueueLimits(NamedTuple):
    """The bounds of claims on a queue."""

    limits: Limits = Limits()
    held: lines.OpenRange | None = None
    """The jobs that are covered already."""

    def under_way(self, tx: rows.Tx, queue: str) -> int:
        """How many jobs are dispatched or executing, counted up to the concurrency, if there is
        one."""
        most = self.limits.concurrency
        if most is None or self.limits.paused:
            return 0
        count = int(tx.execute(SQL["count_live"], {"queue": queue, "limit": most}).get)
        return count + (0 if self.held is None else self.held.in_flight)


class Ready(NamedTuple):
    """How much may be taken from a queue now, and where."""

    room: Room
    held: lines.OpenRange | None
    """The jobs that are covered already."""
    lines: Sequence[int] = ()
    """Those in which something is due."""

    def spend(self, tx: rows.Tx, queue: str, count: int) -> None:
        """Note that so many were taken."""
        if self.room.bucket is not None:
            _put_bucket(tx, queue, rate.take(self.room.bucket, count))


def limits(tx: rows.Tx, queue: str) -> QueueLimits:
    row = rows.first(tx, SQL["limits"], {"name": queue})
    if row is None:
        return QueueLimits()
    paused, rate_per_second, concurrency, turns, filled_at, *covered = row
    bucket = None if turns is None or filled_at is None else Bucket(turns, filled_at)
    held = lines.OpenRange._make(covered)
    return QueueLimits(
        Limits(bool(paused), concurrency, rate_per_second, bucket),
        None if held.cutoff is None else held,
    )


def worth_a_claim(db: Database, queues: Sequence[Queue], until: Moment, now: Moment) -> bool:
    """Whether a claim of what is due by `until` may find something to do. Nothing is saved by
    looking when work is expected: then the look would only delay it."""
    expected = [db.expected.pop(queue.name, LATEST) for queue in queues]
    for queue, moment in zip(queues, expected, strict=True):
        # A full queue that is free again may look as it did before it was full.
        if not moment or queue.concurrency is not None:
            db.watching.others.forget(queue.name)
    if min(expected, default=LATEST) <= until:
        return True
    with db.reading() as tx:
        return any(_is_worth_it(db, tx, queue.name, until, now) for queue in queues)


def _is_worth_it(db: Database, tx: rows.Tx, queue: str, until: Moment, now: Moment) -> bool:
    bounds = limits(tx, queue)
    if bounds.held is not None:
        return True  # it may have to be closed, which the claim decides
    if bounds.limits.concurrency is not None:
        db.bounded_queues.add(queue)  # before counting: what ends from now on is told
    room = bounds.limits.room(bounds.under_way(tx, queue), 1, now)
    if not room.most and not room.begun_again:
        return False
    params = {"queue": queue, "limit": 1, "until": now}
    return bool(lines.due_lines(tx, queue, until) or rows.fetch(tx, RANGES["returning"], params))


def make_ready(
    db: Database,
    tx: rows.Tx,
    queue: str,
    limit: int,
    until: Moment,
    now: Moment,
    in_flight: Collection[str] | None = None,
) -> Ready:
    """Before jobs of a queue are taken that are due by `until`: room for at most `limit` of them. A
    range whose lease has ended is closed. If there is room and something waits, what has expired is
    cancelled, and put-off jobs are in line again. Else nothing is changed, as if the claim had only
    looked. Usually there is nothing to change, and one statement tells so. `in_flight`: the
    caller holds the open range and has these jobs in flight; the others in it can be taken."""
    params = {"queue": queue, "until": until, "now": now, "dispatcher": None}
    lapsed, expired, returning = rows.first(tx, RANGES["to_change"], params)
    if lapsed and in_flight is None:
        tx.execute(RANGES["take_over"], params)
    bounds = limits(tx, queue)
    covered = bounds.held
    if in_flight is not None and covered is not None:
        bounds = bounds._replace(held=covered._replace(in_flight=len(in_flight)))
        covered = None
    due = lines.due_lines(tx, queue, until)
    if not returning and all(at > until for at in lines.waiting_dues(tx, queue, due, covered)):
        return Ready(Room(0), bounds.held)
    if bounds.limits.concurrency is None:
        db.bounded_queues.discard(queue)
    else:
        db.bounded_queues.add(queue)
    room = bounds.limits.room(bounds.under_way(tx, queue), limit, now)
    if room.bucket is not None and room.begun_again:
        _put_bucket(tx, queue, room.bucket)
    if not room.most:
        return Ready(room, bounds.held)
    if expired or returning:
        expire_due(tx, queue, until, now)
        lines.bring_back(tx, queue, limit, now, in_flight)
        due = lines.due_lines(tx, queue, until)
    return Ready(room, bounds.held, [line for line, _ in due])


def _put_bucket(tx: rows.Tx, queue: str, bucket: Bucket) -> None:
    tx.execute(SQL["put_bucket"], {"name": queue, **bucket._asdict()})
