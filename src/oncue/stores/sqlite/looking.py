"""What comes before a claim in SQLite: a look, by reading alone, whether it could find anything;
then, in the claim, its queues are made ready.

A claim needs the write lock, which all processes share. Idle workers and dispatchers ask often and
find nothing. Without the look, a hundred of them delayed every other writer.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from oncue.core import rate
from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.limits import Room, limits, room_for
from oncue.stores.sqlite.lines import bring_back, is_waiting, open_range
from oncue.stores.sqlite.reclaims import expire_due

NO_ROOM = Room(0)


def worth_a_claim(db: Database, queues: Sequence[Queue], until: Moment, now: Moment) -> bool:
    """Whether a claim of what is due by `until` may find something to do. Inside a write nothing is
    saved by looking, nor when work is expected: then the look would only delay it."""
    expected = [db.expected.pop(queue.name, LATEST) for queue in queues]
    for queue, moment in zip(queues, expected, strict=True):
        if not moment:
            db.abroad.forget(queue.name)
    if db.writer.inside:
        return True
    if min(expected, default=LATEST) <= until:
        return True
    with db.reading() as tx:
        return any(_is_worth_it(db, tx, queue.name, until, now) for queue in queues)


def _is_worth_it(db: Database, tx: apsw.Connection, queue: str, until: Moment, now: Moment) -> bool:
    if open_range(tx, queue) is not None:
        return True  # it may have to be closed, which the claim decides
    own = limits(tx, queue)
    if own.paused:
        return False
    if own.concurrency is not None:
        db.bounded_queues.add(queue)  # before counting: what ends from now on is told
        if own.is_full(tx, queue):
            return False
    if own.rate_per_second is not None and own.bucket is not None:
        bucket = rate.fill(own.bucket, own.rate_per_second, now)
        set_back = bucket.at < own.bucket.at  # by the clock; the claim keeps the new beginning
        if not bucket.whole and not set_back:
            return False
    return is_waiting(tx, queue, until, now)


def make_ready(
    db: Database, tx: apsw.Connection, queue: str, limit: int, until: Moment, now: Moment
) -> Room:
    """Before jobs of a queue are taken that are due by `until`: room for at most `limit` of them.
    If there is room and something waits, what has expired is cancelled, and put-off jobs are in
    line again. Else nothing is changed, as if the claim had only looked."""
    if not is_waiting(tx, queue, until, now):
        return NO_ROOM
    room = room_for(db, tx, queue, limit, now)
    if room.most:
        expire_due(tx, queue, until, now)
        bring_back(tx, queue, limit, now)
    return room
