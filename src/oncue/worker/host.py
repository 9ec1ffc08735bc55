"""What a worker works for: a Scheduler or a Client. It has the handlers, and a claim source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oncue.core.queue import check_queue_name
from oncue.ports.clock import Clock
from oncue.worker.handlers import Handler, Handlers

if TYPE_CHECKING:
    from oncue.worker.source import ClaimSource

F = TypeVar("F", bound=Callable[..., Any])


class Host(ABC):
    clock: Clock
    handlers: Handlers

    def handler(
        self, queue: str, *, batch: int | None = None, fatal: Sequence[type[Exception]] = ()
    ) -> Callable[[F], F]:
        """Register the function that does a queue's jobs: plain, `async def`, or, with `batch`,
        one that takes a list of up to so many. Exceptions in `fatal` are not retried."""

        def register(function: F) -> F:
            self.handlers.add(Handler(check_queue_name(queue), function, batch, tuple(fatal)))
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
        """Do the jobs of all registered queues until SIGTERM or Ctrl-C. A scheduler also runs the
        loops. While a server is away, what runs goes on, and results wait for it.

        With `until_empty`, return once nothing is scheduled or running in those queues.
        """
        from oncue.worker.worker import Worker

        worker = Worker(self, concurrency=concurrency, name=name, grace_seconds=grace_seconds)
        self._work_begins()
        worker.run(until_empty=until_empty)

    def _work_begins(self) -> None:  # noqa: B027
        """Start what must run beside a worker."""

    @abstractmethod
    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them."""

    @abstractmethod
    def close(self) -> None:
        """Finish what is under way and give everything back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
