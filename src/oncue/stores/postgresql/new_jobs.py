"""New jobs in PostgreSQL, and with what they clash.

A new job whose id or key an open transaction has used can only wait for the end of that one. The
store waits for a moment, then it stores the others and names those that are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from psycopg import errors

from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.clash import of_same_id, of_same_key, why_held
from oncue.core.errors import HeldByOthers
from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.shard import shard_of
from oncue.ports.clock import Clock
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import binary, records
from oncue.stores.postgresql.binary import Bigints, Bodies, Smallints, Texts
from oncue.stores.postgresql.database import PgPart
from oncue.stores.postgresql.known_lines import KnownLines
from oncue.stores.postgresql.locks import (
    NO_PATIENCE_MS,
    Waited,
    be_patient,
    patient,
    shard_lock,
    share,
)
from oncue.stores.postgresql.records import FiledRow
from oncue.stores.postgresql.settings import KnownSettings
from oncue.stores.postgresql.shards import rank_of
from oncue.stores.postgresql.tx import Asked, PgTx

COPY_FROM = 200  # jobs of one call from which on COPY is faster than an INSERT
PATIENCE_MS = 100  # for which new jobs that are stored together wait for a transaction of others
QUEUE_LOCK = -1
"""Stands for a shard: the lock that keeps a queue from being deleted."""
OUTBOX_LOCK = -2
"""The same for transactions of others, which may be long: only a deletion waits for them."""
_ID = itemgetter(NewJob._fields.index("id"))
_QUEUE = itemgetter(NewJob._fields.index("queue"))
_PLACE = itemgetter(*map(NewJob._fields.index, ("queue", "priority", "due_at")))
_RARE = slice(NewJob._fields.index("owner"), NewJob._fields.index("epoch") + 1)
_rare: Callable[[NewJob], Any] = itemgetter(_RARE)
_USUAL = (None, None, None, None, None, None, 0)
"""The rare fields of a job that has none of them."""
Used = tuple[str, ...]
"""What a transaction can have used: an id, a key, or a new queue."""


class PgNewJobs(PgPart):
    """Implements `insert` of `oncue.ports.jobs.JobStore`."""

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

    def insert(self, jobs: Sequence[NewJob], now: Moment) -> Mapping[int, Clash | HeldByOthers]:
        if not jobs:
            return {}
        is_plain = are_plain(jobs)
        held: set[Used] = set()
        try:
            stored = self._insert_together(jobs, is_plain)
        except Waited:
            stored, held = self.db.write(partial(self._insert_apart, jobs, is_plain))
        if len(stored) == len(jobs):
            return {}
        return self._clashes(jobs, set(stored), held, now)

    def _insert_together(self, jobs: Sequence[NewJob], is_plain: bool) -> list[str]:
        """Store what does not clash, by one statement. Their ids."""
        if is_plain and len(jobs) >= COPY_FROM:
            try:
                return self.db.write(partial(self._copy, jobs))
            except errors.UniqueViolation:  # of a call that is repeated: see below
                pass
        # Without history, a job that was stored may be delivered and gone before the repetition of
        # a call whose answer got lost, which must not store it again.
        keeps = all(self._settings.queue(name).keeps_history for name in set(map(_QUEUE, jobs)))
        run = self.db.once if keeps else self.db.write
        return run(partial(self._insert, jobs, is_plain, patience_ms=PATIENCE_MS))

    def _copy(self, jobs: Sequence[NewJob], tx: PgTx) -> list[str]:
        spread = {queue: self._shards_of(queue) for queue in set(map(_QUEUE, jobs))}
        with patient():
            self._keep_queues(tx, spread, PATIENCE_MS)
        cursor = tx.connection.cursor()
        with cursor.copy(tx.sql("jobs", "copy").encode()) as copy:
            for piece in binary.copied(jobs, spread):
                copy.write(piece)
        self._announce(tx, jobs)
        return list(map(_ID, jobs))

    def _insert_apart(
        self, jobs: Sequence[NewJob], is_plain: bool, tx: PgTx
    ) -> tuple[list[str], set[Used]]:
        """Store what does not clash and waits for nobody: their ids, and what others have used."""
        be_patient(tx, NO_PATIENCE_MS)
        stored: list[str] = []
        held: set[Used] = set()
        by_queue: dict[str, list[NewJob]] = {}
        for job in self._unseen(tx, in_one_order(jobs)):
            by_queue.setdefault(job.queue, []).append(job)
        for name, some in sorted(by_queue.items()):
            if self._is_being_made(tx, name):
                held.add(("queue", name))
            else:
                self._insert_parts(some, is_plain, tx, stored, held)
        return stored, held

    def _insert_parts(
        self,
        jobs: Sequence[NewJob],
        is_plain: bool,
        tx: PgTx,
        stored: list[str],
        held: set[Used],
    ) -> None:
        """Part by part: a part that waits is halved, and after one that does not the next is twice
        as large. So few statements find those who wait, and many of them cost one each."""
        at, size = 0, len(jobs)
        while part := jobs[at : at + size]:
            try:
                with tx.connection.transaction():
                    stored += self._insert(part, is_plain, tx)
                at, size = at + len(part), 2 * size
            except Waited:
                if len(part) == 1:
                    held.update(_uses(part[0]))
                    at += 1
                size = max(len(part) // 2, 1)

    def _unseen(self, tx: PgTx, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Those that clash with nothing that can be seen. For the others an insert might wait: for
        a transaction that changes the job with the same key, although they clash in any case."""
        params = {
            "ids": [job.id for job in jobs],
            "queues": [job.queue for job in jobs],
            "keys": [job.key for job in jobs],
        }
        clashing = {row[0] for row in tx.rows("jobs", "clashing", params)}
        return [job for job in jobs if job.id not in clashing]

    def _is_being_made(self, tx: PgTx, queue: str) -> bool:
        """Whether a transaction of others has made it, or changes it now."""
        try:
            with patient(), tx.connection.transaction(force_rollback=True):
                self._keep_queues(tx, [queue])
        except Waited:
            return True
        return False

    def _keep_queues(self, tx: PgTx, queues: Iterable[str], patience_ms: int | None = None) -> None:
        """See that these queues are there, and stay until the end of the transaction."""
        names = sorted(queues)
        numbers = sorted({self._queue_lock(name) for name in names})
        asked: list[Asked] = [
            ("locks", "share", {"numbers": numbers}),
            ("jobs", "ensure_queues", {"queues": names}),
        ]
        if patience_ms is not None:
            asked.insert(0, ("locks", "patience", {"ms": str(patience_ms)}))
            asked.append(("locks", "patience", {"ms": "0"}))
        tx.together(*asked)

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

    def _insert(
        self, jobs: Sequence[NewJob], is_plain: bool, tx: PgTx, patience_ms: int | None = None
    ) -> list[str]:
        """Store what does not clash with what is there, or with one before it. Their ids."""
        params = self.insert_params(jobs, self._queue_lock, patience_ms, is_plain=is_plain)
        with patient():
            found = tx.rows("jobs", "insert_plain" if is_plain else "insert", params)
        stored = [row[0] for row in found]
        there = set(stored)
        self._announce(tx, (job for job in jobs if job.id in there))
        return stored

    def insert_params(
        self,
        jobs: Sequence[NewJob],
        lock_of: Callable[[str], int],
        patience_ms: int | None = None,
        *,
        is_plain: bool,
    ) -> dict[str, Any]:
        """Of `jobs.sql: insert` and `insert_plain`, which share the locks of their queues. Without
        a patience, they have that of their transaction."""
        if not is_plain and len(jobs) > 1:
            jobs = in_one_order(jobs)
        queues = sorted(set(map(_QUEUE, jobs)))
        spread = {queue: self._shards_of(queue) for queue in queues}
        columns = list(zip(*jobs, strict=True))
        params = {
            "patience": None if patience_ms is None else str(patience_ms),
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
        self, jobs: Sequence[NewJob], stored: set[str], held: set[Used], now: Moment
    ) -> Mapping[int, Clash | HeldByOthers]:
        """What became of the jobs that were not stored. `held`: what transactions of others have
        used. A call that is repeated finds all its ids there: they are looked for together."""
        clashes: dict[int, Clash | HeldByOthers] = {}
        left = _not_stored(jobs, stored)
        ids = [job.id for _, job in left] if len(left) > 1 else []
        there = self.db.once(lambda tx: records.find(tx, ids, ids)) if ids else {}
        for position, job in left:
            if held.isdisjoint(_needs(job)):
                patience_ms = NO_PATIENCE_MS if held else PATIENCE_MS
                try:
                    clash = _same_id(job, there) or self.db.write(
                        partial(self._clash, job, now, patience_ms)
                    )
                except Waited:
                    held.update([_replaces(job)] if job.replace else _uses(job))
                else:
                    if clash is not None:
                        clashes[position] = clash
                    continue
            is_queue = ("queue", job.queue) in held
            clashes[position] = HeldByOthers(why_held(job, is_queue=is_queue))
        return clashes

    def _clash(self, new: NewJob, now: Moment, patience_ms: int, tx: PgTx) -> Clash | None:
        """With what a job clashes; None: what it clashed with is gone, and it is stored now."""
        if same_id := _same_id(new, records.find(tx, [new.id], [new.id])):
            return same_id
        holder = None if new.key is None else self._holder_of_key(tx, new, patience_ms)
        if holder is None:
            if self._insert([new], False, tx, patience_ms):
                return None
            raise errors.SerializationFailure  # somebody else was quicker: look again
        kind = of_same_key(new, holder.record.shown_state)
        if kind == "replaced":
            change = JobChange(ChangeVerb.AMEND, due_at=new.due_at, payload=new.payload)
            holder.record.change(change, now)
            records.save(tx, [holder])
            self._announce_waiting(tx, holder.record)
        return Clash(kind, holder.record.as_job())

    def _holder_of_key(self, tx: PgTx, new: NewJob, patience_ms: int) -> FiledRow | None:
        """The unfinished job that has the key of a new one. Only one that may be replaced is
        locked: an open transaction may have changed it."""
        place = {"queue": new.queue, "key": new.key}
        holder_id = tx.run("jobs", "holder_of_key", place).get
        if holder_id is None:
            return None
        if new.replace:
            with patient():
                be_patient(tx, patience_ms)
                holder = self._lock_waiting(tx, [holder_id], [holder_id]).get(holder_id)
        else:
            holder = records.find(tx, [holder_id], [holder_id]).get(holder_id)
        if holder is None or holder.record.finished_at is not None:
            return None
        has_it = (holder.record.queue, holder.record.key) == (new.queue, new.key)
        return holder if has_it else None

    def _lock_waiting(
        self, tx: PgTx, job_ids: Sequence[str], whole: Sequence[str] = (), *, free: bool = False
    ) -> dict[str, FiledRow]:
        """These jobs, locked, some with their payloads; no range comes to cover one of them before
        the end. With `free`, without those that others have locked."""
        schema = self.db.address.schema
        known: set[int] = set()
        while True:
            places = tx.rows("jobs", "places", {"ids": records.possible(job_ids)})
            missing = {shard_lock(schema, *place) for place in places} - known
            share(tx, missing)
            found = records.lock(tx, job_ids, whole, free=free)
            known |= missing
            now_at = {shard_lock(schema, one.record.queue, one.shard) for one in found.values()}
            if now_at <= known:  # else one was moved meanwhile
                return found


def _not_stored(jobs: Sequence[NewJob], stored: set[str]) -> list[tuple[int, NewJob]]:
    """With their positions. Of several with one id, the first may be stored: the others clash."""
    left = []
    for position, job in enumerate(jobs):
        if job.id in stored:
            stored.remove(job.id)
        else:
            left.append((position, job))
    return left


def _same_id(new: NewJob, there: Mapping[str, FiledRow]) -> Clash | None:
    one = there.get(new.id)
    return None if one is None else Clash(of_same_id(new, one.record.digest), one.record.as_job())


def _uses(job: NewJob) -> list[Used]:
    """What no other new job can have."""
    return [("id", job.id), *([] if job.key is None else [("key", job.queue, job.key)])]


def _replaces(job: NewJob) -> Used:
    """The job that has its key: only others that replace it, too, have to wait."""
    return ("replaced", job.queue, job.key or "")


def _needs(job: NewJob) -> list[Used]:
    """What others must not hold."""
    return [("queue", job.queue), *_uses(job), *([_replaces(job)] if job.replace else [])]


def in_one_order(jobs: Sequence[NewJob]) -> list[NewJob]:
    """In an order that is the same in every call, so that calls with the same jobs do not deadlock;
    without jobs that have the id or key of one before them."""
    keys = [(job.key, job.queue) for job in jobs if job.key is not None]
    if len(set(map(_ID, jobs))) < len(jobs) or len(set(keys)) < len(keys):
        jobs = _firsts(jobs)
    return sorted(jobs, key=_order if keys else _ID)


def _firsts(jobs: Sequence[NewJob]) -> list[NewJob]:
    seen: set[Used] = set()
    firsts = []
    for job in jobs:
        used = _uses(job)
        if seen.isdisjoint(used):
            firsts.append(job)
        seen.update(used)
    return firsts


def _order(job: NewJob) -> tuple[str, str, str]:
    return ("", "", job.id) if job.key is None else (job.key, job.queue, job.id)


def are_plain(jobs: Iterable[NewJob]) -> bool:
    """Whether they have nothing but a queue, a due time, a payload and a priority."""
    return all(map(_USUAL.__eq__, map(_rare, jobs)))
