"""What comes before a claim in SQLite: a look, by reading alone, whether it could find anything;
then, in the claim, its queues are made ready.

A claim needs the write lock, which all processes share. Idle workers and dispatchers ask often and
find nothing. Without the look, a hundred of them delayed every other writer.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from oncue.core.moment import LATEST, Moment
from oncue.core.queue import Queue
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.limits import limits
from oncue.stores.sqlite.lines import is_waiting


def worth_a_claim(db: Database, queues: Sequence[Queue], until: Moment, now: Moment) -> bool:
    """Whether a claim of what is due by `until` may find something to do. Inside a write nothing is
    saved by looking, nor when work is expected: then the look would only delay it."""
    expected = [db.expected.pop(queue.name, LATEST) for queue in queues]
    for queue, moment in zip(queues, expected, strict=True):
        # A full queue that is free again may look as it did before it was full.
        if not moment or queue.concurrency is not None:
            db.watching.abroad.forget(queue.name)
    if db.writer.inside:
        return True
    if min(expected, default=LATEST) <= until:
        return True
    with db.reading() as tx:
        return any(_is_worth_it(db, tx, queue.name, until, now) for queue in queues)


def _is_worth_it(db: Database, tx: apsw.Connection, queue: str, until: Moment, now: Moment) -> bool:
    bounds = limits(tx, queue)
    if bounds.held is not None:
        return True  # it may have to be closed, which the claim decides
    if bounds.limits.concurrency is not None:
        db.bounded_queues.add(queue)  # before counting: what ends from now on is told
    room = bounds.limits.room(bounds.under_way(tx, queue), 1, now)
    return bool(room.most or room.begun_again) and is_waiting(tx, queue, until, now)
