"""The scheduler: what users hold. Every use case is one method."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from oncue import config
from oncue.core.event import DEFAULT_BOUNDS, Bounds
from oncue.core.operations import DEFAULT_LIMITS, OperationLimits
from oncue.core.redaction import shown_url
from oncue.engine.node import Node
from oncue.engine.reporter import Reporter
from oncue.forking import now_and_after_fork
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.stores import store_of
from oncue.usecases.bulk import LocalBulk
from oncue.usecases.claims import LocalClaims
from oncue.usecases.nodes import LocalNodes
from oncue.usecases.queues import LocalQueues
from oncue.usecases.reclaim import LocalReclaim
from oncue.usecases.rules import LocalRules
from oncue.usecases.schedules import LocalSchedules
from oncue.worker.handlers import Handler, Host

if TYPE_CHECKING:  # the loops and the sinks are many modules, and most commands start none
    from oncue.engine.engine import Engine
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
    `postgresql://USER@HOST/DATABASE`, `dynamodb://TABLE?region=eu-central-1`, `memory:`) or a
    store. `operation_limits` bounds what one job may have of operations, in reports that are made
    here; `event_bounds`, how far off the times of events may lie.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///oncue.db",
        *,
        clock: Clock | None = None,
        operation_limits: OperationLimits = DEFAULT_LIMITS,
        event_bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        self.store = store_of(store, clock)
        self.store_url = shown_url(store) if isinstance(store, str) else None
        """The URL that was given, with *** in place of a password; None: it was a store."""
        self.clock = clock or self.store.clock
        self.operation_limits = operation_limits
        self._event_bounds = event_bounds
        self.handlers: dict[str, Handler] = {}
        now_and_after_fork(self, Scheduler._renew)

    def _renew(self) -> None:
        """What has locks, threads or counts of its own: made anew in a forked child."""
        self._node = Node.of(self.store, self.clock)
        self.policies, self.telemetry = self._node.policies, self._node.telemetry
        self._engine: Engine | None = None
        self._making = Lock()
        self.threads = ThreadPoolExecutor(THREADS, "oncue-calls")
        self.insert_thread = ThreadPoolExecutor(1, "oncue-inserts")
        self._unanswered = {}
        self.reporter = Reporter(self.store, self.clock)
        self._running = False
        self._starting = Lock()

    @property
    def engine(self) -> Engine:
        with self._making:
            if self._engine is None:
                self._engine = self._new_engine()
            return self._engine

    def _new_engine(self) -> Engine:
        from oncue.engine.engine import Engine
        from oncue.sinks import open_sink

        engine = Engine(self._node, lambda url: open_sink(url, self.clock))
        engine.pruner.bounds = self._event_bounds
        return engine

    def claim_source(self, worker: str) -> ClaimSource:
        """Where a worker of this name claims jobs and reports on them: the store."""
        from oncue.worker.source import LocalClaimSource

        return LocalClaimSource(self, worker, config.store_options(self.store_url))

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
        self.insert_thread.shutdown()
        self.reporter.close()
        self.store.close()
