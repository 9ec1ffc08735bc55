"""Long polling: workers that wait for a job to fall due, any number of them at next to no cost.

A waiting request is only an entry in a dict. The store reports news (`watch`), and one timer runs
for the next due time. Due jobs are claimed for the requests that have waited longest, by one call
for all that wait for the same queues.
"""

from __future__ import annotations

import asyncio
import logging
import math
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from oncue.aio import AsyncScheduler, ClaimRequest
from oncue.core.errors import OncueError
from oncue.core.job import Claimed
from oncue.core.moment import LATEST, Moment
from oncue.core.polling import about
from oncue.core.sharing import Taker
from oncue.engine.claiming import Claiming
from oncue.engine.wall_clock import WallClock
from oncue.usecases.reporting import CLAIM_LIMIT, claim_together

FLOOR_SECONDS = 30.0  # news gets lost: look at all queues again at least so often
CLOCK_SECONDS = 2.0  # so soon is noticed that the wall clock was set
SHORTEST_SECONDS = 0.0005  # uvloop's timers may be early by half as much
BUSY_SHARE = 0.3  # of how long others rest: one look is for all who wait here
TROUBLE_MS = 1000  # the store is away
MOST_TOGETHER = 64

logger = logging.getLogger("oncue.http")


Taken = asyncio.Future[list[Claimed]]
"""The jobs for a request that waits."""


class _Shared(NamedTuple):
    """A claim for requests that wait for the same queues."""

    queues: tuple[str, ...]
    waiters: Sequence[Taken]
    takers: Sequence[Taker]
    claiming: Claiming


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
        self._looked = self._clock.monotonic()  # everywhere
        self._wall_clock = WallClock(self._clock)
        self._sweeping = False
        self._unanswered: _Shared | None = None  # it is not known whether it was applied
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
        asked = self._acue.claim(*wanted)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:  # the claim is made all the same
            self._begin(self._given_back(asked))
            raise

    async def _given_back(self, asked: asyncio.Future[list[Claimed]]) -> None:
        await self._acue.give_back(await asked)

    def give_back(self, taken: Sequence[Claimed]) -> None:
        """Release jobs that no worker received: the attempt does not count."""
        if taken:
            self._begin(self._acue.give_back(taken))

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

    async def rest(self) -> None:
        """When no request waits: watch the store no more, until one does, and wait until nothing
        is under way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._unwatch is not None and not self._waiters:
            unwatch, self._unwatch = self._unwatch, None
            await self._acue.call(unwatch)
        await self.idle()

    async def idle(self) -> None:
        """Wait until nothing is being taken or given back any more. After `close` or in `rest`."""
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
            rest = min(max(ahead, SHORTEST_SECONDS), CLOCK_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(rest, self._look)

    def _look(self) -> None:
        was_set = self._wall_clock.was_set()
        if was_set or self._clock.monotonic() - self._looked >= FLOOR_SECONDS:
            self._looked = self._clock.monotonic()
            self._next_at = dict.fromkeys(self._next_at, 0)
        self._set_timer()

    # -- taking ------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Claim due jobs for requests that wait for them, and learn when more are due."""
        now = self._clock.now()
        due = {queue for queue, at in self._next_at.items() if at <= now}
        # Before claiming, so that news which comes meanwhile is not overwritten by older facts.
        self._next_at.update(dict.fromkeys(due, LATEST))
        times = dict.fromkeys(due, now + TROUBLE_MS)
        try:
            for shared in [self._unanswered] if self._unanswered else self._shared(due):
                taken, emptied = await self._acue.call(self._take, shared, now)
                self._unanswered = None
                self._hand_out(shared.waiters, taken)
                times |= dict.fromkeys(shared.queues, 0) | emptied
        except OncueError as trouble:  # those who wait go on waiting
            self._unanswered = shared if shared.claiming.has_lost else None
            logger.warning("work cannot be handed out: %s", trouble)
        except Exception as error:
            self._unanswered = None
            place = "".join(traceback.format_tb(error.__traceback__))
            logger.error("handing out work: %s at\n%s", type(error).__name__, place)
        finally:
            self._sweeping = False
            self._expect(times)

    def _shared(self, due: set[str]) -> list[_Shared]:
        """The claims to make for those who have waited longest for work that is due."""
        waiting: dict[frozenset[str], list[Taken]] = {}
        most, room = MOST_TOGETHER, CLAIM_LIMIT
        for waiter, wanted in self._waiters.items():
            if queues := due.intersection(wanted.queues):
                waiting.setdefault(frozenset(queues), []).append(waiter)
                most, room = most - 1, room - wanted.taker.limit
                if not most or room <= 0:
                    break
        return [self._shared_by(queues, waiters) for queues, waiters in waiting.items()]

    def _shared_by(self, queues: frozenset[str], waiters: Sequence[Taken]) -> _Shared:
        wanted = [self._waiters[waiter] for waiter in waiters]
        in_turn = tuple(queue for queue in wanted[0].queues if queue in queues)
        takers = [one.taker for one in wanted]
        return _Shared(in_turn, waiters, takers, Claiming(self._cue.store))

    def _take(self, shared: _Shared, now: Moment) -> tuple[list[list[Claimed]], dict[str, Moment]]:
        """Jobs for each; and, if some got none, when to look at the queues again."""
        taken = claim_together(self._cue, shared.queues, shared.takers, shared.claiming)
        if all(taken):
            return taken, {}
        ask = self._cue.store.next_due
        try:
            nexts = {queue: ask([queue]) for queue in shared.queues}
            return taken, {queue: self._next_look(at, now) for queue, at in nexts.items()}
        except OncueError:  # what was taken is to be handed out all the same
            return taken, dict.fromkeys(shared.queues, now + TROUBLE_MS)

    def _next_look(self, due_at: Moment | None, now: Moment) -> Moment:
        """When to look at a queue again whose next job is due then. One that was due before the
        claim and was not taken is about to be taken by another."""
        if due_at is None or due_at > now:
            return LATEST if due_at is None else due_at
        return now + math.ceil(about(BUSY_SHARE * self._cue.store.traits.poll_seconds) * 1000)

    def _hand_out(self, waiters: Sequence[Taken], taken: list[list[Claimed]]) -> None:
        for waiter, items in zip(waiters, taken, strict=True):
            if not items:
                continue
            self._remove(waiter)
            if waiter.done():  # it has left meanwhile
                self.give_back(items)
            else:
                waiter.set_result(items)
