"""How bulk verbs find jobs in SQLite: by walking whole indexes, each in its own order.

One statement and one place stand for all queues, so what a walk costs does not depend on their
number. Entries that cannot be wanted are leapt over: a due time outside the window, or a whole
group of entries that share all of the key but due time and id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import apsw

from oncue.core.bulk import BulkChange, BulkVerb, Place, not_a_cursor, read_place, told_place
from oncue.core.job import JobFilter
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST
from oncue.ports.bulk import BulkFound
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.statements import load

SQL = load("bulk")

Wanted = Callable[[Place, int | None], bool]
"""Whether anything is wanted of a group of entries, by their key and priority."""

Following = Callable[[apsw.Connection, dict[str, Any], Place], Place | None]
"""Where a walk whose statement reads one group at a time goes on after a group; None: nowhere."""


class Walk(NamedTuple):
    """A walk over one index. The last two of a key are due time and id; the others make a group."""

    name: str
    """In cursors."""
    statement: str
    before_all: Place
    wanted: Wanted = lambda key, priority: True
    following: Following = lambda tx, params, place: None

    @property
    def shape(self) -> tuple[type, ...]:
        return (str, *map(type, self.before_all))


def find_all(
    tx: apsw.Connection, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
) -> BulkFound:
    """See `oncue.ports.bulk.BulkStore.find_all`."""
    walks, start = _from(_walks(change, wanted), after)
    params = _params(change, wanted)
    ids: list[str] = []
    for walk in walks:
        place: Place | None = start or walk.before_all
        start = None
        while place is not None:
            if limit <= 0:
                return BulkFound(ids, told_place((walk.name, *place)))
            found, looked, place = _step(tx, walk, params, place, limit)
            ids += found
            limit -= looked
    return BulkFound(ids, None)


def _from(walks: list[Walk], after: str | None) -> tuple[list[Walk], Place | None]:
    """The walks that are left, and where the first of them goes on."""
    if after is None:
        return walks, None
    name, *place = read_place(after, *(walk.shape for walk in walks))
    for number, walk in enumerate(walks):
        if (walk.name, walk.shape[1:]) == (name, tuple(map(type, place))):
            return walks[number:], tuple(place)
    raise not_a_cursor()


def _walks(change: BulkChange, wanted: JobFilter) -> list[Walk]:
    """The walks that together see everything that can be wanted."""
    if wanted.owner is not None:
        return [Walk("owned", "find_owned", (-1, ""))]
    if wanted.key is not None:
        return [Walk("keyed", "find_keyed", (-1, ""))]
    states = change.states if wanted.state is None else change.states & {wanted.state}
    first = wanted.queue or ""
    walks: list[Walk] = []
    if State.SCHEDULED in states:
        walks += _waiting(change, (first, -1, -1, ""))
    if states & LIVE:
        walks.append(Walk("taken", "find_taken", (first, -1, "")))
    if ended := states & FINAL:
        start = (first, "", -1, "")
        walks.append(Walk("ended", "find_ended", start, lambda key, _: key[1] in ended))
    return walks


def _waiting(change: BulkChange, before_all: Place) -> list[Walk]:
    """MOVE and REPRIORITISE give jobs another place in the index. Those that are at the new place
    already are looked at first, so that no job is met again where the change has put it."""
    if change.verb is BulkVerb.MOVE:
        arrived: Wanted = lambda key, _: key[0] == change.queue  # noqa: E731
    elif change.verb is BulkVerb.REPRIORITISE:
        arrived = lambda _, priority: priority == change.priority  # noqa: E731
    else:
        return [Walk("waiting", "find_waiting", before_all, following=_next_line)]
    others: Wanted = lambda *entry: not arrived(*entry)  # noqa: E731
    return [
        Walk("arrived", "find_waiting", before_all, arrived, _next_line),
        Walk("waiting", "find_waiting", before_all, others, _next_line),
    ]


def _next_line(tx: apsw.Connection, params: dict[str, Any], place: Place) -> Place | None:
    """The beginning of the next queue and rank in which jobs wait."""
    queue: Any
    queue, rank, *_ = place
    while queue is not None:
        [found] = rows.first(tx, SQL["next_rank"], {"queue": queue, "rank": rank})
        if found is not None:
            return (queue, found, -1, "")
        bounds = {"queue": queue, "last_queue": params["last_queue"]}
        [queue], rank = rows.first(tx, SQL["next_queue"], bounds), -1
    return None


def _params(change: BulkChange, wanted: JobFilter) -> dict[str, Any]:
    params = asdict(wanted) | {state.value: int(state in change.states) for state in State}
    until = LATEST if wanted.due_before is None else wanted.due_before - 1
    bounds = {"last_queue": wanted.queue or rows.AFTER_EVERY_TEXT, "until": until}
    return params | bounds | {"begun_at": change.begun_at, "start": wanted.due_after or 0}


def _step(
    tx: apsw.Connection, walk: Walk, params: dict[str, Any], place: Place, room: int
) -> tuple[list[str], int, Place | None]:
    """Walk on from a place by one statement: what was found, how many entries were looked at (up to
    `room`), and where to go on; None: that was the end."""
    ids: list[str] = []
    looked = 0
    places = {f"p{number}": one for number, one in enumerate(place)}
    entries = tx.execute(SQL[walk.statement], {**params, **places, "limit": room})
    for applies, priority, *entry in entries:
        looked += 1
        place = tuple(entry)
        leap = _leap(walk, params, place, priority)
        if leap is not None:
            return ids, looked, leap
        if applies:
            ids.append(str(place[-1]))
    return ids, looked, place if looked == room else walk.following(tx, params, place)


def _leap(walk: Walk, params: dict[str, Any], key: Place, priority: int | None) -> Place | None:
    """Where to go on instead, if the entry is not wanted."""
    *group, due_at, _ = key
    if not walk.wanted(key, priority) or int(due_at) > params["until"]:
        return (*group, LATEST + 1, "")
    return (*group, params["start"], "") if int(due_at) < params["start"] else None
