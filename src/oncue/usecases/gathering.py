"""Group commit for asyncio: what is asked for in one turn of the loop is done by one call.

While that call is under way the next requests gather, so a busy loop makes large groups, and in an
idle one a request is sent at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from oncue.core.errors import OncueError, StoreError
from oncue.ports.store import Store

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")
TOGETHER_SECONDS = 0.05  # of one transaction: all other writers wait for its end


class Place(Protocol):
    """Where calls are done off the loop's thread: a store, in one transaction, or other threads."""

    def submit(self, call: Callable[[], T], /) -> Future[T]: ...


Send = Callable[[list[Q]], Future[Sequence[A | BaseException]]]
"""Does a group off the loop's thread and answers each request in order: with a value, or with the
error to raise."""


class Gathering(Generic[Q, A]):
    """For one event loop: `send` gets a group at a time, of at most `limit` requests."""

    def __init__(self, send: Send[Q, A], limit: int) -> None:
        self._send = send
        self._limit = limit
        self._gathered: list[tuple[Q, asyncio.Future[A]]] = []
        self._busy = False

    def ask(self, request: Q) -> asyncio.Future[A]:
        """The answer, once it is durable. Cancelling the future does not undo the request."""
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
        try:
            done = self._send([request for request, _ in group])
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
        self._busy = False
        if trouble is not None and len(group) > 1 and _is_of_one(trouble):
            for one in group:
                self._submit(loop, [one])
            return
        self._flush(loop)
        answers = [trouble] * len(group) if trouble is not None else done.result()
        for (_, waiting), answer in zip(group, answers, strict=True):
            if waiting.done():  # cancelled by its caller; the request is done all the same
                continue
            if isinstance(answer, StopIteration):  # which a future does not take
                waiting.set_exception(RuntimeError(repr(answer)))
            elif isinstance(answer, BaseException):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)


def _is_of_one(trouble: BaseException) -> bool:
    """Whether one request of a group met a defect, which undid the work of all: then the others get
    another chance. A refusal is an answer, and a store that is away or cannot tell whether it
    stored the group must not be asked again."""
    return type(trouble) is StoreError or not isinstance(trouble, OncueError)


def together(place: Place, apply: Callable[[list[Q]], Sequence[A | OncueError]]) -> Send[Q, A]:
    """Does a group of requests by one call of `apply`. After a defect each request is done again by
    itself, so repeating one must do no harm."""
    return lambda requests: place.submit(lambda: apply(requests))


class _Undone(Exception):
    """A call of a group failed, which undid those before it."""

    def __init__(self, position: int) -> None:
        self.position = position


def isolated(store: Store, monotonic: Callable[[], float]) -> Send[Callable[[], A], A]:
    """Does groups of calls that have nothing to do with each other: each fails by itself.

    As many calls of the group as a short time allows are done by one call, then the next ones,
    which is two to three times as fast as one by one. A store that is `all_or_nothing` undoes that
    call if one of them fails: those before it are then done again, and it alone. In other stores a
    call that was done is never done again."""
    undoes = store.describe().all_or_nothing

    def send(calls: list[Callable[[], A]]) -> Future[Sequence[A | BaseException]]:
        answers: list[A | BaseException] = []
        done: Future[Sequence[A | BaseException]] = Future()

        def go_on(most: int) -> None:
            rest = calls[len(answers) :]
            if not rest:
                done.set_result(answers)
                return

            def note(part: Future[Sequence[A | BaseException]]) -> None:
                trouble = part.exception()
                if isinstance(trouble, _Undone):
                    go_on(trouble.position or 1)
                    return
                failed = 1 if most == 1 else len(rest)
                answers.extend(part.result() if trouble is None else [trouble] * failed)
                go_on(len(calls))

            try:
                part = store.submit(lambda: _one_by_one(rest[:most], monotonic, undoes))
            except OncueError as trouble:  # the store is closed
                done.set_result([*answers, *[trouble] * len(rest)])
            else:
                part.add_done_callback(note)

        go_on(len(calls))
        return done

    return send


def _one_by_one(
    calls: list[Callable[[], A]], monotonic: Callable[[], float], undoes: bool
) -> Sequence[A | BaseException]:
    """The answers to the first calls, as many as a short time allows. A refusal is the answer of
    its own call. With `undoes`, whatever else is raised undoes all."""
    answers: list[A | BaseException] = []
    ends = monotonic() + TOGETHER_SECONDS
    for call in calls:
        try:
            answers.append(call())
        except BaseException as error:
            refused = isinstance(error, OncueError) and not isinstance(error, StoreError)
            if undoes and not refused:
                raise error if len(calls) == 1 else _Undone(len(answers)) from error
            answers.append(error)
        if monotonic() >= ends:
            break
    return answers
