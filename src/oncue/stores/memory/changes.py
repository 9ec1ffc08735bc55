"""Changes of jobs in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest

from oncue.core.bulk import BulkChange, read_place, told_place
from oncue.core.changes import ChangeVerb, JobChange, NotChanged, applies, decide
from oncue.core.job import JobFilter
from oncue.core.lifecycle import Verb
from oncue.core.moment import Moment
from oncue.ports.bulk import BulkFound
from oncue.stores.memory.jobs import MemoryJobs, matches, position_of
from oncue.stores.memory.record import Record


class MemoryChanges(MemoryJobs):
    """Implements `oncue.ports.bulk.BulkStore`, and `change` of `oncue.ports.jobs.JobStore`."""

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: str | None, limit: int
    ) -> BulkFound:
        start = None if after is None else read_place(after, (int, str))
        with self._lock:
            fitting = (
                record
                for record in self._records.values()
                if matches(record, wanted)
                and applies(record, change.states, change.begun_at)
                and (start is None or position_of(record) > start)
            )
            found = nsmallest(limit + 1, fitting, key=position_of)
            ids = [record.id for record in found[:limit]]
            more = len(found) > limit
            return BulkFound(ids, told_place(position_of(found[limit - 1])) if more else None)

    def change(
        self, job_ids: Sequence[str], change: JobChange, now: Moment
    ) -> Mapping[int, NotChanged]:
        left: dict[int, NotChanged] = {}
        with self._writing():
            known = [(at, self._visible(job_id)) for at, job_id in enumerate(job_ids)]
            left |= {at: NotChanged("unknown") for at, record in known if record is None}
            found = [(position_of(record), at, record) for at, record in known if record]
            for _, at, record in sorted(found):
                taken = self._key_is_taken(change, record)
                why = decide(record, change, now, key_taken=taken)
                if why is None:
                    self._change(change, record, now)
                else:
                    left[at] = why
        return left

    def _key_is_taken(self, change: JobChange, record: Record) -> bool:
        return record.key is not None and (change.queue or record.queue, record.key) in self._keys

    def _change(self, change: JobChange, record: Record, now: Moment) -> None:
        match change.verb:
            case ChangeVerb.AMEND:
                self._amend(record, change, now)
            case ChangeVerb.RUN:
                due_at = min(record.due_at, now)
                self._amend(record, JobChange(ChangeVerb.AMEND, due_at=due_at), now)
            case ChangeVerb.CANCEL:
                self._end(record, Verb.CANCEL, now)
            case ChangeVerb.STOP:
                # `updated_at` stays: it says when the worker was last heard.
                record.cancel_requested = True
            case ChangeVerb.REVIVE:
                record.revive(now)
                self._refile(record)
            case ChangeVerb.MOVE:
                assert change.queue is not None
                self._unfile(record)
                record.queue = change.queue
                record.forget_refusals()
                record.updated_at = now
                self._refile(record)
