"""Waiting for results that have nearly always arrived already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")
PENDING: Any = object()


async def in_time(arriving: Awaitable[T], seconds: float) -> T:
    """The same as `asyncio.timeout`, which is only set up if there is anything to wait for."""
    steps: Generator[Any, Any, T] = arriving.__await__()
    try:
        waited_for = next(steps)
    except StopIteration as arrived:
        value: T = arrived.value
        return value
    async with asyncio.timeout(seconds):
        return await _rest(waited_for, steps)


@coroutine
def _rest(waited_for: Any, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """The rest of an awaitable after its first step, which waits for `waited_for`."""
    try:
        yield waited_for
    except BaseException as error:
        steps.throw(error)
        raise
    return (yield from steps)


def at_once(arriving: Awaitable[Any]) -> Any:
    """The result; `PENDING` if that had to be waited for: it is given up then."""
    steps = arriving.__await__()
    try:
        next(steps)
    except StopIteration as arrived:
        return arrived.value
    steps.close()
    return PENDING
