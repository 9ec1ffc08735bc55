"""Single jobs in memory: creation and reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest

from oncue.core.changes import ChangeVerb, JobChange, fits
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.job import Diagnostic, History, Job, JobFilter, NewJob, Page, Position
from oncue.core.moment import Moment
from oncue.ports.jobs import Clash
from oncue.stores.memory.record import Record
from oncue.stores.memory.state import Shelves


class MemoryJobs(Shelves):
    """Implements `oncue.ports.jobs.JobStore`."""

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        with self._writing():
            answers = ((position, self._insert(new, now)) for position, new in enumerate(jobs))
            return {position: clash for position, clash in answers if clash is not None}

    def _insert(self, new: NewJob, now: Moment) -> Clash | None:
        same_id = self._records.get(new.id)
        if same_id is not None:
            return Clash(of_same_id(new, same_id.digest), same_id.as_job())
        holder = None if new.key is None else self._keys.get((new.queue, new.key))
        if holder is None:
            record = self._records[new.id] = Record.of(new, now)
            self._refile(record)
            return None
        kind = of_same_key(new, holder.shown_state)
        if kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            self._amend(holder, change, now)
        return Clash(kind, holder.as_job())

    def get(self, job_id: str) -> Job | None:
        with self._lock:
            record = self._visible(job_id)
            return None if record is None else record.as_job()

    def history(self, job_id: str) -> History:
        with self._lock:
            record = self._visible(job_id)
            return History() if record is None else record.as_history()

    def note(self, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        with self._writing():
            record = self._visible(job_id)
            if record is None:
                return
            for told in diagnostics:
                record.keep(told)

    def page(self, wanted: JobFilter, after: Position | None, limit: int) -> Page:
        with self._lock:
            matching = (
                record
                for record in self._records.values()
                if matches(record, wanted) and (after is None or position_of(record) > after)
            )
            found = nsmallest(limit + 1, matching, key=position_of)
            items = [record.as_job() for record in found[:limit]]
            return Page(items, position_of(found[limit - 1]) if len(found) > limit else None)

    def _amend(self, record: Record, change: JobChange, now: Moment) -> None:
        if change.due_at is not None:
            record.due_at = change.due_at
            record.forget_refusals()
        if change.priority is not None:
            record.priority = change.priority
        if change.payload is not None:
            record.payload = change.payload
        record.updated_at = now
        self._refile(record)


def position_of(record: Record) -> Position:
    return Position(record.due_at, record.id)


def matches(record: Record, wanted: JobFilter) -> bool:
    return not record.hidden and fits(record, wanted)
