"""Jobs that a bulk verb applies to, found in PostgreSQL by reading alone.

The indexes are walked one after the other, each in its own order, whatever the number of queues.
Lines of which nothing can be wanted are leapt over, and so are due times outside the window.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.cursor import Cursor, Place, cursor_at
from oncue.core.job import JobFilter
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST
from oncue.ports.bulk import BulkFound
from oncue.stores.postgresql.database import PgPart
from oncue.stores.postgresql.shards import LAST_TEXT
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.walks import left_of

LOOK = 1000  # entries looked at for a page, unless a longer one is wanted: a few ms
FIRST = 16  # of these, by the first statement at least
RANKS = range(20)
_PRIORITIES = {rank: 9 - rank % 10 for rank in RANKS}


class PgWalk(NamedTuple):
    """A walk over one index. The last two of a place are due time and id, the others its line."""

    name: str
    """In cursors."""
    statement: str
    before_all: Place
    last_queue: str = LAST_TEXT
    ranks: tuple[int, ...] = tuple(RANKS)
    """Of the lines that are wanted."""
    but_queue: str = ""
    """Of lines that are not wanted."""


class PgBulk(PgPart):
    """Implements `oncue.ports.bulk.BulkStore`."""

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        walks, start = left_of(_walks(change, wanted), after)
        params = _params(change, wanted)
        ids: list[str] = []
        room = max(limit, LOOK)
        with self.db.reading() as tx:
            for walk in walks:
                place: Place | None = start or walk.before_all
                start, most = None, max(limit - len(ids), FIRST)
                while place is not None:
                    if room <= 0 or len(ids) >= limit:
                        return BulkFound(ids, cursor_at((walk.name, *place)))
                    bounds = {"limit": min(room, most), "wanted": limit - len(ids)}
                    found, looked, place = _step(tx, walk, params | bounds, place)
                    ids += found
                    room, most = room - looked, room
        return BulkFound(ids, None)


def _step(
    tx: PgTx, walk: PgWalk, params: dict[str, Any], place: Place
) -> tuple[list[str], int, Place | None]:
    """Walk on from a place by one statement: what was found (up to `wanted`), how many entries were
    looked at (up to `limit`), and where to go on; None: that was the end."""
    *line, due_at, job_id = place
    low = max((due_at, job_id), (params["start"], ""))
    places = {f"p{number}": one for number, one in enumerate(line)}
    bounds = {
        "low_due": low[0],
        "low_id": low[1],
        "last_queue": walk.last_queue,
        "ranks": list(walk.ranks),
        "but_queue": walk.but_queue,
    }
    ids: list[str] = []
    found = tx.rows("bulk", walk.statement, {**params, **places, **bounds})
    for looked, entry in enumerate(found, 1):
        *line, due_at, job_id, applies = entry
        if applies:
            ids.append(job_id)
            if len(ids) == params["wanted"]:
                return ids, looked, (*line, due_at, job_id)
    if len(found) < params["limit"]:
        return ids, len(found), None
    at_end = job_id is None  # nothing of that line is wanted
    return ids, len(found), (*line, LATEST + 1, "") if at_end else (*line, due_at, job_id)


def _walks(change: BulkChange, wanted: JobFilter) -> list[PgWalk]:
    """The walks that together see everything that can be wanted."""
    if wanted.owner is not None:
        return [PgWalk("owned", "find_owned", (-1, ""))]
    if wanted.key is not None:
        return [PgWalk("keyed", "find_keyed", (-1, ""))]
    states = change.states if wanted.state is None else change.states & {wanted.state}
    first, last = wanted.queue or "", wanted.queue or LAST_TEXT
    walks: list[PgWalk] = []
    if State.SCHEDULED in states:
        walks += _waiting(change, PgWalk("waiting", "find_waiting", (first, -1, -1, -1, ""), last))
    if states & LIVE:
        walks.append(PgWalk("taken", "find_taken", (first, -1, ""), last))
    if states & FINAL:
        walks.append(PgWalk("ended", "find_ended", (first, "", -1, ""), last))
    return walks


def _waiting(change: BulkChange, whole: PgWalk) -> list[PgWalk]:
    """MOVE and REPRIORITISE give jobs another place in the index. Those that are at the new place
    already are looked at first, so that no job is met again where the change has put it."""
    arrived = whole._replace(name="arrived")
    if change.verb is BulkVerb.REPRIORITISE:
        there = tuple(rank for rank in RANKS if _PRIORITIES[rank] == change.priority)
        others = tuple(rank for rank in RANKS if rank not in there)
        return [arrived._replace(ranks=there), whole._replace(ranks=others)]
    if change.verb is not BulkVerb.MOVE or change.queue is None:
        return [whole]
    first, *rest = whole.before_all
    if first not in ("", change.queue):
        return [whole]
    place = (change.queue, *rest)
    return [
        arrived._replace(before_all=place, last_queue=change.queue),
        whole._replace(but_queue=change.queue),
    ]


def _params(change: BulkChange, wanted: JobFilter) -> dict[str, Any]:
    states = change.states if wanted.state is None else change.states & {wanted.state}
    return {
        **asdict(wanted),
        **{state.value: state in change.states for state in State},
        "state": wanted.state and wanted.state.value,
        "states": [state.value for state in states],
        "begun_at": change.begun_at,
        "start": wanted.due_after or 0,
        "until": LATEST if wanted.due_before is None else wanted.due_before - 1,
    }
