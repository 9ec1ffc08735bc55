"""Find the jobs that new ones clash with, and lock waiting jobs. Both are steps, which are the same
in transactions of the store and in those of callers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from psycopg import errors

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.record import Record
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import records
from oncue.stores.postgresql.binary import Bigints, Bodies, Texts
from oncue.stores.postgresql.locks import shard_lock
from oncue.stores.postgresql.records import FiledRow, Key, holders_of_keys, read_stored
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
    return (yield from _replace({0: (new, holder)}, now))[0]


def not_stored(jobs: Sequence[NewJob], stored: set[str]) -> dict[int, NewJob]:
    """By position. Of several with one id, the first may be stored: the others clash."""
    unmet, left = set(stored), {}
    for position, job in enumerate(jobs):
        if job.id in unmet:
            unmet.remove(job.id)
        else:
            left[position] = job
    return left


def seen_clashes(new: Mapping[int, NewJob]) -> Steps[dict[int, Clash]]:
    """The clashes of new jobs that were not stored, as far as they can be read: what may be
    replaced has to be locked before. However many they are, they are looked for together."""
    replaced = {_key(job) for job in new.values() if job.replace}
    keys = {_key(job) for job in new.values() if job.key is not None} - replaced
    holders = yield from holders_of_keys(keys)
    ids = [*(job.id for job in new.values()), *holders.values()]
    found = yield "jobs", "by_ids", records.by_ids(ids, ids)
    there = {row[0]: read_stored(row) for row in found}
    clashes: dict[int, Clash] = {}
    for position, job in new.items():
        holder = there.get(holders.get(_key(job), ""))
        if job.id in there:
            clashes[position] = same_id(job, there[job.id])
        elif holder is not None and _has_key(holder, job):
            clashes[position] = same_key(job, holder)
    return clashes


def to_replace(new: Mapping[int, NewJob], clashes: Mapping[int, Clash]) -> dict[int, NewJob]:
    """Of those whose clashes are not known yet, the ones that may replace a job and are the first
    with their key."""
    firsts: dict[Key, int] = {}
    for position, job in new.items():
        if job.key is not None and position not in clashes:
            firsts.setdefault(_key(job), position)
    return {position: new[position] for position in firsts.values() if new[position].replace}


def replacing(schema: str, new: Mapping[int, NewJob], now: Moment) -> Steps[dict[int, Clash]]:
    """Replace, together, the jobs that have the keys of these. Left out are new jobs whose key is
    free, or that of a job which others have locked."""
    holders = yield from holders_of_keys(list(map(_key, new.values())))
    if not holders:
        return {}
    ids = list(holders.values())
    locked = yield from locking(schema, ids, ids, free=True)
    found: dict[int, tuple[NewJob, FiledRow]] = {}
    for position, job in new.items():
        holder = locked.get(holders.get(_key(job), ""))
        if holder is not None and _has_key(holder, job):
            found[position] = job, holder
    return (yield from _replace(found, now))


def _replace(found: Mapping[int, tuple[NewJob, FiledRow]], now: Moment) -> Steps[dict[int, Clash]]:
    """The clashes of new jobs with the jobs that have their keys, which are locked. Those that
    still wait are replaced, if the new ones say so."""
    clashes: dict[int, Clash] = {}
    changed: list[Record] = []
    for position, (new, holder) in found.items():
        clash = same_key(new, holder)
        if clash.kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            holder.record.change(change, now)
            changed.append(holder.record)
            clash = Clash("replaced", holder.record.as_job())
        clashes[position] = clash
    if changed:
        params = {
            "ids": Texts.of([one.id for one in changed]),
            "dues": Bigints.of([one.due_at for one in changed]),
            "payloads": Bodies.of([one.payload for one in changed]),
        }
        yield "jobs", "replace", {**params, "now": now}
    return clashes


def same_id(new: NewJob, there: FiledRow) -> Clash:
    return Clash(of_same_id(new, there.record.digest), there.record.as_job())


def same_key(new: NewJob, holder: FiledRow) -> Clash:
    return Clash(of_same_key(new, holder.record.shown_state), holder.record.as_job())


def _key(new: NewJob) -> Key:
    return new.queue, new.key or ""


def _has_key(holder: FiledRow, new: NewJob) -> bool:
    """Whether the job is unfinished and has the key of a new one."""
    record = holder.record
    return record.finished_at is None and (record.queue, record.key) == (new.queue, new.key)


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
    holder_id = (yield from holders_of_keys([_key(new)])).get(_key(new))
    if holder_id is None:
        return None
    if new.replace:
        if patience_ms is not None:
            yield "locks", "patience", {"ms": str(patience_ms)}
        holder = (yield from locking(schema, [holder_id], [holder_id])).get(holder_id)
    else:
        holder = yield from _found(holder_id)
    return holder if holder is not None and _has_key(holder, new) else None


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
