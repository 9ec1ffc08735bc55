"""The scheduler for asyncio: nothing blocks the loop, and calls made together share a commit.

Jobs that are scheduled in one turn of the loop are stored by one call; while that call is under way
the next ones gather. Everything else runs as it is, off the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from oncue import intake
from oncue.core.errors import OncueError
from oncue.core.job import Job, NewJob
from oncue.ports.jobs import Clash
from oncue.scheduler import Scheduler, answer, given

P = ParamSpec("P")
T = TypeVar("T")
GATHERED_LIMIT = 5000  # jobs stored by one call


class AsyncScheduler:
    """For one event loop. `schedule` is `Scheduler.schedule`; `call` runs any other method."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._store = scheduler.store
        self._clock = scheduler.clock
        self._gathered: list[tuple[NewJob, asyncio.Future[Job]]] = []
        self._storing = False

    async def schedule(self, payload: Any = None, **members: Any) -> Job:
        """Store a job; it is durable when this returns. Arguments as in `Scheduler.schedule`."""
        members["payload"] = payload
        if None in members.values():
            members = given(members)
        return await self.store(intake.new_job(members, self._clock.now()))

    def store(self, job: NewJob) -> asyncio.Future[Job]:
        """Store a job that was taken in already."""
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[Job] = loop.create_future()
        if not self._gathered and not self._storing:
            loop.call_soon(self._flush, loop)
        self._gathered.append((job, stored))
        return stored

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the scheduler off the loop's thread."""
        return await asyncio.to_thread(method, *args, **kwargs)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        group = self._gathered[:GATHERED_LIMIT]
        del self._gathered[:GATHERED_LIMIT]
        if not group:
            return
        self._storing = True
        jobs = [job for job, _ in group]
        try:
            done = self._store.submit(lambda: self._store.insert(jobs, self._clock.now()))
        except OncueError as trouble:
            done = Future()
            done.set_exception(trouble)
        done.add_done_callback(
            lambda future: loop.call_soon_threadsafe(self._answer, loop, group, future)
        )

    def _answer(
        self,
        loop: asyncio.AbstractEventLoop,
        group: list[tuple[NewJob, asyncio.Future[Job]]],
        done: Future[Any],
    ) -> None:
        self._storing = False
        self._flush(loop)
        trouble = done.exception()
        clashes: dict[int, Clash] = {} if trouble else done.result()
        for position, (job, stored) in enumerate(group):
            if stored.done():  # whoever asked has gone; the job is stored all the same
                continue
            if trouble is not None:
                stored.set_exception(trouble)
                continue
            try:
                stored.set_result(answer(job, clashes.get(position)))
            except Exception as refusal:
                stored.set_exception(refusal)
