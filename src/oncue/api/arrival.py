"""Waiting for what has nearly always arrived already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


async def in_time(arriving: Awaitable[T], seconds: float) -> T:
    """The same as `asyncio.timeout`, which is only set up if there is anything to wait for."""
    steps: Generator[Any, Any, T] = arriving.__await__()
    try:
        waited_for = next(steps)
    except StopIteration as arrived:
        value: T = arrived.value
        return value
    async with asyncio.timeout(seconds):
        return await _Begun(waited_for, steps)


class _Begun(Generic[T]):
    """What is left of something awaited, which was found to wait for something."""

    def __init__(self, waited_for: Any, steps: Generator[Any, Any, T]) -> None:
        self._waited_for = waited_for
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            yield self._waited_for
        except BaseException as error:
            self._steps.throw(error)
            raise
        return (yield from self._steps)
