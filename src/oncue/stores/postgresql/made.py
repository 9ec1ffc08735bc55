"""Jobs that rules and schedules make in PostgreSQL."""

from __future__ import annotations

from typing import Any

from oncue.core.firing import FiredJob
from oncue.core.job import Job, NewJob
from oncue.core.shard import shard_of
from oncue.stores.postgresql import records
from oncue.stores.postgresql.jobs import PgJobs
from oncue.stores.postgresql.joined import PgJoined

_COLUMNS = (
    *("id", "queue", "due_at", "payload", "priority", "created_at", "owner", "epoch"),
    *("rule", "instant", "schedule", "shard"),
)
"""Of `made.sql: insert`."""


class PgMade(PgJobs):
    """What `oncue.stores.relational.part.RelationalPart` asks for about jobs."""

    def _insert_fired(self, tx: PgJoined, fired: FiredJob) -> None:
        self._make(tx, fired.job, rule=fired.rule, instant=fired.instant)

    def _insert_occurrence(self, tx: PgJoined, job: NewJob, schedule: str) -> None:
        self._make(tx, job, schedule=schedule)

    def _make(self, tx: PgJoined, job: NewJob, **source: Any) -> None:
        if job.queue not in tx.kept_queues:
            tx.do("locks", "share", {"numbers": [self._queue_lock(job.queue)]})
            tx.do("jobs", "ensure_queues", {"queues": [job.queue]})
            tx.kept_queues.add(job.queue)
        params = {"rule": None, "instant": None, "schedule": None, **job._asdict(), **source}
        params["shard"] = shard_of(job.id, self._shards_of(job.queue))
        tx.do("made", "insert", {name: params[name] for name in _COLUMNS})
        self._announce(tx.silent, [job])

    def _job_in(self, tx: PgJoined, job_id: str | None) -> Job | None:
        if job_id is None:
            return None
        found = records.visible(self._lock_waiting(tx.tx, [job_id], [job_id]), job_id)
        return None if found is None else found.record.as_job()

    def _withdraw(self, tx: PgJoined, job_id: str) -> None:
        tx.do("jobs", "remove", {"ids": [job_id]})
