"""The client: what users on another machine hold. Every use case of `Scheduler` is one method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from oncue.client.address import address_of, bearer_of
from oncue.client.asking import encode, moment_text, seconds_of, value_of
from oncue.client.bulk import RemoteChanges
from oncue.client.claims import RemoteReporting
from oncue.client.connection import AnswerLost, Connection, Request, path, query
from oncue.client.jobs import RemoteStoring
from oncue.client.reclaim import RemoteReclaiming
from oncue.client.rules import RemoteRules
from oncue.client.schedules import RemoteSchedules
from oncue.clock import SystemClock
from oncue.core import payload as payloads
from oncue.core.duration import Duration
from oncue.core.errors import InvalidInput, NotFound
from oncue.core.explain import Explanation
from oncue.core.job import History, Job, JobFilter
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import Moment, parse, render
from oncue.core.queue import Queue, QueueStats, check_queue_name
from oncue.ports.clock import Clock
from oncue.usecases import intake
from oncue.wire import jobs as wire
from oncue.wire.converting import read
from oncue.wire.queues import DueCounts, Queues
from oncue.wire.queues import Queue as QueueShape
from oncue.worker.handlers import Handler, Handling

if TYPE_CHECKING:
    from oncue.client.claim_source import RemoteClaimSource
    from oncue.worker.source import ClaimSource

PAGE = 500
_TAKEN_OR_DONE = LIVE | {State.SUCCEEDED}


@dataclass(frozen=True, slots=True)
class RemotePage:
    """One page of jobs. `next` is where the next one begins, in the server's own words."""

    items: list[Job]
    next: str | None


class Client(
    RemoteStoring,
    RemoteReporting,
    RemoteReclaiming,
    RemoteRules,
    RemoteSchedules,
    RemoteChanges,
    Handling,
):
    """Schedules and does work at a server (`oncue serve`), with the methods of a `Scheduler`.

    `token` is an API token; without one, `ONCUE_TOKEN` is used if it is set. `timeout_seconds`
    bounds the wait for an answer, and for how long a call is repeated while the server is away.
    Safe to use from many threads; make one for each process.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8420",
        token: str | None = None,
        *,
        timeout_seconds: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(timeout_seconds, int | float) or not 0 < timeout_seconds <= 86_400:
            raise InvalidInput("must be more than 0 and at most a day.", "/timeout_seconds")
        self.clock = clock or SystemClock()
        self.handlers: dict[str, Handler] = {}
        self._sources: list[RemoteClaimSource] = []
        self.connection = Connection(
            address_of(url), bearer_of(token), float(timeout_seconds), self.clock
        )

    def __repr__(self) -> str:
        return f"Client({self.connection.address.url!r})"

    # -- reading -------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        """The job as it is now."""
        return self._ask_for(_about_job(job_id), wire.JobWithHistory, wire.Job.read)

    def history(self, job_id: str) -> History:
        """The job's operations, diagnostics and attempts."""
        return self._ask_for(_about_job(job_id), wire.JobWithHistory, wire.JobWithHistory.history)

    def page(self, wanted: JobFilter, after: str | None = None, limit: int = 50) -> RemotePage:
        """One page of jobs in the order of due time; may be short and still have a next, which is
        what `after` takes."""
        fields = {
            "queue": wanted.queue,
            "state": wanted.state,
            "owner": wanted.owner,
            "key": wanted.key,
            "due_after": None if wanted.due_after is None else render(wanted.due_after),
            "due_before": None if wanted.due_before is None else render(wanted.due_before),
            "limit": limit,
            "cursor": after,
        }
        body = self._ask(Request("GET", "/jobs" + query(fields)), wire.Jobs)
        items = [value_of(self.connection, one, wire.Job.read) for one in body.items]
        return RemotePage(items, body.next_cursor)

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
        after: str | None = None
        while True:
            page = self.page(wanted, after, PAGE)
            yield from page.items
            if page.next is None:
                return
            after = page.next

    def explain(self, job_id: str) -> Explanation:
        """Why the job has not run, or is where it is."""
        request = Request("GET", path("jobs", job_id, "explain"), job_id=job_id)
        return self._ask_for(request, wire.Explanation, partial(read, Explanation))

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
        fields = {
            "due_at": moment_text(at, "/at"),
            "delay": seconds_of(delay),
            "priority": priority,
            "payload": None if payload is ... else msgspec.Raw(payloads.encode(payload)),
        }
        request = Request("PATCH", path("jobs", job_id), encode(fields), job_id=job_id)
        return self._ask_for(request, wire.Job, wire.Job.read)

    def cancel(self, job_id: str, *, running: bool = False) -> Job:
        """End a scheduled job: it will not be delivered. With `running`, a taken job is asked to
        stop; it ends cancelled once its worker notices."""
        place = path("jobs", job_id) + query({"running": "true" if running else None})
        return self._change(
            Request("DELETE", place, repeatable=False, job_id=job_id),
            lambda job: job.state is State.CANCELLED or (running and job.cancel_requested),
        )

    def run(self, job_id: str) -> Job:
        """Make a scheduled job due now. One that is due already keeps its place in the line."""
        request = Request("POST", path("jobs", job_id, "run"), repeatable=False, job_id=job_id)
        return self._change(request, lambda job: job.state in _TAKEN_OR_DONE)

    def retry(self, job_id: str) -> Job:
        """Make a failed or cancelled job due again, now, with its attempts anew."""
        request = Request("POST", path("jobs", job_id, "retry"), repeatable=False, job_id=job_id)
        done = _TAKEN_OR_DONE | {State.SCHEDULED}
        return self._change(request, lambda job: job.state in done)

    def _change(self, request: Request, made: Callable[[Job], bool]) -> Job:
        """Ask for a change. A second request would be refused because of the first, so if the
        answer is lost, look whether the change was made before asking again."""
        try:
            return self._ask_for(request, wire.Job, wire.Job.read)
        except AnswerLost:
            job = self.job(request.job_id)
            if made(job):
                return job
            return self._ask_for(request, wire.Job, wire.Job.read)

    # -- queues ----------------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The settings of a queue; one never set has the defaults."""
        return self._ask_for(_about(name), QueueShape, QueueShape.settings)

    def queues(self) -> list[Queue]:
        """The settings of every queue that was set or has held a job, by name."""
        return [queue for queue, _ in self.queues_with_stats()]

    def queues_with_stats(self) -> list[tuple[Queue, QueueStats]]:
        """As `queues`, each with what `stats` tells, in as few requests as possible."""
        found: list[tuple[Queue, QueueStats]] = []
        after: str | None = None
        while True:
            request = Request("GET", "/queues" + query({"limit": PAGE, "cursor": after}))
            body = self._ask(request, Queues)
            found += [
                value_of(self.connection, one, lambda one: (one.settings(), one.stats()))
                for one in body.items
            ]
            if body.next_cursor is None:
                return found
            after = body.next_cursor

    def set_queue(self, name: str, **settings: Any) -> Queue:
        """Replace all settings of a queue, as `Scheduler.set_queue` does. What is not given is
        default."""
        queue = intake.queue(name, settings)
        fields = {k: v for k, v in asdict(queue).items() if k not in ("name", "paused")}
        request = Request("PUT", path("queues", name), msgspec.json.encode(fields))
        return self._ask_for(request, QueueShape, QueueShape.settings)

    def delete_queue(self, name: str) -> None:
        """Delete a queue with its settings and finished jobs, as `Scheduler.delete_queue` does."""
        request = Request("DELETE", path("queues", check_queue_name(name)), repeatable=False)
        try:
            self.connection.ask(request)
        except AnswerLost:
            with suppress(NotFound):  # the first request did it
                self.connection.ask(request)

    def pause(self, name: str) -> None:
        """Take and deliver nothing of this queue until it is resumed; due work waits."""
        self._ask(Request("POST", path("queues", check_queue_name(name), "pause")), dict[str, Any])

    def resume(self, name: str) -> None:
        """Take and deliver again."""
        self._ask(Request("POST", path("queues", check_queue_name(name), "resume")), dict[str, Any])

    def stats(self, name: str) -> QueueStats:
        """How many jobs of the queue are in each state, the oldest due one, and how late first
        attempts began at the server."""
        return self._ask_for(_about(name), QueueShape, QueueShape.stats)

    def due_counts(
        self, name: str, since: Moment, until: Moment, step_ms: int
    ) -> Mapping[Moment, int]:
        """How many scheduled jobs are due in each step of [since, until), by its beginning."""
        asked = {"from": render(since), "until": render(until), "step_seconds": step_ms / 1000}
        place = path("queues", check_queue_name(name), "due-counts") + query(asked)
        body = self._ask(Request("GET", place), DueCounts)
        return value_of(
            self.connection, body, lambda body: {parse(one.at): one.count for one in body.items}
        )

    # -- doing -----------------------------------------------------------------------------------

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the server."""
        from oncue.client.claim_source import RemoteClaimSource

        source = RemoteClaimSource(self, worker)
        self._sources.append(source)
        return source

    def close(self) -> None:
        """Give the connections back."""
        for source in self._sources:
            source.close()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _about_job(job_id: str) -> Request:
    return Request("GET", path("jobs", job_id), job_id=job_id)


def _about(queue: str) -> Request:
    return Request("GET", path("queues", check_queue_name(queue)))
