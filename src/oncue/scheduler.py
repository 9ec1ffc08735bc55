"""The scheduler: what users hold. Every use case is one method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oncue.core.queue import check_queue_name
from oncue.engine.engine import Engine
from oncue.engine.policies import Policies
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.sinks import open_sink
from oncue.stores import open_store
from oncue.telemetry.counters import Telemetry
from oncue.usecases.bulk import BulkChanges
from oncue.usecases.claims import LocalClaims
from oncue.usecases.queues import LocalQueues
from oncue.usecases.reclaim import Reclaiming
from oncue.usecases.rules import LocalRules
from oncue.usecases.schedules import LocalSchedules
from oncue.worker.handlers import Handler, Handlers

if TYPE_CHECKING:
    from oncue.worker.source import ClaimSource

F = TypeVar("F", bound=Callable[..., Any])


class Scheduler(LocalClaims, BulkChanges, LocalRules, LocalSchedules, LocalQueues, Reclaiming):
    """Schedules work in a store, and does it or hands it over.

    `store` is a URL (`sqlite:///jobs.db`, `sqlite:////var/lib/jobs.db`, `memory:`) or a store.
    """

    def __init__(
        self, store: str | Store = "sqlite:///oncue.db", *, clock: Clock | None = None
    ) -> None:
        self.store = open_store(store, clock) if isinstance(store, str) else store
        self.clock = clock or self.store.clock
        self.handlers = Handlers()
        now_and_after_fork(self, Scheduler._renew)

    def _renew(self) -> None:
        """What has locks, threads or counts of its own: made anew in a forked child."""
        self.policies = Policies(self.store, self.clock)
        self.telemetry = Telemetry(self.clock)
        self.engine = Engine(
            self.store,
            self.clock,
            lambda url: open_sink(url, self.clock),
            telemetry=self.telemetry,
            policies=self.policies,
        )
        self._running = False
        self._starting = Lock()

    # -- doing -----------------------------------------------------------------------------------

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
        """Do the jobs of all registered queues until SIGTERM or Ctrl-C, and run the loops.

        With `until_empty`, return once nothing is scheduled or running in those queues.
        """
        from oncue.worker.worker import Worker

        worker = Worker(self, concurrency=concurrency, name=name, grace_seconds=grace_seconds)
        self.run_loops()
        worker.run(until_empty=until_empty)

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the store."""
        from oncue.worker.source import LocalClaimSource

        return LocalClaimSource(
            self.store, self.clock, self.policies, self.telemetry, self.spread, worker
        )

    def run_loops(self) -> None:
        """Start the loops in the background: dispatchers, recurrer, reclaimer, pruner."""
        with self._starting:  # requests of several threads may ask for it at once
            if not self._running:
                self._running = True
                self.engine.start()

    def close(self) -> None:
        """Stop the loops, finish deliveries under way, give the store back."""
        if self._running:
            self._running = False
            self.engine.stop(30.0)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
