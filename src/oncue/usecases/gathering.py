"""Requests of one kind, made by many callers of an event loop, done by one call.

The requests of one turn of the loop are one call; many are divided, if several calls may be made at
a time. While they are under way, the next requests are gathered. So a busy loop makes large groups,
and an idle one sends a request at once.

Where calls are made one after the other, by one thread, a second one may be sent `ahead`: while the
first is under way, the loop answers the callers of the one before and gathers the next. Otherwise
the thread would have to wait for the loop, which keeps the interpreter until its turn is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from itertools import accumulate, islice
from typing import Any, Generic, TypeVar

from oncue.core.errors import StoreUnavailable

WORTH_A_CALL = 64  # requests; fewer are not divided
WORTH_A_CALL_AHEAD = 32  # the same for a call that waits behind another

Q = TypeVar("Q")
A = TypeVar("A")

Apply = Callable[[list[Q]], Sequence[A | BaseException]]
"""Does a group of requests and answers each, in order: with a value, or with the error to raise.
Requests that cannot be done must be refused before they come here: whatever `apply` raises is the
answer to the whole group. Nothing is done again, since it may have been done."""


_ALONE = -1  # counts as one request
_Caller = tuple[int, asyncio.Future[Any]]
"""How many requests a caller has, and its future. `_ALONE`: one request, whose answer the future
gets by itself and not as a list."""


class Gathering(Generic[Q, A]):
    """For one event loop: groups of about `limit` requests at most, so many `groups` at a time."""

    def __init__(
        self,
        apply: Apply[Q, A],
        threads: Executor,
        limit: int,
        *,
        groups: int = 1,
        ahead: bool = False,
    ) -> None:
        self._apply = apply
        self._threads = threads
        self._limit = limit
        self._groups = groups
        self._ahead = ahead
        self._worth = WORTH_A_CALL_AHEAD if ahead else WORTH_A_CALL
        self._sent = 0  # groups that are not answered yet
        self._under_way = 0  # requests in them
        self._requests: list[Q] = []
        self._callers: list[_Caller] = []
        self._flushing = False  # in this turn of the loop

    def ask(self, request: Q) -> asyncio.Future[A]:
        """The answer, once it is durable. Cancelling the future does not undo the request."""
        self._requests.append(request)
        return self._answer_for(_ALONE)

    def ask_all(self, requests: list[Q]) -> asyncio.Future[list[A | BaseException]]:
        """The same for several, which are part of one group. Those that are refused have their
        error among the answers."""
        self._requests += requests
        return self._answer_for(len(requests))

    def _answer_for(self, count: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._callers.append((count, answer))
        if not self._flushing and self._sent < self._groups + self._ahead:
            self._flush_soon(loop)
        return answer

    def _flush_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send what was gathered, at the end of this turn of the loop."""
        self._flushing = True
        loop.call_soon(self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._flushing = False
        while self._callers and self._may_send():
            self._send(loop, *self._next_group())

    def _may_send(self) -> bool:
        """A group that is sent ahead must not be much smaller than the one under way. Otherwise the
        same few callers would be a group of their own each time, which costs as much as a large
        one."""
        is_even = 2 * len(self._requests) >= self._under_way
        return self._sent < self._groups + (self._ahead and is_even)

    def _next_group(self) -> tuple[list[Q], list[_Caller]]:
        """Whole requests of callers, in order, until there are enough. Many are divided among the
        calls that can be made at a time: while one is answered, the next is under way."""
        requests, callers = self._requests, self._callers
        shares = self._groups + self._ahead - self._sent
        limit = min(self._limit, max(self._worth, -(-len(requests) // shares)))
        if len(requests) <= limit:
            self._requests, self._callers = [], []
            return requests, callers
        sizes = enumerate(accumulate([abs(count) for count, _ in callers]), 1)
        some, size = next((n, size) for n, size in sizes if size >= limit)
        self._requests, self._callers = requests[size:], callers[some:]
        return requests[:size], callers[:some]

    def _send(
        self, loop: asyncio.AbstractEventLoop, requests: list[Q], callers: list[_Caller]
    ) -> None:
        self._sent += 1
        self._under_way += len(requests)
        try:
            done = self._threads.submit(self._apply, requests)
        except RuntimeError as error:  # it is closed, or no thread can be started
            away = StoreUnavailable(f"it is not known whether the call will be made ({error}).")
            loop.call_soon(self._done, loop, callers, [away] * len(requests))
            return
        done.add_done_callback(
            lambda future: loop.call_soon_threadsafe(
                self._done, loop, callers, _answers(future, len(requests))
            )
        )

    def _done(
        self,
        loop: asyncio.AbstractEventLoop,
        callers: list[_Caller],
        answers: Sequence[A | BaseException],
    ) -> None:
        self._sent -= 1
        self._under_way -= len(answers)
        if not self._ahead:
            self._flush(loop)
        left = iter(answers)
        for count, waiting in callers:
            answer = next(left) if count == _ALONE else list(islice(left, count))
            if waiting.done():  # cancelled by its caller; it is done all the same
                continue
            if not isinstance(answer, BaseException):
                waiting.set_result(answer)
            elif isinstance(answer, StopIteration):  # which a future does not take
                waiting.set_exception(RuntimeError(repr(answer)))
            else:
                waiting.set_exception(answer)
        # After the turn of the callers that were answered: what they ask next is sent with it.
        if self._ahead and self._callers and not self._flushing:
            self._flush_soon(loop)


def _answers(done: Future[Sequence[A | BaseException]], count: int) -> Sequence[A | BaseException]:
    trouble = done.exception()
    return done.result() if trouble is None else [trouble] * count
