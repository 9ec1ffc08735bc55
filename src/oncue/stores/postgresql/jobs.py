"""Jobs in PostgreSQL: reading, and what people change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import errors

from oncue.core.changes import ChangeVerb, JobChange, NotChanged, decide
from oncue.core.cursor import MOST_ITEMS, Cursor, Page
from oncue.core.job import Diagnostic, History, Job, Operation
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.operations import OperationPages, history_with, start_of
from oncue.core.shard import shard_of
from oncue.ports.jobs import Changed
from oncue.stores.postgresql import records
from oncue.stores.postgresql.database import writing
from oncue.stores.postgresql.new_jobs import PgNewJobs
from oncue.stores.postgresql.records import FiledRow
from oncue.stores.postgresql.tx import PgTx


class PgJobs(PgNewJobs):
    """Implements `oncue.ports.jobs.JobStore` but for lists."""

    def get(self, job_id: str) -> Job | None:
        found = self.db.once(lambda tx: records.find(tx, [job_id], [job_id]))
        one = records.visible(found, job_id)
        return None if one is None else one.record.as_job()

    def history(self, job_id: str, after: Cursor | None = None, limit: int = MOST_ITEMS) -> History:
        start = start_of(after)
        with self.db.reading() as tx:
            one = records.visible(records.find(tx, [job_id]), job_id)
            if one is None:
                return History()
            page = operation_page(tx, job_id, OperationPages(), start, limit)
        return history_with(page, History() if after else one.record.as_history())

    @writing
    def note(self, tx: PgTx, job_id: str, diagnostics: Sequence[Diagnostic]) -> None:
        one = records.visible(records.lock(tx, [job_id]), job_id)
        if one is not None:
            for diagnostic in diagnostics:
                one.record.keep(diagnostic)
            records.save(tx, [one])

    @writing
    def change(self, tx: PgTx, job_ids: Sequence[str], change: JobChange, now: Moment) -> Changed:
        found = self._lock_waiting(tx, job_ids, job_ids[:1])
        taken = self._taken_keys(tx, found.values(), change)
        answers: dict[str, NotChanged | None] = {}
        changed: list[FiledRow] = []
        for one in sorted(found.values(), key=_place):
            record = one.record
            if record.hidden:
                continue
            place = (change.queue or record.queue, record.key or "")
            why = decide(record.as_seen(key_taken=place in taken), change, now)
            answers[record.id] = why
            if why is None:
                record.change(change, now)
                if record.key is not None:
                    taken.add(place)
                changed.append(self._placed(one) if change.queue else one)
        if change.verb is ChangeVerb.MOVE and changed and change.queue is not None:
            self._keep_queues(tx, [change.queue])
        try:
            records.save(tx, changed)
        except errors.UniqueViolation:  # somebody has taken a key since it was looked for
            raise errors.SerializationFailure from None  # look again
        for one in changed:
            if one.record.state is State.SCHEDULED:
                self._announce_waiting(tx, one.record)
        unknown = NotChanged("unknown")
        refused = {at: answers.get(one, unknown) for at, one in enumerate(job_ids)}
        first = records.visible(found, job_ids[0]) if job_ids else None
        return Changed(
            {at: why for at, why in refused.items() if why is not None},
            None if first is None else first.record.as_job(),
        )

    def _placed(self, one: FiledRow) -> FiledRow:
        """With the shard that it has in its queue."""
        shard = shard_of(one.record.id, self._shards_of(one.record.queue))
        return one._replace(shard=shard)

    def _taken_keys(
        self, tx: PgTx, found: Iterable[FiledRow], change: JobChange
    ) -> set[tuple[str, str]]:
        """Queue and key, where these jobs would need them and another unfinished job has them."""
        if change.verb not in (ChangeVerb.REVIVE, ChangeVerb.MOVE):
            return set()
        wanted = {
            (change.queue or one.record.queue, one.record.key)
            for one in found
            if one.record.key is not None
        }
        return set(tx.follow(records.holders_of_keys(wanted)))


def operation_page(
    tx: PgTx, job_id: str, pages: OperationPages, start: int = 0, limit: int = MOST_ITEMS
) -> Page[Operation]:
    """Operations of a job from a position on."""
    found = tx.run("jobs", "operations", {"id": job_id, "start": start, "limit": limit + 1})
    return pages.page(map(records.read_operation, found), start, limit)


def _place(one: FiledRow) -> tuple[Moment, str]:
    return one.record.due_at, one.record.id
