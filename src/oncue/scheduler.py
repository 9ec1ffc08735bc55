"""The scheduler: what users hold. Every use case is one method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from oncue.core import moment
from oncue.core import payload as payloads
from oncue.core.changes import ChangeVerb, JobChange
from oncue.core.duration import Duration
from oncue.core.errors import Conflict, IdTaken, IllegalState, InvalidInput, KeyTaken
from oncue.core.explain import Explanation, Line, explain
from oncue.core.job import History, Job, JobFilter, NewJob, Page, Position
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import Moment
from oncue.core.queue import DEFAULT_QUEUE
from oncue.engine.engine import Engine
from oncue.engine.policies import Policies
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.jobs import Clash
from oncue.ports.store import Store
from oncue.sinks import open_sink
from oncue.stores import open_store
from oncue.telemetry.counters import Telemetry
from oncue.usecases import intake
from oncue.usecases.bulk import BulkChanges
from oncue.usecases.claims import Reporting, plain_id
from oncue.usecases.queues import Queues
from oncue.usecases.reclaim import Reclaiming
from oncue.usecases.rules import Rules
from oncue.usecases.schedules import Schedules
from oncue.worker.handlers import Handler, Handling

if TYPE_CHECKING:
    from oncue.worker.source import ClaimSource

CHUNK = 5000  # jobs that schedule_many stores at once,
CHUNK_BYTES = 16 * 1024 * 1024  # unless their payloads are large
IDS_KEPT = 10_000


@dataclass(slots=True)
class Tally:
    """What became of many jobs."""

    accepted: int = 0
    """Stored now or there already."""
    existing: int = 0
    ids: list[str] = field(default_factory=list)
    """In order, as long as there are no more than 10,000."""


class Scheduler(Reporting, BulkChanges, Rules, Schedules, Queues, Reclaiming, Handling):
    """Schedules work in a store, and does it or hands it over.

    `store` is a URL (`sqlite:///jobs.db`, `sqlite:////var/lib/jobs.db`, `memory:`) or a store.
    """

    def __init__(
        self, store: str | Store = "sqlite:///oncue.db", *, clock: Clock | None = None
    ) -> None:
        self.store = open_store(store, clock) if isinstance(store, str) else store
        self.clock = clock or self.store.clock
        self.handlers: dict[str, Handler] = {}
        now_and_after_fork(self, Scheduler._renew)

    def _renew(self) -> None:
        """What has locks, threads or counts of its own: made anew in a forked child."""
        self.policies = Policies(self.store, self.clock)
        self.telemetry = Telemetry(self.clock)
        self.engine = Engine(
            self.store,
            self.clock,
            lambda url: open_sink(url, self.clock),
            telemetry=self.telemetry,
            policies=self.policies,
        )
        self._running = False
        self._starting = Lock()

    # -- creating ------------------------------------------------------------------------------

    def schedule(
        self,
        payload: Any = None,
        *,
        queue: str = DEFAULT_QUEUE,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        owner: str | None = None,
        key: str | None = None,
        if_exists: str = "keep",
        priority: int = 0,
        expires_at: datetime | str | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        id: str | None = None,
    ) -> Job:
        """Store a job, due at a moment, after a delay, or now. It is durable when this returns.

        With a `key` that an unfinished job of the queue has: `if_exists` keep answers that job,
        replace gives it the new time and payload. A repeated `id` answers the first job.
        """
        fields = {
            "payload": payload,
            "queue": queue,
            "at": at,
            "delay": delay,
            "owner": owner,
            "key": key,
            "if_exists": if_exists,
            "priority": priority,
            "expires_at": expires_at,
            "max_attempts": max_attempts,
            "timeout_seconds": timeout_seconds,
            "id": id,
        }
        now = self.clock.now()
        job = intake.new_job(given(fields), now)
        clashes = self.store.insert([job], now)
        self.telemetry.count("jobs_created", 1 - len(clashes))
        return answer(job, clashes.get(0))

    def schedule_many(self, items: Iterable[Mapping[str, Any]], **defaults: Any) -> Tally:
        """Store many jobs, each a mapping of `schedule`'s arguments; `defaults` fill the gaps.

        Memory does not grow with their number. A bad item raises, naming its position; what came
        in full chunks before it is stored, and the error says how many.
        """
        tally = Tally()
        source = iter(items)
        while chunk := self._chunk(source, defaults, tally):
            clashes = self.store.insert(chunk, self.clock.now())
            self.telemetry.count("jobs_created", len(chunk) - len(clashes))
            for position, clash in clashes.items():
                if clash.kind in ("id taken", "key taken"):
                    place = f"item {tally.accepted + position + 1}"
                    stored = f"The others among the first {tally.accepted + len(chunk)} are stored."
                    raise Conflict(f"{place}: {_clash_text(clash)} {stored}")
                chunk[position] = chunk[position]._replace(id=clash.job.id)
            tally.accepted += len(chunk)
            tally.existing += len(clashes)
            if tally.accepted <= IDS_KEPT:
                tally.ids += [job.id for job in chunk]
            else:
                tally.ids.clear()
        return tally

    def _chunk(
        self, source: Iterator[Mapping[str, Any]], defaults: dict[str, Any], tally: Tally
    ) -> list[NewJob]:
        now = self.clock.now()
        chunk: list[NewJob] = []
        room = CHUNK_BYTES
        try:
            for item in islice(source, CHUNK):
                if item.__class__ is not dict and not isinstance(item, Mapping):
                    raise InvalidInput("must be a mapping of the fields of a job.")
                job = intake.new_job({**defaults, **item} if defaults else item, now)
                chunk.append(job)
                room -= len(job.payload)
                if room <= 0:
                    break
        except InvalidInput as problem:
            place = f"item {tally.accepted + len(chunk) + 1}{problem.pointer}"
            stored = f" The {tally.accepted} before this chunk are stored."
            raise InvalidInput(problem.detail + stored, place) from None
        return chunk

    # -- reading -------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        """The job as it is now."""
        return self._known(job_id)

    def history(self, job_id: str) -> History:
        """The job's operations, diagnostics and attempts."""
        return self.store.history(plain_id(job_id))

    def page(self, wanted: JobFilter, after: Position | None = None, limit: int = 50) -> Page:
        """One page of jobs in the order of due time; may be short and still have a next."""
        return self.store.page(wanted, after, limit)

    def jobs(
        self,
        *,
        queue: str | None = None,
        state: State | str | None = None,
        owner: str | None = None,
        key: str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
    ) -> Iterator[Job]:
        """All jobs that fit, in the order of due time, fetched page by page."""
        wanted = intake.job_filter(queue, state, owner, key, due_after, due_before)
        after: Position | None = None
        while True:
            page = self.store.page(wanted, after, 500)
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def explain(self, job_id: str) -> Explanation:
        """Why the job has not run, or is where it is."""
        job, now = self._known(job_id), self.clock.now()
        line = Line()
        if job.state is State.SCHEDULED and (due_at := moment.from_datetime(job.due_at)) <= now:
            longer = sum(self.store.due_counts(job.queue, 0, due_at, now + 1).values())
            also = sum(self.store.due_counts(job.queue, due_at, now + 1, now + 1).values())
            counts = self.store.stats(job.queue).counts
            taken = [counts[state] for state in LIVE if state in counts]
            line = Line(longer + also, longer, sum(taken) if taken else None)
        return explain(job, self.queue(job.queue), self.history(job_id), now, line)

    # -- changing ------------------------------------------------------------------------------

    def reschedule(
        self,
        job_id: str,
        *,
        at: datetime | str | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        payload: Any = ...,
    ) -> Job:
        """Give a scheduled job another time, priority or payload."""
        now, job_id = self.clock.now(), plain_id(job_id)
        new = given({"at": at, "delay": delay})
        if priority is not None:
            intake.check_priority(priority)
        change = JobChange(
            ChangeVerb.AMEND,
            due_at=intake.due(new, now) if new else None,
            priority=priority,
            payload=None if payload is ... else payloads.encode(payload),
        )
        return self._change("reschedule", job_id, change, now)

    def cancel(self, job_id: str, *, running: bool = False) -> Job:
        """End a scheduled job: it will not be delivered. With `running`, a taken job is asked to
        stop; it ends cancelled once its worker notices."""
        stop = [JobChange(ChangeVerb.STOP)] if running else []
        return self._change("cancel", job_id, JobChange(ChangeVerb.CANCEL), self.clock.now(), *stop)

    def run(self, job_id: str) -> Job:
        """Make a scheduled job due now. One that is due already keeps its place in the line, and
        one that is put off gets it back."""
        return self._change("run", job_id, JobChange(ChangeVerb.RUN), self.clock.now())

    def retry(self, job_id: str) -> Job:
        """Make a failed or cancelled job due again, now, with its attempts anew."""
        return self._change("retry", job_id, JobChange(ChangeVerb.REVIVE), self.clock.now())

    def _change(
        self, verb: str, job_id: str, change: JobChange, now: Moment, *instead: JobChange
    ) -> Job:
        """The job as it is then. The changes in `instead` are for a job whose state forbids the one
        before."""
        job_id = plain_id(job_id)
        why = self.store.change([job_id], change, now).get(0)
        for other in instead:
            if why is not None and why.reason == "state":
                why = self.store.change([job_id], other, now).get(0)
        job = self._known(job_id)
        if why is not None and why.reason == "key":
            raise KeyTaken(
                f"cannot {verb} job {job_id}: another unfinished job of queue {job.queue} "
                f"has its key {job.key!r}. Cancel that one first."
            )
        if why is not None and why.reason == "state":
            state = why.state or job.state
            raise IllegalState(f"cannot {verb} job {job_id}: it is {state}.", state)
        return job

    # -- doing -----------------------------------------------------------------------------------

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the store."""
        from oncue.worker.source import LocalClaimSource

        return LocalClaimSource(self, worker)

    def _before_work(self) -> None:
        self.run_loops()

    def run_loops(self) -> None:
        """Start the loops in the background: dispatchers, recurrer, reclaimer, pruner."""
        with self._starting:  # requests of several threads may ask for it at once
            if not self._running:
                self._running = True
                self.engine.start()

    def close(self) -> None:
        """Stop the loops, finish deliveries under way, give the store back."""
        if self._running:
            self._running = False
            self.engine.stop(30.0)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def answer(new: NewJob, clash: Clash | None) -> Job:
    """The job that a request to create one leads to."""
    if clash is None:
        return intake.as_stored(new)
    if clash.kind == "id taken":
        raise IdTaken(_clash_text(clash))
    if clash.kind == "key taken":
        raise KeyTaken(_clash_text(clash))
    return clash.job


def _clash_text(clash: Clash) -> str:
    if clash.kind == "id taken":
        return (
            f"a job with the id {clash.job.id!r} exists and was created with other fields. "
            "Choose another id, or send the same fields to get that job."
        )
    return (
        f"the key {clash.job.key!r} belongs to job {clash.job.id}, which is {clash.job.state} "
        "and can no longer be replaced. Wait until it ends, or use another key."
    )


def given(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given; None means not given."""
    return {name: value for name, value in fields.items() if value is not None}
