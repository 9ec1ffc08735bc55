"""Group commit for asyncio: what is asked for in one turn of the loop is done by one call.

While that call is under way the next requests gather, so a busy loop makes large groups by itself
and an idle one waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from oncue.core.errors import OncueError, StoreError
from oncue.ports.store import StoreFacts

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")
TOGETHER_SECONDS = 0.05  # of one transaction: everybody else who writes waits for its end


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
            if waiting.done():  # whoever asked has gone; what was asked for is done all the same
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


class Submitting(Place, Protocol):
    """A store, as far as groups of calls need it."""

    def describe(self) -> StoreFacts: ...


class _Undone(Exception):
    """One of the calls of a group failed, which undid the others."""


def isolated(store: Submitting, monotonic: Callable[[], float]) -> Send[Callable[[], A], A]:
    """Does groups of calls that have nothing to do with each other: each fails by itself.

    A store that is `all_or_nothing` does as many calls of the group as a short time allows by one
    call, then the next ones, which is two to three times as fast as one by one. If that call was
    undone, each call is submitted by itself. In other stores each is submitted by itself at once: a
    call that was done there must not be done again."""
    separate: Send[Callable[[], A], A] = separately(store)
    if not store.describe().all_or_nothing:
        return separate

    def send(calls: list[Callable[[], A]]) -> Future[Sequence[A | BaseException]]:
        answers: list[A | BaseException] = []
        done: Future[Sequence[A | BaseException]] = Future()

        def go_on() -> None:
            rest = calls[len(answers) :]
            if not rest:
                done.set_result(answers)
                return
            try:
                part = store.submit(lambda: _one_by_one(rest, monotonic))
            except OncueError as trouble:  # the store is closed
                done.set_result([*answers, *[trouble] * len(rest)])
            else:
                part.add_done_callback(note)

        def note(part: Future[Sequence[A | BaseException]]) -> None:
            trouble, rest = part.exception(), calls[len(answers) :]
            if isinstance(trouble, _Undone):
                separate(rest).add_done_callback(note)
                return
            answers.extend(part.result() if trouble is None else [trouble] * len(rest))
            go_on()

        go_on()
        return done

    return send


def _one_by_one(
    calls: list[Callable[[], A]], monotonic: Callable[[], float]
) -> Sequence[A | BaseException]:
    """The answers to the first calls, as many as a short time allows. A refusal is the answer of
    its own call; whatever else is raised undoes all."""
    answers: list[A | BaseException] = []
    ends = monotonic() + TOGETHER_SECONDS
    for call in calls:
        try:
            answers.append(call())
        except BaseException as error:
            if isinstance(error, StoreError) or not isinstance(error, OncueError):
                raise _Undone from error
            answers.append(error)
        if monotonic() >= ends:
            break
    return answers


def separately(place: Place) -> Send[Callable[[], A], A]:
    """Submits each call of a group by itself, so that each fails by itself. The place may still let
    calls that come together share a commit."""

    def send(calls: list[Callable[[], A]]) -> Future[Sequence[A | BaseException]]:
        answers: list[Any] = [None] * len(calls)
        answered = count(1)  # its `next` is one step, whichever threads answer
        done: Future[Sequence[A | BaseException]] = Future()

        def note(position: int, answer: A | BaseException) -> None:
            answers[position] = answer
            if next(answered) == len(calls):
                done.set_result(answers)

        def noted(position: int) -> Callable[[Future[A]], None]:
            return lambda future: note(position, future.exception() or future.result())

        for position, call in enumerate(calls):
            try:
                future = place.submit(call)
            except OncueError as trouble:  # the store is closed
                note(position, trouble)
            else:
                future.add_done_callback(noted(position))
        return done

    return send
