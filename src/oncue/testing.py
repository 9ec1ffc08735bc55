"""For testing code that uses oncue: a scheduler whose time passes only when it is told to.

from oncue.testing import HandDriven

cue = HandDriven()
sent = []

@cue.handler("mail")
def send(job):
    sent.append(job.payload["to"])

cue.schedule({"to": "ada"}, queue="mail", delay=3600)
cue.advance(3599)
assert sent == []
cue.advance(1)
assert sent == ["ada"]
"""

from __future__ import annotations

from oncue.clock import FakeClock
from oncue.core.errors import OncueError
from oncue.core.moment import LATEST, Moment
from oncue.ports.store import Store
from oncue.scheduler import Scheduler
from oncue.worker.worker import Worker

__all__ = ["FakeClock", "HandDriven"]

ROUNDS_LIMIT = 10_000


class HandDriven(Scheduler):
    """A `Scheduler` without threads and without waiting: `advance` lets time pass, and all that
    falls due on the way is handled, delivered, reclaimed, expired or pruned, in the caller's thread
    and always in the same order. Back-off has no jitter: it is as long as the queue's policy says.

    `store` is kept in memory unless it is told otherwise, by a URL or a store; a store must have
    been opened with the same `clock`.
    """

    clock: FakeClock

    def __init__(self, store: str | Store = "memory:", *, clock: FakeClock | None = None) -> None:
        super().__init__(store, clock=clock or FakeClock())
        self._worker: Worker | None = None
        self._worker_queues: list[str] = []

    @staticmethod
    def spread() -> float:
        return 1.0

    def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every moment at which there is something to do."""
        target = self.clock.now() + round(seconds * 1000)
        self.run_due()
        while (ahead := self._next_stop(target) - self.clock.now()) > 0:
            self.clock.advance(ahead / 1000)
            self.run_due()

    def run_due(self) -> None:
        """Do all that is to be done at this moment, also what comes up while doing it."""
        for _ in range(ROUNDS_LIMIT):
            rest = self.engine.step_all()
            if not self._work() and rest > 0:
                return
        raise OncueError(
            f"still not done after {ROUNDS_LIMIT:,} rounds without time passing: does a handler "
            "schedule jobs that are due at once, again and again? Give them a delay."
        )

    def _work(self) -> bool:
        queues = list(self.handlers)
        if not queues:
            return False
        if self._worker is None or queues != self._worker_queues:
            self._worker = Worker(self, name="hand-driven")
            self._worker_queues = queues
        return self._worker.step()

    def _next_stop(self, target: Moment) -> Moment:
        """When there is something to do next, at most `target`. Jobs that are due and cannot be
        done, because a sink is down or another worker has them, are looked at as the loops do."""
        now = self.clock.now()
        sinks = [queue.name for queue in self.queues() if queue.sink is not None]
        due_at = self.store.next_due(sorted({*self.handlers, *sinks}))
        wakes = [one.progress.wake_at for one in self.store.waking(LATEST, 1)]
        stops = [due_at, self.store.leases().next_lapse, *wakes]
        if any(stop is not None and stop <= now for stop in stops):
            stops.append(now + max(1, round(self.engine.step_all() * 1000)))
        return min([target, *(stop for stop in stops if stop is not None and stop > now)])
