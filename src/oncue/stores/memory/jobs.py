"""Single jobs in memory: creation, reading, and what people change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest

from oncue.core.bulk import BulkChange
from oncue.core.changes import ChangeVerb, JobChange, NotChanged, SeenJob, applies, decide, fits
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.cursor import MOST_ITEMS, Cursor, cursor_at, place_at
from oncue.core.job import Diagnostic, History, Job, JobFilter, JobPage, NewJob
from oncue.core.moment import Moment
from oncue.core.operations import part_of
from oncue.core.record import Record
from oncue.ports.bulk import BulkFound
from oncue.ports.jobs import Changed, Clash
from oncue.stores.memory.state import MemoryState, exceptions


class MemoryJobs(MemoryState):
    """Implements `oncue.ports.jobs.JobStore` and `oncue.ports.bulk.BulkStore`."""

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        with self._writing():
            return exceptions(self._insert(new, now) for new in jobs)

    def _insert(self, new: NewJob, now: Moment) -> Clash | None:
        same_id = self._records.get(new.id)
        if same_id is not None:
            return Clash(of_same_id(new, same_id.digest), same_id.as_job())
        holder = None if new.key is None else self._keys.get((new.queue, new.key))
        if holder is None:
            self._add(Record.of(new, now))
            return None
        kind = of_same_key(new, holder.shown_state)
        if kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            holder.change(change, now)
            self._refile(holder)
        return Clash(kind, holder.as_job())

    def get(self, job_id: str) -> Job | None:
        with self._lock:
            record = self._visible(job_id)
            return None if record is None else record.as_job()

    def history(self, job_id: str, after: Cursor | None = None, limit: int = MOST_ITEMS) -> History:
        with self._lock:
            record = self._visible(job_id)
            whole = History() if record is None else record.as_history()
            return part_of(whole, after, limit)

    def note(self, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        with self._lock:
            record = self._visible(job_id)
            if record is not None:
                for diagnostic in diagnostics:
                    record.keep(diagnostic)

    def page(self, wanted: JobFilter, after: Cursor | None, limit: int) -> JobPage:
        with self._lock:
            found, end = self._page(after, limit, lambda seen: fits(seen, wanted))
            return JobPage([record.as_job() for record in found], end)

    def find_all(
        self, change: BulkChange, wanted: JobFilter, after: Cursor | None, limit: int
    ) -> BulkFound:
        def can_be_changed(seen: SeenJob) -> bool:
            return fits(seen, wanted) and applies(seen, change.states, change.begun_at)

        with self._lock:
            found, end = self._page(after, limit, can_be_changed)
            return BulkFound([record.id for record in found], end)

    def _page(
        self, after: Cursor | None, limit: int, wanted: Callable[[SeenJob], bool]
    ) -> tuple[list[Record], Cursor | None]:
        """The first wanted jobs after a place, and where to go on, if there are more."""
        start = (-1, "") if after is None else place_at(after, (int, str))
        rest = (
            record
            for record in self._records.values()
            if _place(record) > start and not record.hidden and wanted(record.as_seen())
        )
        found = nsmallest(limit + 1, rest, key=_place)
        return found[:limit], cursor_at(_place(found[limit - 1])) if len(found) > limit else None

    def change(self, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        with self._writing():
            found = [record for record in map(self._visible, job_ids) if record is not None]
            found.sort(key=_place)
            answers = {record.id: self._change(record, change, now) for record in found}
            unknown = NotChanged("unknown")
            refused = exceptions(answers.get(job_id, unknown) for job_id in job_ids)
            return Changed(refused, self.get(job_ids[0]) if job_ids else None)

    def _change(self, record: Record, change: JobChange, now: Moment) -> NotChanged | None:
        queue = change.queue or record.queue
        taken = record.key is not None and (queue, record.key) in self._keys
        why = decide(record.as_seen(key_taken=taken), change, now)
        if why is not None:
            return why
        self._unfile(record)
        record.change(change, now)
        self._refile(record)
        return None


def _place(record: Record) -> tuple[Moment, str]:
    return record.due_at, record.id
