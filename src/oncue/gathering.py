"""Group commit for asyncio: what is asked for in one turn of the loop is done by one call.

While that call is under way the next requests gather, so a busy loop makes large groups by itself
and an idle one waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from oncue.core.errors import OncueError, StoreError

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")


class Place(Protocol):
    """Where calls are done off the loop's thread: a store, in one transaction, or other threads."""

    def submit(self, call: Callable[[], T], /) -> Future[T]: ...


class Gathering(Generic[Q, A]):
    """For one event loop. `apply` does a whole group off the loop's thread, by one `submit`, and
    answers each request in order: with a value, or with the error to raise."""

    def __init__(
        self, place: Place, apply: Callable[[list[Q]], Sequence[A | OncueError]], limit: int
    ) -> None:
        self._place = place
        self._apply = apply
        self._limit = limit
        self._gathered: list[tuple[Q, asyncio.Future[A]]] = []
        self._busy = False

    def ask(self, request: Q) -> asyncio.Future[A]:
        """The answer, once it is durable. Whoever stops waiting for it undoes nothing."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        if not self._gathered and not self._busy:
            loop.call_soon(self._flush, loop)
        self._gathered.append((request, answer))
        return answer

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        group = self._gathered[: self._limit]
        del self._gathered[: self._limit]
        if group:
            self._busy = True
            self._submit(loop, group)

    def _submit(
        self, loop: asyncio.AbstractEventLoop, group: list[tuple[Q, asyncio.Future[A]]]
    ) -> None:
        requests = [request for request, _ in group]
        try:
            done = self._place.submit(lambda: self._apply(requests))
        except OncueError as trouble:  # the store is closed
            done = Future()
            done.set_exception(trouble)
        done.add_done_callback(
            lambda future: loop.call_soon_threadsafe(self._done, loop, group, future)
        )

    def _done(
        self,
        loop: asyncio.AbstractEventLoop,
        group: list[tuple[Q, asyncio.Future[A]]],
        done: Future[Any],
    ) -> None:
        trouble = done.exception()
        if trouble is not None and not isinstance(trouble, OncueError) and len(group) > 1:
            # One of them hit a defect, which undid the work of all: the others get another chance.
            self._busy = False
            for one in group:
                self._submit(loop, [one])
            return
        self._busy = False
        self._flush(loop)
        answers = [trouble] * len(group) if trouble is not None else done.result()
        for (_, waiting), answer in zip(group, answers, strict=True):
            if waiting.done():  # whoever asked has gone; what was asked for is done all the same
                continue
            if isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)


def one_by_one(calls: list[Callable[[], Any]]) -> list[Any]:
    """An `apply` for requests that are calls. A refusal is the answer of its own call; trouble
    with the store is everybody's."""
    answers: list[Any] = []
    for call in calls:
        try:
            answers.append(call())
        except StoreError:
            raise
        except OncueError as refusal:
            answers.append(refusal)
    return answers
