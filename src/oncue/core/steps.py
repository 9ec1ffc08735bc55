"""Steps: code that is written once, for callers that wait and for callers of asyncio. Each step
asks for something, and the next one goes on with the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


def driven(steps: Generator[Q, A, T], answer: Callable[[Q], A]) -> T:
    """What comes of these steps."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(answer(asked))
    except StopIteration as end:
        found: T = end.value
        return found


async def driven_async(steps: Generator[Q, A, T], answer: Callable[[Q], Awaitable[A]]) -> T:
    """The same for asyncio."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await answer(asked))
    except StopIteration as end:
        found: T = end.value
        return found
