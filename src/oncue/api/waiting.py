"""Long polling: workers that wait for a job to fall due, any number of them at next to no cost.

A waiting request is only an entry in a dict. The store reports news (`watch`), and one timer runs
for the next due time. Due jobs are claimed for the requests that have waited longest: for twice as
many of them in one transaction each time all got jobs, else for as many as got some.
"""

from __future__ import annotations

import asyncio
import logging
import math
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from oncue.aio import AsyncScheduler
from oncue.core.errors import Conflict, NotFound, OncueError
from oncue.core.job import Claimed
from oncue.core.moment import LATEST, Moment
from oncue.core.polling import about

FLOOR_SECONDS = 30.0  # news gets lost and clocks jump: look again at least so often
SHORTEST_SECONDS = 0.0005  # uvloop's timers may be early by half as much
BUSY_SHARE = 0.3  # of how long others rest: one look is for all who wait here
TROUBLE_MS = 1000  # the store is away
MOST_TOGETHER = 64

logger = logging.getLogger("oncue.http")


class ClaimRequest(NamedTuple):
    """The arguments of one request to claim."""

    queues: tuple[str, ...]
    worker: str
    limit: int
    lease_seconds: float | None


Taken = asyncio.Future[list[Claimed]]
"""The jobs for a request that waits."""


class Waiting:
    """For one event loop."""

    def __init__(self, acue: AsyncScheduler) -> None:
        self._acue = acue
        self._cue = acue.scheduler
        self._clock = self._cue.clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unwatch: Callable[[], None] | None = None
        self._waiters: dict[Taken, ClaimRequest] = {}  # in the order of their arrival
        self._waiting_for: Counter[str] = Counter()  # how many wait for each queue
        self._next_at: dict[str, Moment] = {}  # when each of them may have work
        self._timer: asyncio.TimerHandle | None = None
        self._sweeping = False
        self._together = 1
        self._turn = 0
        self._closed = False
        self._under_way: set[asyncio.Task[None]] = set()  # a loop itself holds them only weakly

    async def claim(
        self,
        wanted: ClaimRequest,
        wait_seconds: float,
        gone: Callable[[], Coroutine[Any, Any, None]],
    ) -> list[Claimed]:
        """Due jobs, as soon as there are any; none after `wait_seconds`. `gone` ends when the
        client has left. Jobs that were claimed for it by then are released, and so are jobs claimed
        for a request that the end of the server cuts short. The caller gives back jobs that it does
        not send."""
        wanted = self._turned(wanted)
        if wait_seconds <= 0 or self._closed:
            return await self._at_once(wanted)
        waiter = self._note(wanted)
        leaving = asyncio.create_task(gone())
        given = False
        try:
            both = (waiter, leaving)
            await asyncio.wait(both, timeout=wait_seconds, return_when=asyncio.FIRST_COMPLETED)
            given = waiter.done() and not leaving.done()
            return waiter.result() if given else []
        finally:
            leaving.cancel()
            self._remove(waiter)
            if not waiter.done():
                waiter.cancel()
            elif not given:
                self.give_back(waiter.result())

    async def _at_once(self, wanted: ClaimRequest) -> list[Claimed]:
        taken: list[Claimed] = []

        def take() -> list[Claimed]:
            taken[:] = self._take(
                wanted
            )  # called again if another call of its transaction undid it
            return taken

        try:
            return await self._acue.write(take)
        except asyncio.CancelledError:
            # The claim is done all the same, and writes are done in turn: when the next write runs,
            # `taken` is complete.
            self._begin(self._acue.write(self._release, taken))
            raise

    def give_back(self, taken: Sequence[Claimed]) -> None:
        """Release jobs that no worker received: the attempt does not count."""
        if taken:
            self._begin(self._acue.write(self._release, taken))

    def close(self) -> None:
        """Answer all who wait with no jobs."""
        self._closed = True
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        for waiter in list(self._waiters):
            self._remove(waiter)
            if not waiter.done():
                waiter.set_result([])
        if self._timer is not None:
            self._timer.cancel()

    async def idle(self) -> None:
        """Wait until nothing is being taken or given back any more. After `close`."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    # -- requests that wait ------------------------------------------------------------------------

    def _turned(self, wanted: ClaimRequest) -> ClaimRequest:
        """Queues take turns at being first."""
        if len(wanted.queues) < 2:
            return wanted
        self._turn += 1
        first = self._turn % len(wanted.queues)
        return wanted._replace(queues=wanted.queues[first:] + wanted.queues[:first])

    def _note(self, wanted: ClaimRequest) -> Taken:
        self._loop = asyncio.get_running_loop()
        if self._unwatch is None:
            self._unwatch = self._cue.store.watch(self._news, lambda: list(self._next_at))
        waiter: Taken = self._loop.create_future()
        self._waiters[waiter] = wanted
        for queue in wanted.queues:
            self._waiting_for[queue] += 1
            self._next_at.setdefault(queue, 0)  # unknown: look
        self._set_timer()
        return waiter

    def _remove(self, waiter: Taken) -> None:
        wanted = self._waiters.pop(waiter, None)
        for queue in wanted.queues if wanted is not None else ():
            self._waiting_for[queue] -= 1
            if not self._waiting_for[queue]:
                del self._waiting_for[queue], self._next_at[queue]

    def _release(self, taken: Sequence[Claimed]) -> None:
        for claim in taken:
            with suppress(Conflict, NotFound):  # it was taken back already: the others go on
                self._cue.release(claim.id, self._cue.token(claim))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # a job that could not be released is reclaimed when its lease ends

    # -- news --------------------------------------------------------------------------------------

    def _news(self, queue: str | None, due_at: Moment) -> None:
        """From the store, in the thread that has just committed."""
        if queue is None or due_at < self._next_at.get(queue, -1):
            assert self._loop is not None
            queues = self._next_at if queue is None else [queue]
            self._loop.call_soon_threadsafe(self._expect, dict.fromkeys(queues, due_at))

    def _expect(self, times: dict[str, Moment]) -> None:
        """These queues may have work at these times, or earlier."""
        for queue in times.keys() & self._next_at.keys():
            self._next_at[queue] = min(self._next_at[queue], times[queue])
        self._set_timer()

    def _set_timer(self) -> None:
        if self._sweeping or self._closed or not self._next_at:
            return
        ahead = (min(self._next_at.values()) - self._clock.now()) / 1000
        if self._timer is not None:
            self._timer.cancel()
        if ahead <= 0:
            self._sweeping = True
            self._begin(self._sweep())
        else:
            rest = min(max(ahead, SHORTEST_SECONDS), FLOOR_SECONDS)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(rest, self._look, rest >= FLOOR_SECONDS)

    def _look(self, everywhere: bool) -> None:
        if everywhere:
            self._next_at = dict.fromkeys(self._next_at, 0)
        self._set_timer()

    # -- taking ------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Claim due jobs for requests that wait for them, and learn when more are due."""
        now = self._clock.now()
        due = {queue for queue, at in self._next_at.items() if at <= now}
        first = [one for one, wanted in self._waiters.items() if not due.isdisjoint(wanted.queues)]
        chosen = first[: self._together]
        requests = [self._waiters[waiter] for waiter in chosen]
        # Before claiming, so that news which comes meanwhile is not overwritten by older facts.
        self._next_at.update(dict.fromkeys(due, LATEST))
        times = dict.fromkeys(due, now + TROUBLE_MS)
        try:
            # A claim by itself looks before it writes, so those who find nothing take no lock.
            do = self._acue.write if len(chosen) > 1 else self._acue.call
            taken, emptied = await do(self._take_for, requests, due, now)
            times = dict.fromkeys(due, 0) | emptied
            self._hand_out(chosen, taken)
        except OncueError as trouble:  # those who wait go on waiting
            logger.warning("work cannot be handed out: %s", trouble)
        except Exception as error:
            place = "".join(traceback.format_tb(error.__traceback__))
            logger.error("handing out work: %s at\n%s", type(error).__name__, place)
        finally:
            self._sweeping = False
            self._expect(times)

    def _take_for(
        self, requests: list[ClaimRequest], due: set[str], now: Moment
    ) -> tuple[list[list[Claimed]], dict[str, Moment]]:
        """Jobs for each, until the queues are empty; and when those have work again."""
        taken: list[list[Claimed]] = []
        empty: set[str] = set()
        for wanted in requests:
            queues = tuple(one for one in wanted.queues if one in due and one not in empty)
            items = self._take(wanted._replace(queues=queues)) if queues else []
            taken.append(items)
            if not items:
                empty.update(queues)
        nexts = {queue: self._cue.store.next_due([queue]) for queue in empty}
        return taken, {queue: self._next_look(at, now) for queue, at in nexts.items()}

    def _next_look(self, due_at: Moment | None, now: Moment) -> Moment:
        """When to look at a queue again whose next job is due then. One that was due before the
        claim and was not taken is about to be taken by another."""
        if due_at is None or due_at > now:
            return LATEST if due_at is None else due_at
        try:
            rest = about(BUSY_SHARE * self._poll_seconds)
        except OncueError:  # what was taken is to be handed out all the same
            return now + TROUBLE_MS
        return now + math.ceil(rest * 1000)

    @cached_property
    def _poll_seconds(self) -> float:
        """Read when it is first needed, by a thread: the event loop does not wait for the store."""
        return self._cue.store.describe().poll_seconds

    def _take(self, wanted: ClaimRequest) -> list[Claimed]:
        return self._cue.claim(
            wanted.queues, wanted.worker, limit=wanted.limit, lease_seconds=wanted.lease_seconds
        )

    def _hand_out(self, waiters: list[Taken], taken: list[list[Claimed]]) -> None:
        served = [(waiter, items) for waiter, items in zip(waiters, taken, strict=True) if items]
        for waiter, items in served:
            self._remove(waiter)
            if waiter.done():  # it has left meanwhile
                self.give_back(items)
            else:
                waiter.set_result(items)
        every = len(served) == len(waiters)
        self._together = min(self._together * 2, MOST_TOGETHER) if every else max(1, len(served))
