"""What comes before jobs of a queue are taken in SQLite."""

from __future__ import annotations

import apsw

from oncue.core.moment import Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.lines import bring_back
from oncue.stores.sqlite.reclaims import expire_due
from oncue.stores.sqlite.statements import load

SQL = load("ranges")


def clear_the_way(
    tx: apsw.Connection, queue: str, limit: int, now: Moment, dispatcher: str | None = None
) -> None:
    """Close a range whose lease has ended, or that an earlier life of `dispatcher` left open;
    cancel due jobs that have expired; give put-off jobs their place in line again. Usually there is
    nothing to do, and one statement tells so."""
    own = {"queue": queue, "now": now, "dispatcher": dispatcher}
    lapsed, expired, returning = rows.first(tx, SQL["to_clear"], own)
    if lapsed:
        tx.execute(SQL["take_over"], own)
    if expired:
        expire_due(tx, queue, now)
    if returning:
        bring_back(tx, queue, limit, now)
