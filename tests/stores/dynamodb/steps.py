"""Something happens between any two requests of somebody else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import count

from tests.stores.dynamodb.wrapped import READS, WRITES
from tests.stores.wrapped import Call


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
