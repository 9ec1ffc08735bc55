"""Steps: generators that are written once, for callers that wait and for callers of asyncio. Each
`yield` asks for something and continues with the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")


def driven(steps: Generator[Q, A, T], answer: Callable[[Q], A]) -> T:
    """Run these steps: `answer` does what they ask for. Their result."""
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
