"""Handlers: which function does the jobs of which queue.

They are registered in the process: nothing that is stored names code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.core.queue import Queue, check_queue_name
from oncue.ports.clock import Clock

if TYPE_CHECKING:
    from oncue.worker.source import ClaimSource

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Handler:
    function: Callable[..., Any]
    batch: int | None = None
    """How many jobs the function takes at once, as a list; None: one, by itself."""
    fatal: tuple[type[Exception], ...] = ()
    """Exceptions after which trying again is pointless."""


class Host(ABC):
    """Has handlers for a worker to run, and a claim source for it: a Scheduler or a Client."""

    handlers: dict[str, Handler]
    """By queue."""
    clock: Clock

    @abstractmethod
    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them."""

    @abstractmethod
    def queue(self, name: str) -> Queue: ...

    @abstractmethod
    def page(self, wanted: JobFilter, after: None = None, limit: int = 50) -> Any: ...

    def handler(
        self, queue: str, *, batch: int | None = None, fatal: Sequence[type[Exception]] = ()
    ) -> Callable[[F], F]:
        """Register the function that does a queue's jobs: plain, `async def`, or, with `batch`,
        one that takes a list of up to so many. Exceptions in `fatal` are not retried."""
        if callable(queue):
            raise InvalidInput("write @cue.handler('queue'), with the name of a queue.", "/queue")

        def register(function: F) -> F:
            if check_queue_name(queue) in self.handlers:
                raise InvalidInput(f"queue {queue!r} has a handler already.", "/queue")
            if batch is not None and (not isinstance(batch, int) or batch < 1):
                raise InvalidInput("must be a whole number, at least 1.", "/batch")
            self.handlers[queue] = Handler(function, batch, tuple(fatal))
            return function

        return register

    def work(
        self,
        *,
        concurrency: int = 1,
        name: str | None = None,
        until_empty: bool = False,
        grace_seconds: float = 30.0,
    ) -> None:
        """Do the jobs of all registered queues until SIGTERM or Ctrl-C. A Scheduler also runs the
        loops. While the server of a Client is away, what runs goes on, and results wait for it.

        With `until_empty`, return once nothing is scheduled or running in those queues.
        """
        from oncue.worker.worker import Worker

        worker = Worker(self, concurrency=concurrency, name=name, grace_seconds=grace_seconds)
        self._before_work()
        worker.run(until_empty=until_empty)

    @abstractmethod
    def _before_work(self) -> None:
        """Start what has to run beside a worker."""

    @abstractmethod
    def close(self) -> None:
        """Finish what is under way and give everything back; each host has its own way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
