"""Single jobs in memory: creation, reading, and what people change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest

from oncue.core.clash import of_same_id, of_same_key
from oncue.core.job import Diagnostic, History, Job, JobFilter, NewJob, Page, Position
from oncue.core.lifecycle import LIVE, TRANSITIONS, Verb, allows
from oncue.core.moment import Moment
from oncue.ports.jobs import Amendment, Change, Clash
from oncue.stores.memory.record import Record
from oncue.stores.memory.shelves import Shelves


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
            self._amend(holder, Amendment(due_at=new.due_at, payload=new.payload), now)
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

    def amend(self, job_ids: Sequence[str], amendment: Amendment, now: Moment) -> list[Change]:
        with self._writing():
            return [self._amend_one(job_id, amendment, now) for job_id in job_ids]

    def _amend_one(self, job_id: str, amendment: Amendment, now: Moment) -> Change:
        record = self._visible(job_id)
        if record is None:
            return Change(None)
        if not allows(record.shown_state, Verb.AMEND):
            return Change(record.as_job(), "state")
        self._amend(record, amendment, now)
        return Change(record.as_job())

    def _amend(self, record: Record, amendment: Amendment, now: Moment) -> None:
        if amendment.due_at is not None:
            record.due_at = amendment.due_at
            record.forget_refusals()
        if amendment.priority is not None:
            record.priority = amendment.priority
        if amendment.payload is not None:
            record.payload = amendment.payload
        record.updated_at = now
        self._refile(record)

    def cancel(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        with self._writing():
            return [self._cancel_one(job_id, now) for job_id in job_ids]

    def _cancel_one(self, job_id: str, now: Moment) -> Change:
        record = self._visible(job_id)
        if record is None:
            return Change(None)
        if not allows(record.shown_state, Verb.CANCEL):
            return Change(record.as_job(), "state")
        self._end(record, Verb.CANCEL, now)
        return Change(record.as_job())

    def request_cancel(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        with self._writing():
            return [self._request_cancel_one(job_id, now) for job_id in job_ids]

    def _request_cancel_one(self, job_id: str, now: Moment) -> Change:
        record = self._visible(job_id)
        if record is None:
            return Change(None)
        # Not the state it shows: what an open range covers is being delivered right now,
        # and no worker will ask.
        if record.state not in LIVE:
            return Change(record.as_job(), "state")
        # `updated_at` stays: it says when the worker was last heard.
        record.cancel_requested = True
        return Change(record.as_job())

    def revive(self, job_ids: Sequence[str], now: Moment) -> list[Change]:
        with self._writing():
            return [self._revive_one(job_id, now) for job_id in job_ids]

    def _revive_one(self, job_id: str, now: Moment) -> Change:
        record = self._visible(job_id)
        if record is None:
            return Change(None)
        if not allows(record.shown_state, Verb.REVIVE):
            return Change(record.as_job(), "state")
        if record.key is not None and (record.queue, record.key) in self._keys:
            return Change(record.as_job(), "key")
        record.state = TRANSITIONS[record.state, Verb.REVIVE]
        record.due_at = record.updated_at = now
        record.finished_at = record.result = record.error = None
        record.message = record.percent = record.worker = None
        record.cancel_requested = False
        record.forget_refusals()
        record.strikes = 0
        record.attempt_base = record.attempt
        record.trim_attempts()
        # An old expiry might end the new life before it began.
        record.expires_at = None
        self._refile(record)
        return Change(record.as_job())


def position_of(record: Record) -> Position:
    return Position(record.due_at, record.id)


def matches(record: Record, wanted: JobFilter) -> bool:
    """Windows of due time are half open, [due_after, due_before): neighbours share nothing."""
    return (
        not record.hidden
        and wanted.queue in (None, record.queue)
        and wanted.state in (None, record.shown_state)
        and (wanted.owner is None or wanted.owner == record.owner)
        and (wanted.key is None or wanted.key == record.key)
        and (wanted.due_after is None or wanted.due_after <= record.due_at)
        and (wanted.due_before is None or record.due_at < wanted.due_before)
    )
