"""Bulk verbs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest

from oncue.core.bulk import BulkChange, BulkVerb, read_place, told_place
from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, Verb
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkDone, BulkFound
from oncue.ports.jobs import Amendment
from oncue.stores.memory.jobs import MemoryJobs, matches, position_of
from oncue.stores.memory.record import Record


class MemoryBulk(MemoryJobs):
    """Implements `oncue.ports.bulk.BulkStore`."""

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        start = None if after is None else read_place(after, (int, str))
        with self._lock:
            fitting = (
                record
                for record in self._records.values()
                if _applies(change, wanted, record)
                and (start is None or position_of(record) > start)
            )
            found = nsmallest(limit + 1, fitting, key=position_of)
            ids = [record.id for record in found[:limit]]
            more = len(found) > limit
            return BulkFound(ids, told_place(position_of(found[limit - 1])) if more else None)

    def change_all(
        self, change: BulkChange, wanted: JobFilter, job_ids: Sequence[str], now: Moment
    ) -> BulkDone:
        changed = key_taken = 0
        with self._writing():
            known = [self._records[job_id] for job_id in job_ids if job_id in self._records]
            for record in sorted(known, key=position_of):
                if not _applies(change, wanted, record) or _is_as_wanted(change, record, now):
                    continue
                if self._key_is_taken(change, record):
                    key_taken += 1
                    continue
                self._change(change, record, now)
                changed += 1
        return BulkDone(changed, key_taken)

    def _key_is_taken(self, change: BulkChange, record: Record) -> bool:
        if record.key is None or change.verb not in (BulkVerb.RETRY, BulkVerb.MOVE):
            return False
        return (change.queue or record.queue, record.key) in self._keys

    def _change(self, change: BulkChange, record: Record, now: Moment) -> None:
        match change.verb:
            case BulkVerb.CANCEL if record.state in LIVE:
                self._request_cancel_one(record.id, now)
            case BulkVerb.CANCEL:
                self._end(record, Verb.CANCEL, now)
            case BulkVerb.RUN:
                self._amend(record, Amendment(due_at=min(record.due_at, now)), now)
            case BulkVerb.RETRY:
                self._revive_one(record.id, now)
            case BulkVerb.MOVE:
                assert change.queue is not None
                self._unfile(record)
                record.queue = change.queue
                record.forget_refusals()
                record.updated_at = now
                self._refile(record)
            case BulkVerb.REPRIORITISE:
                self._amend(record, Amendment(priority=change.priority), now)


def _applies(change: BulkChange, wanted: JobFilter, record: Record) -> bool:
    if record.covered or record.state not in change.states or not matches(record, wanted):
        return False
    ended_later = record.finished_at is not None and record.finished_at > change.begun_at
    return not ended_later


def _is_as_wanted(change: BulkChange, record: Record, now: Moment) -> bool:
    match change.verb:
        case BulkVerb.CANCEL:
            return record.cancel_requested
        case BulkVerb.RUN:
            return record.due_at <= now and record.not_before is None
        case BulkVerb.MOVE:
            return record.queue == change.queue
        case BulkVerb.REPRIORITISE:
            return record.priority == change.priority
    return False
