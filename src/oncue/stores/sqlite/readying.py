"""What comes before jobs of a queue are taken in SQLite."""

from __future__ import annotations

from typing import NamedTuple

import apsw

from oncue.core.moment import Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.database import Database
from oncue.stores.sqlite.limits import Room, limits, room_for
from oncue.stores.sqlite.lines import bring_back, due_lines, waiting_dues
from oncue.stores.sqlite.reclaims import expire_due
from oncue.stores.sqlite.statements import load

SQL = load("ranges")


class Ready(NamedTuple):
    """What may be taken from a queue now."""

    room: Room
    lines: list[int]
    """Those in which something is due."""


def make_ready(
    db: Database, tx: apsw.Connection, queue: str, limit: int, until: Moment, now: Moment
) -> Ready:
    """Before jobs of a queue are taken that are due by `until`: room for at most `limit` of them. A
    range whose lease has ended is closed. If there is room and something waits, what has expired is
    cancelled, and put-off jobs are in line again. Else nothing is changed, as if the claim had only
    looked. Usually there is nothing to change, and one statement tells so."""
    params = {"queue": queue, "until": until, "now": now, "dispatcher": None}
    lapsed, expired, returning = rows.first(tx, SQL["to_change"], params)
    if lapsed:
        tx.execute(SQL["take_over"], params)
    bounds = limits(tx, queue)
    due = due_lines(tx, queue, until)
    waiting = returning or any(at <= until for at in waiting_dues(tx, queue, due, bounds.held))
    if not waiting:
        return Ready(Room(0, held=bounds.held), [])
    room = room_for(db, tx, queue, bounds, limit, now)
    if room.most and (expired or returning):
        expire_due(tx, queue, until, now)
        bring_back(tx, queue, limit, now)
        due = due_lines(tx, queue, until)
    return Ready(room, [line for line, _ in due])
