"""The access tokens at hand for one event loop, which never waits for the store itself.

While requests come, and for half a minute after the last one, a thread reads the tokens every
second, and at once when the store tells of a change. So a request whose token is known is never
held up. One whose token is not known waits for the next read, together with all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from oncue.core.errors import StoreUnavailable
from oncue.core.moment import Moment
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.usecases.tokens import FRESH_SECONDS, STALE_SECONDS, Access, KnownTokens

WAIT_SECONDS = 5.0  # a read that takes longer is not waited for

logger = logging.getLogger("oncue.http")


class Callers:
    def __init__(self, store: Store, clock: Clock, thread: Executor) -> None:
        """`thread` has no other work: a read that hangs holds up nothing but the next read."""
        self._store = store
        self._clock = clock
        self._thread = thread
        self._access = Access(store, clock)
        self._asked_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ends = 0.0  # until when the read under way is waited for, by the loop's clock
        self._begun = self._done = 0  # reads
        self._changed = False
        self._resting = False  # nobody has asked for long, so nothing is read
        self._trouble: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unwatch: Callable[[], None] | None = None
        self._closed = False

    async def known(self, token_id: str | None) -> KnownTokens:
        """The tokens, recent enough to judge the bearer of this id (None: of no token)."""
        self._asked_at = self._clock.monotonic()
        fresh_seconds = FRESH_SECONDS if self._resting else STALE_SECONDS
        at_hand = self._access.at_hand(token_id, fresh_seconds)
        return at_hand or await self._looked_for(token_id)

    def close(self) -> None:
        """Read no more in the background. On the loop."""
        self._closed = True
        if self._unwatch is not None:
            self._unwatch()
        if self._timer is not None:
            self._timer.cancel()

    async def _looked_for(self, token_id: str | None) -> KnownTokens:
        """The read under way may have begun before the token was made: the next one counts."""
        wanted = self._begun + 1
        while self._done < wanted:
            reading = self._read()
            await asyncio.wait([reading], timeout=max(0.0, self._ends - reading.get_loop().time()))
            if not reading.done():
                raise StoreUnavailable("the access tokens could not be read in time.")
        if self._trouble is None:
            self._access.looked_for(token_id)
            token_id = None  # it is there, or it is unknown
        found = self._access.at_hand(token_id, STALE_SECONDS)
        if found is None:
            trouble = self._trouble or StoreUnavailable("the access tokens are not known.")
            raise trouble.with_traceback(None)  # it may be raised many times
        return found

    def _read(self) -> asyncio.Task[None]:
        """The read under way; or one that begins now."""
        if self._reading is None:
            self._loop = asyncio.get_running_loop()
            self._ends = self._loop.time() + WAIT_SECONDS
            self._reading = self._loop.create_task(self._read_once())
        return self._reading

    async def _read_once(self) -> None:
        assert self._loop is not None
        self._begun += 1  # here: this read serves the requests of the turn before
        self._changed = False
        try:
            await self._loop.run_in_executor(self._thread, self._look)
            self._trouble = None
        except Exception as trouble:
            if self._trouble is None:
                logger.error("the access tokens cannot be read: %s", trouble)
            self._trouble = trouble
        finally:
            self._reading, self._done = None, self._begun
            self._resting = False
        if self._changed:
            self._read()
        elif not self._closed:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(FRESH_SECONDS, self._read_again)

    def _look(self) -> None:
        """In the thread."""
        if self._unwatch is None:
            self._unwatch = self._store.watch(self._news, lambda: ())
        self._access.read()

    def _read_again(self) -> None:
        self._resting = self._clock.monotonic() - self._asked_at >= STALE_SECONDS
        if not self._resting and not self._closed:
            self._read()

    def _news(self, queue: str | None, due_at: Moment) -> None:
        """From the store, in any thread."""
        if queue is None and self._loop is not None and not self._closed:
            self._loop.call_soon_threadsafe(self._told)

    def _told(self) -> None:
        """The tokens may have changed."""
        self._changed = True
        self._read()
