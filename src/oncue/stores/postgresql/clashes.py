"""Find the jobs that new ones clash with, and lock waiting jobs. Both are steps, which are the same
in transactions of the store and in those of callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psycopg import errors

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import records
from oncue.stores.postgresql.locks import shard_lock
from oncue.stores.postgresql.records import FiledRow, read_stored
from oncue.stores.postgresql.shards import rank_of
from oncue.stores.postgresql.tx import Asked, Steps


def clashing(
    schema: str,
    new: NewJob,
    insert: Callable[[], Asked],
    now: Moment,
    patience_ms: int | None = None,
) -> Steps[Clash | None]:
    """The clash of a new job that was not stored. None: the other job is gone meanwhile, and the
    new one is stored now. Raises `SerializationFailure` if another transaction was quicker: then
    the steps are to be repeated."""
    found = yield from _found(new.id)
    if found is not None:
        return same_id(new, found)
    holder = yield from _holder_of_key(schema, new, patience_ms)
    if holder is None:
        if (yield insert()):
            return None
        raise errors.SerializationFailure
    clash = same_key(new, holder)
    if clash.kind != "replaced":
        return clash
    change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
    holder.record.change(change, now)
    yield "jobs", "save", records.row_of(holder)
    return Clash("replaced", holder.record.as_job())


def same_id(new: NewJob, there: FiledRow) -> Clash:
    return Clash(of_same_id(new, there.record.digest), there.record.as_job())


def same_key(new: NewJob, holder: FiledRow) -> Clash:
    return Clash(of_same_key(new, holder.record.shown_state), holder.record.as_job())


def new_ranks(new: NewJob, clash: Clash | None) -> list[int]:
    """The ranks in which a job may wait from now on: the new one, or the one that it replaces."""
    if clash is None:
        return [rank_of(new.priority, ahead=False)]
    if clash.kind != "replaced":
        return []
    return [rank_of(clash.job.priority, ahead=ahead) for ahead in (False, True)]


def _found(job_id: str) -> Steps[FiledRow | None]:
    rows = yield "jobs", "by_ids", records.by_ids([job_id], [job_id])
    return read_stored(rows[0]) if rows else None


def _holder_of_key(schema: str, new: NewJob, patience_ms: int | None) -> Steps[FiledRow | None]:
    """The unfinished job that has the key of a new one. Only one that may be replaced is locked:
    an open transaction may have changed it, and dispatchers of its shard wait for the lock."""
    if new.key is None:
        return None
    rows = yield records.asked_holders([new.queue], [new.key])
    if not rows:
        return None
    [[_, _, holder_id]] = rows
    if new.replace:
        if patience_ms is not None:
            yield "locks", "patience", {"ms": str(patience_ms)}
        holder = (yield from locking(schema, [holder_id], [holder_id])).get(holder_id)
    else:
        holder = yield from _found(holder_id)
    if holder is None or holder.record.finished_at is not None:
        return None
    has_it = (holder.record.queue, holder.record.key) == (new.queue, new.key)
    return holder if has_it else None


def locking(
    schema: str, job_ids: Sequence[str], whole: Sequence[str], *, free: bool = False
) -> Steps[dict[str, FiledRow]]:
    """Lock these jobs, and read them: those in `whole` with their payloads. No range comes to cover
    one of them before the end of the transaction. With `free`, without those that others have
    locked."""
    known: set[int] = set()
    while True:
        places = yield "jobs", "places", {"ids": records.possible(job_ids)}
        missing = {shard_lock(schema, *place) for place in places} - known
        if missing:
            yield "locks", "share", {"numbers": sorted(missing)}
        lock = "lock_free_by_ids" if free else "lock_by_ids"
        found = yield "jobs", lock, records.by_ids(job_ids, whole)
        jobs = {row[0]: read_stored(row) for row in found}
        known |= missing
        now_at = {shard_lock(schema, one.record.queue, one.shard) for one in jobs.values()}
        if now_at <= known:  # else one was moved meanwhile
            return jobs
