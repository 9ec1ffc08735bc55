"""New jobs in PostgreSQL, and with what they clash.

A new job whose id or key an open transaction has used can only wait for the end of that one. The
store waits for a moment, then it stores the others and names those that are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any

from psycopg import errors

from oncue.core.clash import why_held
from oncue.core.errors import HeldByOthers
from oncue.core.job import RARE, NewJob, are_plain
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.core.record import Record
from oncue.core.shard import shard_of
from oncue.ports.clock import Clock
from oncue.ports.jobs import Clash
from oncue.stores.postgresql import binary
from oncue.stores.postgresql.binary import Bigints, Bodies, Smallints, Texts
from oncue.stores.postgresql.clashes import (
    clashing,
    locking,
    new_ranks,
    not_stored,
    replacing,
    seen_clashes,
    to_replace,
)
from oncue.stores.postgresql.database import PgPart
from oncue.stores.postgresql.known_lines import KnownLines
from oncue.stores.postgresql.locks import (
    NO_PATIENCE_MS,
    Waited,
    be_patient,
    patient,
    shard_lock,
)
from oncue.stores.postgresql.records import FiledRow
from oncue.stores.postgresql.settings import KnownSettings
from oncue.stores.postgresql.shards import rank_of
from oncue.stores.postgresql.tx import Asked, PgTx

COPY_FROM = 200  # jobs of one call from which on COPY is faster than an INSERT
PATIENCE_MS = 100  # for which new jobs that are stored together wait for a transaction of others
REPLACED_AT_ONCE = 400  # jobs, by one transaction: dispatchers of their shards wait for it
KEPT_SECONDS = 60  # far longer than a call is repeated
QUEUE_LOCK = -1
"""Stands for a shard: the lock that keeps a queue from being deleted."""
OUTBOX_LOCK = -2
"""The same for transactions of others, which may be long: only a deletion waits for them."""
_ID = itemgetter(NewJob._fields.index("id"))
_QUEUE = itemgetter(NewJob._fields.index("queue"))
_PLACE = itemgetter(*map(NewJob._fields.index, ("queue", "priority", "due_at")))
Used = tuple[str, ...]
"""An id, a key or a new queue that a transaction has used."""


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
        held: set[Used] = set()
        try:
            stored = self._insert_together(jobs)
        except Waited:
            stored, held = self.db.write(partial(self._insert_apart, jobs))
        if len(stored) == len(jobs):
            return {}
        return self._clashes(jobs, set(stored), held, now)

    def _insert_together(self, jobs: Sequence[NewJob]) -> list[str]:
        """Store what does not clash, by one statement. Their ids."""
        if len(jobs) >= COPY_FROM and are_plain(jobs):
            try:
                return self.db.write(partial(self._copy, jobs))
            except errors.UniqueViolation:  # of a call that is repeated: see below
                pass
        # Where finished jobs are soon removed, a job may be delivered and gone before a call whose
        # answer got lost is repeated: that must not store it again.
        kept = [self._settings.queue(name).retention_seconds for name in set(map(_QUEUE, jobs))]
        stays = all(one is None or one >= KEPT_SECONDS for one in kept)
        run = self.db.once if stays else self.db.write
        return run(partial(self._insert, jobs, patience_ms=PATIENCE_MS))

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

    def _insert_apart(self, jobs: Sequence[NewJob], tx: PgTx) -> tuple[list[str], set[Used]]:
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
                self._insert_parts(some, tx, stored, held)
        return stored, held

    def _insert_parts(
        self, jobs: Sequence[NewJob], tx: PgTx, stored: list[str], held: set[Used]
    ) -> None:
        """Part by part: a part that would wait is halved, and after one that was stored the next is
        twice as large. So a few jobs that would wait are found by few statements, and many cost one
        each."""
        at, size = 0, len(jobs)
        while part := jobs[at : at + size]:
            try:
                with tx.connection.transaction():
                    stored += self._insert(part, tx)
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
        self, jobs: Sequence[NewJob], tx: PgTx, patience_ms: int | None = None
    ) -> list[str]:
        with patient():
            found = tx.rows(*self.asked_insert(jobs, self._queue_lock, patience_ms))
        stored = [row[0] for row in found]
        there = set(stored)
        self._announce(tx, (job for job in jobs if job.id in there))
        return stored

    def asked_insert(
        self,
        jobs: Sequence[NewJob],
        lock_of: Callable[[str], int],
        patience_ms: int | None = None,
    ) -> Asked:
        """The statement that stores those of these jobs that clash neither with a stored one nor
        with one before them, and answers with their ids. It shares the locks of their queues.
        `patience_ms`: for how long it waits for others; None: as its transaction does."""
        is_plain = are_plain(jobs)
        if not is_plain and len(jobs) > 1:
            jobs = in_one_order(jobs)
        queues = sorted(set(map(_QUEUE, jobs)))
        spread = {queue: self._shards_of(queue) for queue in queues}
        columns = list(zip(*jobs, strict=True))
        params: dict[str, Any] = {
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
            params |= {name: list(one) for name, one in zip(names, columns[RARE], strict=True)}
        return "jobs", "insert_plain" if is_plain else "insert", params

    def _clashes(
        self, jobs: Sequence[NewJob], stored: set[str], held: set[Used], now: Moment
    ) -> Mapping[int, Clash | HeldByOthers]:
        """The clashes of the jobs that were not stored. `held`: ids, keys and queues that
        transactions of others have used. Many are looked for together, as in a call that is
        repeated; the others, for which somebody may have to be waited for, one by one."""
        left = not_stored(jobs, stored)
        patience_ms = NO_PATIENCE_MS if held else PATIENCE_MS
        free = {at: job for at, job in left.items() if held.isdisjoint(_needs(job))}
        clashes = self._clashes_together(free, now, patience_ms)
        for position, job in left.items():
            if position in clashes:
                continue
            if held.isdisjoint(_needs(job)):
                patience_ms = NO_PATIENCE_MS if held else PATIENCE_MS
                try:
                    clash = self.db.write(partial(self._clash, job, now, patience_ms))
                except Waited:
                    held.update([_replaces(job)] if job.replace else _uses(job))
                else:
                    if clash is not None:
                        clashes[position] = clash
                    continue
            is_queue = ("queue", job.queue) in held
            clashes[position] = HeldByOthers(why_held(job, is_queue=is_queue))
        return clashes

    def _clashes_together(
        self, new: Mapping[int, NewJob], now: Moment, patience_ms: int
    ) -> dict[int, Clash | HeldByOthers]:
        """Clashes that are found by a few statements, however many they are; the jobs that have the
        keys of the new ones are replaced."""
        if len(new) < 2:
            return {}
        seen = self.db.once(lambda tx: tx.follow(seen_clashes(new)))
        clashes: dict[int, Clash | HeldByOthers] = {**seen}
        left = list(to_replace(new, seen).items())
        with suppress(Waited):
            for start in range(0, len(left), REPLACED_AT_ONCE):
                part = dict(left[start : start + REPLACED_AT_ONCE])
                clashes |= self.db.write(partial(self._replace, part, now, patience_ms))
        return clashes

    def _replace(
        self, new: Mapping[int, NewJob], now: Moment, patience_ms: int, tx: PgTx
    ) -> dict[int, Clash]:
        with patient():
            be_patient(tx, patience_ms)
            clashes = tx.follow(replacing(self.db.address.schema, new, now))
        for position, clash in clashes.items():
            self._announce_new(tx, new[position], clash)
        return clashes

    def _clash(self, new: NewJob, now: Moment, patience_ms: int, tx: PgTx) -> Clash | None:
        """As `clashes.py: clashing`; listeners are told if a job waits in a new place."""
        schema = self.db.address.schema
        insert = partial(self.asked_insert, [new], self._queue_lock, patience_ms)
        with patient():
            clash = tx.follow(clashing(schema, new, insert, now, patience_ms))
        self._announce_new(tx, new, clash)
        return clash

    def _announce_new(self, tx: PgTx, new: NewJob, clash: Clash | None) -> None:
        for rank in new_ranks(new, clash):
            tx.tell(new.queue, new.due_at, rank)

    def _lock_waiting(
        self, tx: PgTx, job_ids: Sequence[str], whole: Sequence[str] = (), *, free: bool = False
    ) -> dict[str, FiledRow]:
        """As `clashes.py: locking`."""
        return tx.follow(locking(self.db.address.schema, job_ids, whole, free=free))


def _uses(job: NewJob) -> list[Used]:
    """Its id and key, which no other new job can have."""
    return [("id", job.id), *([] if job.key is None else [("key", job.queue, job.key)])]


def _replaces(job: NewJob) -> Used:
    """The job that has its key: only others that replace it, too, have to wait."""
    return ("replaced", job.queue, job.key or "")


def _needs(job: NewJob) -> list[Used]:
    """All that must not be held by others when it is stored."""
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
