"""Something happens between any two requests of somebody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from itertools import count, product
from typing import Any, TypeVar

from oncue_bench.dynamodb.wrapped import READS, WRITES, Call
from tests.stores.dynamodb.faulty import FaultyClient

T = TypeVar("T")


class Interruption:
    """A hook (`FaultyClient.before`) that does something before the n-th of some requests, once.

    Whoever makes that request stands still meanwhile, as if it had been stopped there and went on
    later.
    """

    def __init__(
        self,
        number: int,
        action: Callable[[], object],
        methods: Collection[str] = READS | WRITES,
    ) -> None:
        self.happened = False
        self._number = number
        self._action = action
        self._methods = methods

    def __call__(self, call: Call) -> None:
        self._number -= call.method in self._methods
        if self._number == 0 and not self.happened:
            self.happened = True
            self._action()


def every_point(
    action: Callable[[], object], methods: Collection[str] = READS | WRITES
) -> Iterator[Interruption]:
    """An interruption before the first such request, the second, and so on, until one did not
    happen because the requests came to an end: that one is the control."""
    for number in count(1):
        interruption = Interruption(number, action, methods)
        yield interruption
        if not interruption.happened:
            return


class Actor:
    """Does something in a thread of its own, and stands still before each of its requests until it
    is told to go on. The client is its own: its `before` is used for that."""

    def __init__(self, client: FaultyClient, act: Callable[[], T]) -> None:
        self.over = False
        self.requests = 0
        self._client = client
        self._act = act
        self._answer: T | None = None
        self._error: BaseException | None = None
        self._stands, self._may_go = threading.Semaphore(0), threading.Semaphore(0)
        client.before = self._stand
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._stands.acquire()

    def step(self) -> bool:
        """Let it make one request. False: it has none to make any more."""
        if not self.over:
            self.requests += 1
            self._may_go.release()
            self._stands.acquire()
        return not self.over

    def answer(self) -> Any:
        """Let it go on to the end; what it found."""
        while self.step():
            continue
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answer

    def _stand(self, call: Call) -> None:
        self._stands.release()
        self._may_go.acquire()

    def _run(self) -> None:
        try:
            self._answer = self._act()
        except BaseException as error:
            self._error = error
        finally:
            self._client.before = None
            self.over = True
            self._stands.release()


def meetings(first: int, second: int, *, every: bool = False) -> Iterator[tuple[int, int]]:
    """How two actors with so many requests can meet: the first makes i of its requests, the second
    j, then the first all others, then the second. One of them is whole, or (`every`) neither."""
    if every:
        yield from product(range(first + 1), range(second + 1))
        return
    yield from ((i, second) for i in range(first + 1))
    yield from ((0, j) for j in range(second))


def meet(first: Actor, second: Actor, i: int, j: int) -> tuple[Any, Any]:
    """Their answers after they have met like that."""
    for actor, number in ((first, i), (second, j)):
        for _ in range(number):
            actor.step()
    return first.answer(), second.answer()
