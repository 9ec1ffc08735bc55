"""Pages of jobs in PostgreSQL, in the order of due time and id, merged from the indexes.

First only due times and ids are read: waiting jobs are in one order for each queue, shard and rank,
taken ones for each queue, finished ones for each queue and state. Then the jobs of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oncue.core.cursor import Cursor, cursor_at, place_at
from oncue.core.job import Job, JobFilter, JobPage
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.stores.postgresql.database import PgPart
from oncue.stores.postgresql.records import read_stored
from oncue.stores.postgresql.shards import LAST_TEXT
from oncue.stores.postgresql.tx import PgTx
from oncue.stores.relational.rows import BATCH_BYTES

LOOK = 1000  # jobs looked at for a page, if the index does not tell which of them are wanted

DuePlace = tuple[Moment, str]
"""Due time and id; at the beginning of a moment the id is empty."""


class PgListing(PgPart):
    """Implements `oncue.ports.jobs.JobStore.page`."""

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        start: DuePlace = (-1, "")
        if after is not None:
            due_at, job_id = place_at(after, (int, str))
            start = (int(due_at), str(job_id))
        if wanted.due_after is not None:
            start = max(start, (wanted.due_after, ""))
        look = limit if _is_told_by_index(wanted) else max(limit, LOOK)
        with self.db.reading() as tx:
            places = _places(tx, wanted, start, look + 1)
            seen = places[:look]
            jobs, total = _jobs(tx, wanted, [job_id for _, job_id in seen], limit)
        if total > len(jobs):
            return JobPage([job for job, _ in jobs], cursor_at(jobs[-1][1]))
        end = cursor_at(seen[-1]) if len(places) > look else None
        return JobPage([job for job, _ in jobs], end)


def _is_told_by_index(wanted: JobFilter) -> bool:
    """Whether every job of the parts that are read is wanted."""
    if wanted.owner is not None:
        return replace(wanted, owner=None, due_after=None, due_before=None) == JobFilter()
    if wanted.key is not None:
        return wanted.queue is None and wanted.state is None
    return wanted.state not in LIVE


def _places(tx: PgTx, wanted: JobFilter, start: DuePlace, limit: int) -> list[DuePlace]:
    """The first places after `start` of jobs that may be wanted."""
    params: dict[str, Any] = {
        "first_queue": wanted.queue or "",
        "last_queue": wanted.queue or LAST_TEXT,
        "owner": wanted.owner,
        "key": wanted.key,
        "state": wanted.state and wanted.state.value,
        "uncovered": wanted.state is State.SCHEDULED,
        "due_at": start[0],
        "id": start[1],
        "until": LATEST if wanted.due_before is None else wanted.due_before - 1,
        "limit": limit,
    }
    found = tx.together(*(("listing", part, params) for part in _parts(wanted)))
    return sorted((due_at, job_id) for rows in found for due_at, job_id in rows)[:limit]


def _parts(wanted: JobFilter) -> list[str]:
    """The statements that find the places of all jobs that may be wanted."""
    if wanted.owner is not None:
        return ["owned"]
    if wanted.key is not None:
        return ["keyed"]
    state = wanted.state
    parts: list[str] = []
    if state in (None, State.SCHEDULED):
        parts += ["waiting", "put_off"]
    if state is State.DISPATCHED:
        parts.append("covered")
    if state is None or state in LIVE:
        parts.append("taken")
    if state is None or state in FINAL:
        parts.append("final")
    return parts


def _jobs(
    tx: PgTx, wanted: JobFilter, job_ids: Sequence[str], limit: int
) -> tuple[list[tuple[Job, DuePlace]], int]:
    """Those of these jobs that are wanted, with their places, as many as fit in a page; and how
    many there are."""
    params = {
        "ids": list(job_ids),
        "queue": wanted.queue,
        "key": wanted.key,
        "state": wanted.state and wanted.state.value,
        "limit": limit,
        "room": BATCH_BYTES,
    }
    found = tx.rows("listing", "rows", params) if job_ids else []
    jobs: list[tuple[Job, DuePlace]] = []
    for *row, _ in found:
        record = read_stored(row).record
        jobs.append((record.as_job(), (record.due_at, record.id)))
    return jobs, found[0][-1] if found else 0
