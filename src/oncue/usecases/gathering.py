"""Requests of one kind, made by many callers of an event loop, done by one call.

The requests of one turn of the loop are one call; many are divided, if several calls may be made at
a time. While they are under way, the next requests are gathered. So a busy loop makes large groups,
and an idle one sends a request at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from itertools import accumulate
from typing import Any, Generic, TypeVar

from oncue.core.errors import StoreUnavailable

WORTH_A_CALL = 32  # requests; fewer are not divided

Q = TypeVar("Q")
A = TypeVar("A")

Apply = Callable[[list[Q]], Sequence[A | BaseException]]
"""Does a group of requests and answers each, in order: with a value, or with the error to raise.
Requests that cannot be done must be refused before they come here: whatever `apply` raises is the
answer to the whole group. Nothing is done again, since it may have been done."""


_Asked = tuple[list[Any], bool, asyncio.Future[Any]]
"""The requests of a caller, whether it is one whose answer is the answer, and where that goes."""


class Gathering(Generic[Q, A]):
    """For one event loop: groups of about `limit` requests at most, so many `groups` at a time."""

    def __init__(
        self, apply: Apply[Q, A], threads: Executor, limit: int, *, groups: int = 1
    ) -> None:
        self._apply = apply
        self._threads = threads
        self._limit = limit
        self._free = groups
        self._gathered: list[_Asked] = []
        self._count = 0  # of the gathered requests
        self._flushing = False  # in this turn of the loop

    def ask(self, request: Q) -> asyncio.Future[A]:
        """The answer, once it is durable. Cancelling the future does not undo the request."""
        return self._ask([request], True)

    def ask_all(self, requests: list[Q]) -> asyncio.Future[list[A | BaseException]]:
        """The same for several, which are part of one group. Those that are refused have their
        error among the answers."""
        return self._ask(requests, False)

    def _ask(self, requests: list[Q], alone: bool) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._gathered.append((requests, alone, answer))
        self._count += len(requests)
        if self._free and not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush, loop)
        return answer

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._flushing = False
        while self._gathered and self._free:
            self._free -= 1
            self._send(loop, self._next_group())

    def _next_group(self) -> list[_Asked]:
        """Whole requests of callers, in order, until there are enough. Many are divided among the
        calls that can be made at a time: while one is answered, the next is under way."""
        callers = len(self._gathered)
        limit = min(self._limit, max(WORTH_A_CALL, self._count // (self._free + 1)))
        if self._count > limit:
            sizes = accumulate([len(requests) for requests, _, _ in self._gathered])
            callers = next(n for n, size in enumerate(sizes, 1) if size >= limit)
        group = self._gathered[:callers]
        del self._gathered[:callers]
        return group

    def _send(self, loop: asyncio.AbstractEventLoop, group: list[_Asked]) -> None:
        requests = [one for asked, _, _ in group for one in asked]
        self._count -= len(requests)
        try:
            done = self._threads.submit(self._apply, requests)
        except RuntimeError as error:  # it is closed, or no thread can be started
            away = StoreUnavailable(f"it is not known whether the call will be made ({error}).")
            loop.call_soon(self._done, loop, group, [away] * len(requests))
            return
        done.add_done_callback(
            lambda future: loop.call_soon_threadsafe(
                self._done, loop, group, _answers(future, len(requests))
            )
        )

    def _done(
        self,
        loop: asyncio.AbstractEventLoop,
        group: list[_Asked],
        answers: Sequence[A | BaseException],
    ) -> None:
        self._free += 1
        self._flush(loop)
        start = 0
        for requests, alone, waiting in group:
            end = start + len(requests)
            answer = answers[start] if alone else answers[start:end]
            start = end
            if waiting.done():  # cancelled by its caller; it is done all the same
                continue
            if isinstance(answer, StopIteration):  # which a future does not take
                waiting.set_exception(RuntimeError(repr(answer)))
            elif isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)


def _answers(done: Future[Sequence[A | BaseException]], count: int) -> Sequence[A | BaseException]:
    trouble = done.exception()
    return done.result() if trouble is None else [trouble] * count
