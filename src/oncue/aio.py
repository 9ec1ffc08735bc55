"""The scheduler for asyncio: nothing blocks the loop, and calls made together share a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from oncue.core.errors import OncueError
from oncue.core.job import Job, NewJob
from oncue.scheduler import Scheduler
from oncue.usecases import intake
from oncue.usecases.claims import Completion
from oncue.usecases.gathering import Gathering, isolated, together
from oncue.usecases.jobs import submit_jobs

P = ParamSpec("P")
T = TypeVar("T")
JOBS_TOGETHER = 5000  # stored by one call
CALLS_TOGETHER = 256  # in one transaction


class AsyncScheduler:
    """For one event loop. `schedule` is `Scheduler.schedule`; `write` and `call` run any other
    method: `write` for what changes something, which then shares its commit with others."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._inserts: Gathering[NewJob, Job | None] = Gathering(
            lambda jobs: submit_jobs(scheduler, jobs), JOBS_TOGETHER
        )
        self._completions: Gathering[Completion, None] = Gathering(
            together(scheduler.store, self._complete), JOBS_TOGETHER
        )
        self._writes: Gathering[Callable[[], Any], Any] = Gathering(
            isolated(scheduler.store, scheduler.clock.monotonic), CALLS_TOGETHER
        )

    async def schedule(self, payload: Any = None, **fields: Any) -> Job:
        """Store a job; it is durable when this returns. Arguments as in `Scheduler.schedule`."""
        new = self.scheduler.ready({**fields, "payload": payload})
        return await self.insert(new) or intake.as_stored(new)

    def insert(self, job: NewJob) -> asyncio.Future[Job | None]:
        """Store a job that is ready; the job that was there before, or None: it is new."""
        return self._inserts.ask(job)

    def complete(self, report: Completion) -> asyncio.Future[None]:
        """`Scheduler.complete`, together with others."""
        return self._completions.ask(report)

    async def write(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the scheduler that writes, together with others; durable when this
        returns."""
        answer: T = await self._writes.ask(lambda: method(*args, **kwargs))
        return answer

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the scheduler off the loop's thread."""
        return await asyncio.to_thread(method, *args, **kwargs)

    def _complete(self, reports: list[Completion]) -> Sequence[OncueError | None]:
        return self.scheduler.complete_all(reports)
