"""Jobs: store them, look at them, change them.

However jobs arrive (`schedule`, HTTP, a file, tasks), they are stored by `LocalJobs`, which alone
calls the store's `insert` and counts what was created, once it is durable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar, Unpack

from oncue.core import errors, moment
from oncue.core import payload as payloads
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.changes import ANY, ChangeVerb, JobChange
from oncue.core.cursor import MOST_ITEMS, Cursor, check_page, every_item
from oncue.core.duration import Duration
from oncue.core.explain import Backlog, Explanation, explain
from oncue.core.job import History, Job, JobFilter, JobPage, NewJob
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.core.steps import driven
from oncue.core.text import quoted
from oncue.engine.alarm import Alarm
from oncue.usecases import intake, storing
from oncue.usecases.intake import FilterFields, JobFields
from oncue.usecases.local import Local
from oncue.usecases.outbox import outbox_of
from oncue.usecases.queues import queue_of
from oncue.usecases.storing import Stored, StoredJobs, Tally

CHUNK = 5000  # jobs that schedule_many stores at once,
CHUNK_BYTES = 4 * 1024 * 1024  # unless their payloads are large

T = TypeVar("T")


def chunks(
    items: Iterable[T], size: Callable[[T], int], most: int, most_bytes: int
) -> Iterator[list[T]]:
    """Lists of at most so many items, shorter if these are large."""
    chunk: list[T] = []
    room = most_bytes
    for item in items:
        chunk.append(item)
        room -= size(item)
        if room <= 0 or len(chunk) == most:
            yield chunk
            chunk, room = [], most_bytes
    if chunk:
        yield chunk


class JobVerbs(ABC, Generic[T]):
    """The methods of a scheduler and of a client about jobs. T is a job that is ready to be
    stored."""

    def schedule(
        self, payload: Any = None, *, connection: object = None, **fields: Unpack[JobFields]
    ) -> Job:
        """Store a job, due at a moment, after a delay, or now. It is durable when this returns.

        With a `key` that an unfinished job of the queue has: `if_exists` keep answers that job,
        replace gives it the new time and payload. A repeated `id` answers the first job. With
        `connection`, it is stored in the transaction of that connection, and durable with it
        (PostgreSQL).
        """
        return self.store_job({**fields, "payload": payload}, connection).job

    def schedule_many(
        self, items: Iterable[Mapping[str, Any]], *, connection: object = None, **defaults: Any
    ) -> Tally:
        """Store many jobs, each a mapping of `schedule`'s arguments; `defaults` fill the gaps.

        Memory does not grow with their number. A bad item raises, naming its position; what came
        in full chunks before it is stored, and the error says how many. `connection`: as in
        `schedule`.
        """
        return driven(
            self._chunk_by_chunk(items, defaults), lambda jobs: self.store_jobs(jobs, connection)
        )

    def _chunk_by_chunk(
        self, items: Iterable[Mapping[str, Any]], defaults: dict[str, Any]
    ) -> Generator[list[T], StoredJobs, Tally]:
        """`schedule_many`: asks for each chunk to be stored."""
        tally, source = Tally(), iter(items)
        while chunk := self._next_chunk(source, defaults, tally):
            stored = yield chunk
            for position in sorted(stored.refused):
                raise _at_item(
                    stored.refused[position],
                    tally.accepted + position + 1,
                    f" The others among the first {tally.accepted + len(chunk)} are stored.",
                )
            tally.add(stored)
        return tally

    def _next_chunk(
        self, source: Iterator[Mapping[str, Any]], defaults: dict[str, Any], tally: Tally
    ) -> list[T]:
        chunk: list[T] = []
        room, ready, size = CHUNK_BYTES, self.ready, self._size
        try:
            for item in islice(source, CHUNK):
                if item.__class__ is not dict and not isinstance(item, Mapping):
                    raise errors.InvalidInput("must be a mapping of the fields of a job.")
                job = ready({**defaults, **item} if defaults else item)
                chunk.append(job)
                room -= size(job)
                if room <= 0:
                    break
        except errors.InvalidInput as problem:
            count = tally.accepted
            stored = f" The first {count:,} are stored." if count else " Nothing was stored."
            raise _at_item(problem, tally.accepted + len(chunk) + 1, stored) from None
        return chunk

    @abstractmethod
    def store_job(self, fields: Mapping[str, Any], connection: object = None) -> Stored:
        """As `schedule`, with its arguments as fields; and whether the job was there before."""

    @abstractmethod
    def ready(self, fields: Mapping[str, Any]) -> T:
        """The job that these fields describe, as `store_jobs` takes it."""

    @abstractmethod
    def store_jobs(self, jobs: Sequence[T], connection: object = None) -> StoredJobs:
        """Store these jobs, each by itself, and tell what became of each."""

    @abstractmethod
    def _size(self, job: T) -> int:
        """About how many bytes it has."""

    def jobs(self, **filters: Unpack[FilterFields]) -> Iterator[Job]:
        """All jobs that fit, in the order of due time, fetched page by page."""
        wanted = intake.job_filter(filters)
        return every_item(partial(self.page, wanted))

    @abstractmethod
    def job(self, job_id: str) -> Job:
        """The job as it is now."""

    @abstractmethod
    def history(self, job_id: str, after: Cursor | None = None) -> History:
        """The job's operations, diagnostics and attempts. Of very many operations it has the first,
        and `operations_cursor`: as `after` that gives the next ones, and nothing else."""

    @abstractmethod
    def explain(self, job_id: str) -> Explanation:
        """Why the job has not run, or is where it is."""

    @abstractmethod
    def page(self, wanted: JobFilter, after: Cursor | None = None, limit: int = 50) -> JobPage:
        """One page of jobs in the order of due time; may be short and still have a next, which is
        what `after` takes."""

    def reschedule(
        self,
        job_id: str,
        *,
        due_at: datetime | str | None = None,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        payload: Any = ...,
    ) -> Job:
        """Give a scheduled job another time, priority or payload. `at` is another name for
        `due_at`."""
        body = None if payload is ... else payloads.encode(payload)
        return self._amend(job_id, {"due_at": due_at, "at": at, "delay": delay}, priority, body)

    @abstractmethod
    def _amend(
        self, job_id: str, due: Mapping[str, Any], priority: int | None, payload: bytes | None
    ) -> Job:
        """`reschedule`; `due` has the fields that say when."""

    def cancel(self, job_id: str, *, running: bool = False) -> Job:
        """End a scheduled job: it will not be delivered. With `running`, a taken job is asked to
        stop; it ends cancelled once its worker notices."""
        return self._change(job_id, BulkVerb.CANCEL, running)

    def run(self, job_id: str) -> Job:
        """Make a scheduled job due now. One that is due already keeps its place in the line, and
        one that is put off gets it back."""
        return self._change(job_id, BulkVerb.RUN)

    def retry(self, job_id: str) -> Job:
        """Make a failed or cancelled job due again, now, with its attempts anew."""
        return self._change(job_id, BulkVerb.RETRY)

    @abstractmethod
    def _change(self, job_id: str, verb: BulkVerb, running: bool = False) -> Job:
        """Do to one job what the bulk verb does to many; the job as it is then."""


def _at_item(problem: errors.OncueError, number: int, more: str) -> errors.OncueError:
    """The same problem, with the number of the item that has it."""
    if isinstance(problem, errors.InvalidInput):
        return type(problem)(problem.detail + more, f"item {number}{problem.pointer}")
    kind = errors.StoreUnavailable if isinstance(problem, errors.HeldByOthers) else errors.Conflict
    return kind(f"item {number}: {problem}{more}")


class LocalJobs(Local, JobVerbs[NewJob]):
    """The jobs of a store."""

    def ready(self, fields: Mapping[str, Any]) -> NewJob:
        return intake.new_job(fields, self.clock.now())

    def _size(self, job: NewJob) -> int:
        return len(job.payload)

    def store_job(self, fields: Mapping[str, Any], connection: object = None) -> Stored:
        new = self.ready(fields)
        return storing.stored_one(new, self._insert_in_time([new], connection))

    def store_jobs(self, jobs: Sequence[NewJob], connection: object = None) -> StoredJobs:
        return storing.stored_all(jobs, self._insert_in_time(jobs, connection) if jobs else {})

    def _insert_in_time(self, jobs: Sequence[NewJob], connection: object = None) -> storing.Met:
        """Store jobs; those that a transaction of others holds are asked for again for a while."""
        met = self._insert(jobs, connection)
        if not met or not storing.held_in(met):
            return met
        alarm, ends = Alarm(self.clock), self.clock.monotonic() + storing.HELD_SECONDS
        while (held := storing.held_in(met)) and self.clock.monotonic() < ends:
            alarm.pause(storing.HELD_REST_SECONDS)
            again = self._insert([jobs[at] for at in held])
            met = {at: answer for at, answer in met.items() if at not in held}
            met |= {held[at]: answer for at, answer in again.items()}
        return met

    def _insert(self, jobs: Sequence[NewJob], connection: object = None) -> storing.Met:
        """Store jobs, and count the new ones. Waits for nobody."""
        steps = storing.inserting(self, jobs)
        insert = self.store.insert
        if connection is not None:
            insert = partial(outbox_of(self.store).insert, connection)
        return driven(steps, lambda wanted: insert(wanted, self.clock.now()))

    def job(self, job_id: str) -> Job:
        found = self.store.get(possible_id(job_id))
        if found is None:
            raise unknown(job_id)
        return found

    def history(self, job_id: str, after: Cursor | None = None) -> History:
        return history_of(self, job_id, after)

    def page(self, wanted: JobFilter, after: Cursor | None = None, limit: int = 50) -> JobPage:
        check_page(after, limit)
        return self.store.page(wanted, after, limit)

    def explain(self, job_id: str) -> Explanation:
        job, now = self.job(job_id), self.clock.now()
        backlog = Backlog()
        if job.state is State.SCHEDULED and (due_at := moment.from_datetime(job.due_at)) <= now:
            with suppress(errors.NotSupported):
                longer = sum(self.store.due_counts(job.queue, 0, due_at, now + 1).values())
                also = sum(self.store.due_counts(job.queue, due_at, now + 1, now + 1).values())
                counts = self.store.stats(job.queue).counts
                taken = [counts[state] for state in LIVE if state in counts]
                backlog = Backlog(longer + also, longer, sum(taken) if taken else None)
        return explain(job, queue_of(self.store, job.queue), self.history(job_id), now, backlog)

    def _amend(
        self, job_id: str, due: Mapping[str, Any], priority: int | None, payload: bytes | None
    ) -> Job:
        now = self.clock.now()
        due_at = None if set(due.values()) == {None} else intake.due(due, now)
        if priority is not None:
            intake.check_priority(priority)
        if payload is not None:
            self._check_sendable(self.job(job_id).queue, payload)
        change = JobChange(ChangeVerb.AMEND, due_at=due_at, priority=priority, payload=payload)
        return self._apply("reschedule", job_id, [change], now)

    def _change(self, job_id: str, verb: BulkVerb, running: bool = False) -> Job:
        changes = BulkChange(verb, LATEST, running).parts(ANY)
        return self._apply(verb, job_id, changes, self.clock.now())

    def _apply(self, verb: str, job_id: str, changes: Sequence[JobChange], now: Moment) -> Job:
        """Each change is for a job whose state forbids the one before. The job as it is then."""
        job_id = possible_id(job_id)
        for change in changes:
            changed = self.store.change([job_id], change, now)
            why = changed.refused.get(0)
            if why is None or why.reason != "state":
                break
        job = changed.first
        if job is None:
            raise unknown(job_id)
        if why is not None and why.reason == "key":
            raise errors.KeyTaken(
                f"cannot {verb} job {job_id}: another unfinished job of queue {job.queue} "
                f"has its key {job.key!r}. Cancel that one first."
            )
        if why is not None and why.reason == "state":
            raise illegal(verb, job)
        return job


def history_of(
    cue: LocalJobs, job_id: str, after: Cursor | None, limit: int = MOST_ITEMS
) -> History:
    """`history`, with at most so many operations."""
    check_page(after, limit)
    found = cue.store.history(possible_id(job_id), after, limit)
    if found == History():
        cue.job(job_id)  # which says so if there is none
    return found


def insert_all(cue: LocalJobs, jobs: Sequence[NewJob]) -> Sequence[Job | errors.OncueError | None]:
    """Store jobs that are ready, of callers who have nothing to do with each other. For each: the
    job that was there, why it is refused, or None: it is new."""
    met = cue._insert(jobs)
    return [met.get(position) for position in range(len(jobs))] if met else [None] * len(jobs)


def illegal(verb: str, job: Job, why: str = "") -> errors.IllegalState:
    text = f"cannot {verb} job {job.id}: it {job.state.in_words}{why}."
    return errors.IllegalState(text, job.state)


def unknown(job_id: str) -> errors.NotFound:
    return errors.NotFound(
        f"there is no job {quoted(job_id)}; it may be finished and past retention."
    )


def possible_id(job_id: str) -> str:
    """The id, if any job can have it."""
    try:
        job_id.encode()
    except (AttributeError, UnicodeEncodeError):
        raise unknown(job_id) from None
    if not job_id:
        raise unknown(job_id)
    return job_id
