"""Pages of jobs in SQLite, in the order of due time and id, merged from the indexes.

Waiting jobs are in one order for each queue and line, taken ones for each queue, finished ones for
each queue and state. However many there are, only those parts are opened whose first entry can be
on the page.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.job import Job, JobFilter, JobPage
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.stores.sqlite import rows
from oncue.stores.sqlite.lines import hand_over_lines

SQL = rows.load("jobs")
_ID, _DUE_AT = Job._fields.index("id"), Job._fields.index("due_at")
_PAYLOAD, _RESULT = Job._fields.index("payload_json"), Job._fields.index("result_json")
_PLACE = itemgetter(_DUE_AT, _ID)
STREAMS_AT_ONCE = 64  # open statements of one connection


class Position(NamedTuple):
    """A place in the order; at the beginning of a moment the id is empty."""

    due_at: Moment
    id: str


_BEFORE_ALL = Position(-1, "")


class Stream(NamedTuple):
    """A part of an index."""

    head: Position
    """Nothing in it comes earlier."""
    statement: str
    params: dict[str, Any]
    until: Moment = LATEST
    """Nothing that is due later is wanted of it."""


def page(tx: rows.Tx, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
    """See `oncue.ports.jobs.JobStore.page`."""
    start = _BEFORE_ALL
    if after is not None:
        start = Position._make(place_at(after, (int, str)))
    if wanted.due_after is not None and wanted.due_after > start.due_at:
        start = Position(wanted.due_after, "")
    until = LATEST if wanted.due_before is None else wanted.due_before - 1
    bounds = {"due_at": start.due_at, "id": start.id, "until": until, "limit": limit}
    streams = sorted(_streams(tx, wanted, bounds), key=attrgetter("head"))
    found, full = _merged(tx, streams, bounds)
    items = [job for job in map(rows.job, found) if _fits(job, wanted)]
    return JobPage(items, cursor_at(_PLACE(found[-1])) if full else None)


def _fits(job: Job, wanted: JobFilter) -> bool:
    """Whether a job is wanted, as far as its index could not tell."""
    return (
        wanted.state in (None, job.state)
        and wanted.queue in (None, job.queue)
        and wanted.key in (None, job.key)
    )


def _merged(
    tx: rows.Tx, streams: Sequence[Stream], bounds: dict[str, Any]
) -> tuple[list[Sequence[Any]], bool]:
    """The first rows of the streams, which are in the order of their heads; and whether there may
    be more. Each group of streams is read as far as those before it leave room."""
    kept: list[Sequence[Any]] = []
    full = False
    until: Moment = bounds["until"]
    for first in range(0, len(streams), STREAMS_AT_ONCE):
        group = streams[first : first + STREAMS_AT_ONCE]
        if full and group[0].head > _PLACE(kept[-1]):
            break
        opened = [
            tx.execute(SQL[one.statement], bounds | one.params | {"until": min(until, one.until)})
            for one in group
        ]
        merged = heapq.merge(kept, *opened, key=_PLACE)
        kept, full = rows.bounded(merged, bounds["limit"], _size)
        if full:
            until = kept[-1][_DUE_AT]
    return kept, full


def _size(row: Sequence[Any]) -> int:
    return len(row[_PAYLOAD]) + len(row[_RESULT] or b"")


def _streams(tx: rows.Tx, wanted: JobFilter, bounds: dict[str, Any]) -> Iterator[Stream]:
    """The streams that can hold what is wanted; of each kind no more than there is room for."""
    if wanted.owner is not None:
        yield Stream(_BEFORE_ALL, "page_owner", {"owner": wanted.owner})
        return
    if wanted.key is not None:
        yield Stream(_BEFORE_ALL, "page_key", {"key": wanted.key})
        return
    state = wanted.state
    span = {"first_queue": wanted.queue or "", "last_queue": wanted.queue or rows.AFTER_EVERY_TEXT}
    params = {**bounds, **span}
    if state in (None, State.SCHEDULED):
        for head, queue, line in rows.fetch(tx, SQL["heads_scheduled"], params):
            yield Stream(_position(head), "page_scheduled", {"queue": queue, "line": line})
    if state is State.DISPATCHED:
        yield from _covered(tx, span)
    if state is None or state in LIVE:
        for head, queue in rows.fetch(tx, SQL["heads_taken"], params):
            yield Stream(_position(head), "page_taken", {"queue": queue})
    if state is None or state in FINAL:
        for head, queue, ended in rows.fetch(tx, SQL["heads_final"], {**params, "state": state}):
            yield Stream(_position(head), "page_final", {"queue": queue, "state": ended})


def _covered(tx: rows.Tx, span: dict[str, str]) -> Iterator[Stream]:
    """Stored as scheduled, but inside an open range claim: these show as dispatched."""
    for queue, cutoff, last_line in rows.fetch(tx, SQL["open_ranges"], span):
        for line, due in hand_over_lines(tx, queue):
            if line <= last_line:
                params = {"queue": queue, "line": line}
                yield Stream(Position(due, ""), "page_scheduled", params, cutoff)


def _position(head: str) -> Position:
    return Position(int(head[:16]), head[16:])
