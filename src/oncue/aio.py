"""The scheduler for asyncio: nothing blocks the loop, and calls made together share a commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar

from oncue.core.errors import HeldByOthers, InvalidInput, OncueError, StoreUnavailable
from oncue.core.fencing import Settlement
from oncue.core.job import Claimed, Job, NewJob
from oncue.core.lease import Touch, Touched
from oncue.core.lifecycle import State, Verb
from oncue.core.sharing import Taker
from oncue.core.steps import driven_async
from oncue.engine.claiming import Claiming
from oncue.scheduler import Scheduler
from oncue.usecases import intake, reporting, storing
from oncue.usecases.gathering import Gathering
from oncue.usecases.jobs import insert_all
from oncue.usecases.outbox import outbox_of
from oncue.usecases.storing import Tally

P = ParamSpec("P")
T = TypeVar("T")
TOGETHER = 5000  # requests that are done by one call
CLAIMS_TOGETHER = 64


class ClaimRequest(NamedTuple):
    """A request for due jobs of these queues."""

    queues: tuple[str, ...]
    taker: Taker


class AsyncScheduler:
    """For one event loop. Calls that are made at the same time are gathered by kind, and each group
    is one call of the store: new jobs, ends of claims, signs of life, claims. `schedule`, `start`,
    `heartbeat`, `complete`, `fail` and `release` are those of `Scheduler`; `write` and `call` run
    any other method of it. The rest is for servers. It is closed with the scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        if not isinstance(scheduler, Scheduler):
            raise InvalidInput(
                "AsyncScheduler takes a Scheduler, as in AsyncScheduler(Scheduler("
                "'sqlite:///jobs.db')), and was given something of type "
                f"{type(scheduler).__name__}."
            )
        self.scheduler = scheduler
        self._threads = scheduler.threads
        groups = scheduler.store.traits.groups
        in_turn = groups == 1
        self._inserts: Gathering[NewJob, Job | None] = Gathering(
            partial(insert_all, scheduler),
            scheduler.insert_thread if in_turn else self._threads,
            TOGETHER,
            groups=groups,
            ahead=in_turn,
        )
        self._keyed_inserts: Gathering[NewJob, Job | None] = Gathering(
            partial(insert_all, scheduler), self._threads, TOGETHER, groups=groups
        )
        """Apart, with those who wait a little for an open transaction that has the same key."""
        self._held_inserts: Gathering[NewJob, Job | None] = Gathering(
            partial(insert_all, scheduler), self._threads, TOGETHER
        )
        """Jobs that such a transaction holds for longer: nobody else waits for them."""
        self._settlements: Gathering[Settlement, State] = Gathering(
            partial(reporting.settle_all, scheduler), self._threads, TOGETHER, groups=groups
        )
        self._touches: Gathering[Touch, Touched] = Gathering(
            partial(reporting.touch_all, scheduler), self._threads, TOGETHER, groups=groups
        )
        self._claims: Gathering[ClaimRequest, list[Claimed]] = Gathering(
            self._claim_all, self._threads, CLAIMS_TOGETHER, groups=groups
        )
        self._unanswered: deque[Claiming] = deque()

    async def schedule(
        self, payload: Any = None, *, connection: object = None, **fields: Any
    ) -> Job:
        """Store a job; it is durable when this returns. Arguments as in `Scheduler.schedule`; a
        `connection` is one of asyncio."""
        fields["payload"] = payload
        new = self.scheduler.ready(fields)
        if connection is not None:
            return storing.stored_one(new, await self._insert_within(connection, [new])).job
        try:
            found = await self._gathered(new)
        except HeldByOthers:
            found = await self._insert_held(new)
        return found or intake.as_stored(new)

    async def schedule_many(
        self, items: Iterable[Mapping[str, Any]], *, connection: object = None, **defaults: Any
    ) -> Tally:
        """`Scheduler.schedule_many`; a `connection` is one of asyncio."""
        if connection is None:
            return await self.write(self.scheduler.schedule_many, items, **defaults)

        async def store(jobs: Sequence[NewJob]) -> storing.StoredJobs:
            return storing.stored_all(jobs, await self._insert_within(connection, jobs))

        return await driven_async(self.scheduler._chunk_by_chunk(items, defaults), store)

    async def _insert_within(self, connection: object, jobs: Sequence[NewJob]) -> storing.Met:
        """Store jobs in a transaction of the caller."""
        cue, insert = self.scheduler, outbox_of(self.scheduler.store).insert_async
        await self.call(cue.policies, jobs[0].queue)  # read off the loop's thread, for all queues
        return await driven_async(
            storing.inserting(cue, jobs),
            lambda wanted: insert(connection, wanted, cue.clock.now()),
        )

    async def insert(self, job: NewJob) -> Job | None:
        """Store a job that is ready; the job that was there before, or None: it is new."""
        try:
            return await self._gathered(job)
        except HeldByOthers:
            return await self._insert_held(job)

    def _gathered(self, job: NewJob) -> asyncio.Future[Job | None]:
        is_keyed = job.key is not None or job.digest is not None
        return (self._keyed_inserts if is_keyed else self._inserts).ask(job)

    async def _insert_held(self, job: NewJob) -> Job | None:
        """Ask again for a while, as `LocalJobs` does."""
        monotonic = self.scheduler.clock.monotonic
        ends = monotonic() + storing.HELD_SECONDS
        while True:
            await asyncio.sleep(storing.HELD_REST_SECONDS)
            try:
                return await self._held_inserts.ask(job)
            except HeldByOthers:
                if monotonic() >= ends:
                    raise

    def claim(self, queues: Sequence[str], taker: Taker) -> asyncio.Future[list[Claimed]]:
        """For servers; elsewhere `write(scheduler.claim, …)`. Take due jobs, together with others.
        Those of which the answer gets lost are released as soon as the store can be reached."""
        return self._claims.ask(ClaimRequest(tuple(queues), taker))

    async def start(self, job_id: str, token: str) -> Touched:
        """`Scheduler.start`, together with others."""
        return await self._touches.ask(reporting.started(self.scheduler, job_id, token))

    async def heartbeat(self, job_id: str, token: str, **fields: Any) -> Touched:
        """`Scheduler.heartbeat`, together with others."""
        return await self._touches.ask(reporting.heartbeat(self.scheduler, job_id, token, **fields))

    async def complete(self, job_id: str, token: str, result: Any = None) -> None:
        """`Scheduler.complete`, together with others."""
        await self._settlements.ask(reporting.completion(self.scheduler, job_id, token, result))

    async def fail(self, job_id: str, token: str, error: str, **fields: Any) -> State:
        """`Scheduler.fail`, together with others; the state of the job then."""
        failure = reporting.failure(self.scheduler, job_id, token, error, **fields)
        return await self._settlements.ask(failure)

    async def release(self, job_id: str, token: str) -> State:
        """`Scheduler.release`, together with others; the state of the job then."""
        return await self._settlements.ask(reporting.release(self.scheduler, job_id, token))

    def touch(self, touches: list[Touch]) -> asyncio.Future[list[Touched | BaseException]]:
        """Signs of life that are ready; for each, what came of it or why it was refused."""
        return self._touches.ask_all(touches)

    def settle(self, ends: list[Settlement]) -> asyncio.Future[list[State | BaseException]]:
        """Ends of claims that are ready; for each, the state of the job then, or why it was
        refused."""
        return self._settlements.ask_all(ends)

    async def give_back(self, claims: Sequence[Claimed]) -> None:
        """Release jobs that no worker received, except those that were taken back already."""
        await self.settle(_released(claims))

    async def write(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the scheduler that writes; durable when this returns."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: method(*args, **kwargs))

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the scheduler off the loop's thread."""
        return await asyncio.to_thread(method, *args, **kwargs)

    def _claim_all(self, requests: list[ClaimRequest]) -> Sequence[list[Claimed] | BaseException]:
        """Requests for the same queues share a claim."""
        self._give_back_unanswered()
        answers: list[list[Claimed] | BaseException] = [[] for _ in requests]
        together: dict[tuple[str, ...], list[int]] = {}
        for place, wanted in enumerate(requests):
            together.setdefault(wanted.queues, []).append(place)
        for queues, places in together.items():
            claiming = Claiming(self.scheduler.store)
            takers = [requests[place].taker for place in places]
            try:
                claims: Sequence[list[Claimed] | BaseException]
                claims = reporting.claim_together(self.scheduler, queues, takers, claiming)
            except OncueError as trouble:
                claims = [trouble] * len(places)
                if claiming.has_lost:
                    self._unanswered.append(claiming)
            for place, claim in zip(places, claims, strict=True):
                answers[place] = claim
        return answers

    def _give_back_unanswered(self) -> None:
        """Release what was claimed for callers who were told that the store is away. Nothing else
        is claimed before: in an outage, each claim would be one more that may have taken jobs."""
        while True:
            try:  # other groups may do the same at the same time
                claiming = self._unanswered.popleft()
            except IndexError:
                return
            try:
                reporting.settle_all(
                    self.scheduler, _released(claiming.taken(self.scheduler.clock.now()))
                )
            except StoreUnavailable:
                self._unanswered.append(claiming)
                raise


def _released(claims: Sequence[Claimed]) -> list[Settlement]:
    return [Settlement(one.id, one.epoch, Verb.RELEASE) for one in claims]
