"""The scheduler: what users hold. Every use case is one method."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from oncue.core.event import DEFAULT_BOUNDS, Bounds
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits
from oncue.engine.engine import Engine
from oncue.engine.node import Node
from oncue.engine.reporter import Reporter
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.sinks import open_sink
from oncue.stores import open_store
from oncue.usecases.bulk import LocalBulk
from oncue.usecases.claims import LocalClaims
from oncue.usecases.nodes import LocalNodes
from oncue.usecases.queues import LocalQueues
from oncue.usecases.reclaim import LocalReclaim
from oncue.usecases.rules import LocalRules
from oncue.usecases.schedules import LocalSchedules
from oncue.worker.handlers import Handler, Host

if TYPE_CHECKING:
    from oncue.worker.source import ClaimSource

THREADS = 32  # at most, that make calls for an event loop; those at the same time share a commit


class Scheduler(
    LocalClaims,
    LocalBulk,
    LocalRules,
    LocalSchedules,
    LocalQueues,
    LocalReclaim,
    LocalNodes,
    Host,
):
    """Schedules work in a store, and does it or hands it over.

    `store` is a URL (`sqlite:///jobs.db`, `sqlite:////var/lib/jobs.db`,
    `dynamodb://TABLE?region=eu-central-1`, `memory:`) or a store. `operation_limits` bounds what
    one job may have of operations, in reports that are made here; `event_bounds`, how far off the
    times of events may lie.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///oncue.db",
        *,
        clock: Clock | None = None,
        operation_limits: OperationLimits = DEFAULT_LIMITS,
        event_bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        self.store = open_store(store, clock) if isinstance(store, str) else store
        self.clock = clock or self.store.clock
        self.operation_limits = operation_limits
        self._event_bounds = event_bounds
        self.handlers: dict[str, Handler] = {}
        now_and_after_fork(self, Scheduler._renew)

    def _renew(self) -> None:
        """What has locks, threads or counts of its own: made anew in a forked child."""
        node = Node.of(self.store, self.clock)
        self.policies, self.telemetry = node.policies, node.telemetry
        self.engine = Engine(node, lambda url: open_sink(url, self.clock))
        self.engine.pruner.bounds = self._event_bounds
        self.threads = ThreadPoolExecutor(THREADS, "oncue-calls")
        self._unanswered = {}
        self.reporter = Reporter(self.store, self.clock)
        self._running = False
        self._starting = Lock()

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the store."""
        from oncue.worker.source import LocalClaimSource

        return LocalClaimSource(self, worker)

    def _before_work(self) -> None:
        self.run_loops()

    def run_loops(self) -> None:
        """Start the loops in the background: dispatchers, recurrer, reclaimer, pruner."""
        with self._starting:  # requests of several threads may ask for it at once
            if not self._running:
                self._running = True
                self.engine.start()
                self.reporter.begin(self.engine.running)

    def close(self) -> None:
        """Stop the loops, finish deliveries under way, give the store back."""
        if self._running:
            self._running = False
            self.engine.stop(30.0)
        self.threads.shutdown()
        self.reporter.close()
        self.store.close()
