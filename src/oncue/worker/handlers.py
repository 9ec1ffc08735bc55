"""The registry of handlers: which function does the jobs of which queue.

It is explicit and lives in the process: nothing that is stored names code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oncue.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Handler:
    queue: str
    function: Callable[..., Any]
    batch: int | None = None
    """How many jobs the function takes at once, as a list; None: one, by itself."""
    fatal: tuple[type[Exception], ...] = ()
    """Exceptions after which trying again is pointless."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


class Handlers:
    def __init__(self) -> None:
        self._by_queue: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        if handler.queue in self._by_queue:
            raise InvalidInput(f"queue {handler.queue!r} has a handler already.", "/queue")
        if handler.batch is not None and handler.batch < 1:
            raise InvalidInput("must be at least 1.", "/batch")
        self._by_queue[handler.queue] = handler

    def of(self, queue: str) -> Handler:
        return self._by_queue[queue]

    @property
    def queues(self) -> list[str]:
        return list(self._by_queue)
