"""Jobs in PostgreSQL: creation, reading, and what people change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from psycopg import errors

from oncue.core.changes import ChangeVerb, JobChange, NotChanged, decide
from oncue.core.clash import of_same_id, of_same_key
from oncue.core.cursor import MOST_ITEMS, Cursor, Page
from oncue.core.job import Diagnostic, History, Job, NewJob, Operation
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.operations import OperationPages, history_with, start_of
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.shard import shard_of
from oncue.ports.clock import Clock
from oncue.ports.jobs import Changed, Clash
from oncue.stores.postgresql import binary, records
from oncue.stores.postgresql.binary import Bigints, Bodies, Smallints, Texts
from oncue.stores.postgresql.database import PgPart, writing
from oncue.stores.postgresql.known_lines import KnownLines
from oncue.stores.postgresql.locks import shard_lock, share
from oncue.stores.postgresql.records import FiledRow
from oncue.stores.postgresql.settings import KnownSettings
from oncue.stores.postgresql.shards import rank_of
from oncue.stores.postgresql.tx import PgTx

COPY_FROM = 200  # jobs of one call from which on COPY is faster than an INSERT
QUEUE_LOCK = -1
"""Stands for a shard: the lock that keeps a queue from being deleted."""
OUTBOX_LOCK = -2
"""The same for transactions of others, which may be long: only a deletion waits for them."""
_QUEUE = itemgetter(NewJob._fields.index("queue"))
_PLACE = itemgetter(*map(NewJob._fields.index, ("queue", "priority", "due_at")))
_RARE = slice(NewJob._fields.index("owner"), NewJob._fields.index("epoch") + 1)
_rare: Callable[[NewJob], Any] = itemgetter(_RARE)
_USUAL = (None, None, None, None, None, None, 0)
"""The rare fields of a job that has none of them."""


class PgJobs(PgPart):
    """Implements `oncue.ports.jobs.JobStore` but for lists."""

    shards: int
    """Of a queue that does not say how many it has."""
    clock: Clock
    _settings: KnownSettings
    _known_lines: KnownLines

    def _shards_of(self, queue: str) -> int:
        """Over how many shards new jobs of the queue are spread. It may be a little out of date:
        jobs are found in every shard."""
        return self.known_queue(queue).shards or self.shards

    def known_queue(self, name: str) -> Queue:
        """The queue as it was when the settings were last read."""
        return self._settings.queue(name)

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash]:
        if not jobs:
            return {}
        is_plain = are_plain(jobs)
        if is_plain and len(jobs) >= COPY_FROM:
            try:
                return self.db.write(partial(self._copy, jobs))
            except errors.UniqueViolation:  # of a call that is repeated: see below
                pass
        # Without history, a job that was stored may be delivered and gone before the repetition of
        # a call whose answer got lost, which must not store it again.
        keeps = all(self._settings.queue(name).keeps_history for name in set(map(_QUEUE, jobs)))
        run = self.db.once if keeps else self.db.write
        stored = set(run(partial(self._insert, jobs, is_plain)))
        if len(stored) == len(jobs):
            return {}
        return self._clashes(jobs, stored, now)

    def _copy(self, jobs: Sequence[NewJob], tx: PgTx) -> Mapping[int, Clash]:
        self._keep_queues(tx, set(map(_QUEUE, jobs)))
        spread = {queue: self._shards_of(queue) for queue in set(map(_QUEUE, jobs))}
        cursor = tx.connection.cursor()
        with cursor.copy(tx.sql("jobs", "copy").encode()) as copy:
            for piece in binary.copied(jobs, spread):
                copy.write(piece)
        self._announce(tx, jobs)
        return {}

    def _keep_queues(self, tx: PgTx, queues: Iterable[str]) -> None:
        """See that these queues are there, and stay until the end of the transaction."""
        names = sorted(queues)
        share(tx, (self._queue_lock(name) for name in names))
        tx.run("jobs", "ensure_queues", {"queues": names})

    def _queue_lock(self, queue: str) -> int:
        return shard_lock(self.db.address.schema, queue, QUEUE_LOCK)

    def outbox_lock(self, queue: str) -> int:
        return shard_lock(self.db.address.schema, queue, OUTBOX_LOCK)

    def _announce(self, tx: PgTx, jobs: Iterable[NewJob]) -> None:
        for queue, priority, due_at in set(map(_PLACE, jobs)):
            tx.tell(queue, due_at, rank_of(priority, ahead=False))

    def _announce_waiting(self, tx: PgTx, record: Record) -> None:
        """A job waits, perhaps in another place than before."""
        rank = rank_of(record.priority, ahead=record.ahead)
        tx.tell(record.queue, record.not_before or record.due_at, rank)

    def _insert(self, jobs: Sequence[NewJob], is_plain: bool, tx: PgTx) -> list[str]:
        """Store what does not clash with what is there, or with one before it. Their ids."""
        params = self.insert_params(jobs, self._queue_lock, is_plain=is_plain)
        found = tx.rows("jobs", "insert_plain" if is_plain else "insert", params)
        stored = [row[0] for row in found]
        there = set(stored)
        self._announce(tx, (job for job in jobs if job.id in there))
        return stored

    def insert_params(
        self, jobs: Sequence[NewJob], lock_of: Callable[[str], int], *, is_plain: bool
    ) -> dict[str, Any]:
        """Of `jobs.sql: insert` and `insert_plain`, which share the locks of their queues."""
        queues = sorted(set(map(_QUEUE, jobs)))
        spread = {queue: self._shards_of(queue) for queue in queues}
        columns = list(zip(*jobs, strict=True))
        params = {
            "locks": sorted(map(lock_of, queues)),
            "ids": Texts.of(columns[0]),
            "queues": Texts.of(columns[1]),
            "dues": Bigints.of(columns[2]),
            "payloads": Bodies.of(columns[3]),
            "priorities": Smallints.of(columns[4]),
            "created": Bigints.of(columns[5]),
            "shards": Smallints.of([shard_of(job.id, spread[job.queue]) for job in jobs]),
        }
        if not is_plain:
            names = ("owners", "keys", "expiries", "max_attempts", "timeouts", "digests", "epochs")
            params |= {name: list(one) for name, one in zip(names, columns[_RARE], strict=True)}
        return params

    def _clashes(
        self, jobs: Sequence[NewJob], stored: set[str], now: Moment
    ) -> Mapping[int, Clash]:
        """What became of the jobs that were not stored; the first of an id may have been."""
        clashes: dict[int, Clash] = {}
        for position, job in enumerate(jobs):
            if job.id in stored:
                stored.remove(job.id)  # another one with its id clashes with it
                continue
            clash = self.db.write(partial(self._clash, job, now))
            if clash is not None:
                clashes[position] = clash
        return clashes

    def _clash(self, new: NewJob, now: Moment, tx: PgTx) -> Clash | None:
        """With what a job clashes; None: what it clashed with is gone, and it is stored now."""
        same_id = records.find(tx, [new.id], [new.id]).get(new.id)
        if same_id is not None:
            return Clash(of_same_id(new, same_id.record.digest), same_id.record.as_job())
        key = {"queue": new.queue, "key": new.key}
        holder_id = tx.run("jobs", "holder_of_key", key).get if new.key is not None else None
        holder = holder_id and self._lock_waiting(tx, [holder_id], [holder_id]).get(holder_id)
        if not holder or holder.record.finished_at is not None:
            if self._insert([new], False, tx):
                return None
            raise errors.SerializationFailure  # somebody else was quicker: look again
        kind = of_same_key(new, holder.record.shown_state)
        if kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            holder.record.change(change, now)
            records.save(tx, [holder])
            self._announce_waiting(tx, holder.record)
        return Clash(kind, holder.record.as_job())

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

    def _lock_waiting(
        self, tx: PgTx, job_ids: Sequence[str], whole: Sequence[str] = ()
    ) -> dict[str, FiledRow]:
        """These jobs, locked, some with their payloads; no range comes to cover one of them before
        the end."""
        schema = self.db.address.schema
        known: set[int] = set()
        while True:
            places = tx.rows("jobs", "places", {"ids": records.possible(job_ids)})
            missing = {shard_lock(schema, *place) for place in places} - known
            share(tx, missing)
            found = records.lock(tx, job_ids, whole)
            known |= missing
            now_at = {shard_lock(schema, one.record.queue, one.shard) for one in found.values()}
            if now_at <= known:  # else one was moved meanwhile
                return found

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
        return {
            (queue, key)
            for queue, key in wanted
            if tx.run("jobs", "holder_of_key", {"queue": queue, "key": key}).get is not None
        }


def are_plain(jobs: Iterable[NewJob]) -> bool:
    """Whether they have nothing but a queue, a due time, a payload and a priority."""
    return all(map(_USUAL.__eq__, map(_rare, jobs)))


def operation_page(
    tx: PgTx, job_id: str, pages: OperationPages, start: int = 0, limit: int = MOST_ITEMS
) -> Page[Operation]:
    """Operations of a job from a position on."""
    found = tx.run("jobs", "operations", {"id": job_id, "start": start, "limit": limit + 1})
    return pages.page(map(records.read_operation, found), start, limit)


def _place(one: FiledRow) -> tuple[Moment, str]:
    return one.record.due_at, one.record.id
