"""A worker's heartbeats: signs of life for what it runs, and the courage to stop by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from oncue.batch import Batch
from oncue.core.errors import OncueError, ServerUnavailable
from oncue.engine.loop import Loop
from oncue.ports.claims import Refused
from oncue.ports.clock import Clock
from oncue.workplace import Workplace

LOOK_SECONDS = 1.0  # how soon a job that takes its time shows as executing

logger = logging.getLogger("oncue.worker")


class Heartbeats:
    """Looks every second at the batches under way. What has run for a second gets a heartbeat, then
    one every third of the lease. A claim for which none was confirmed during two thirds of its
    lease is given up, by the monotonic clock, before anybody else can take it. What waits behind a
    job that takes its time is handed back, and what is done before it is settled."""

    def __init__(
        self,
        place: Workplace,
        clock: Clock,
        batches: Callable[[], Sequence[Batch]],
    ) -> None:
        self._place = place
        self._clock = clock
        self._batches = batches
        self._loop = Loop("oncue-heartbeats", self.step, clock)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop(5.0)

    def expect(self, lease_seconds: float) -> None:
        """A batch was claimed: where the lease is short, the next usual look would be too late."""
        if lease_seconds < 3 * LOOK_SECONDS:
            self._loop.wake_for(self._clock.now() + round(lease_seconds / 3 * 1000))

    def step(self) -> float:
        """Look at every batch once; rest until the next look."""
        shortest = LOOK_SECONDS
        batches = self._batches()
        for batch in batches:
            lease = batch.queue.lease_seconds
            shortest = min(shortest, lease / 6)
            slow = self._clock.monotonic() - batch.began >= min(LOOK_SECONDS, lease / 3)
            if slow and batch.settling.acquire(blocking=False):  # else the runner is at it
                try:
                    self._speak_for(batch)
                except OncueError as trouble:
                    logger.warning("heartbeat: %s (trying again)", trouble)
                    if isinstance(trouble, ServerUnavailable):
                        break  # waiting for it again for each of the others would take too long
                finally:
                    batch.settling.release()
        for batch in batches:
            if self._clock.monotonic() - batch.acknowledged >= batch.queue.lease_seconds * 2 / 3:
                self._give_up(batch)
        return shortest

    def _speak_for(self, batch: Batch) -> None:
        self._relieve(batch)
        silent = self._clock.monotonic() - batch.acknowledged
        if batch.acknowledged == batch.began or silent >= batch.queue.lease_seconds / 3:
            self._beat(batch)

    def _beat(self, batch: Batch) -> None:
        jobs = [job for job in batch.running if not job.lost]
        if not jobs:
            return
        sent = self._clock.monotonic()
        lease = batch.queue.lease_seconds
        answers = self._place.touch([job.claim for job in jobs], lease)
        batch.acknowledged = sent
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Refused):
                job.lost = True
                text = "job %s: the claim was lost (%s)"
                logger.warning(text, job.id, answer.reason, extra=job.facts)
            else:
                job.cancel_requested = answer.cancel_requested

    def _relieve(self, batch: Batch) -> None:
        """Settle what is done and hand back what has not begun; if that fails, as it was."""
        done, waiting = batch.take_done(), batch.take_pending()
        released, queue = self._place.released, batch.queue
        try:
            back = [released(job.claim, queue) for job in waiting if not job.lost]
            self._place.settle([*done, *back], brief=True)
        except OncueError:
            batch.done.extendleft(reversed(done))
            batch.pending.extendleft(reversed(waiting))
            raise

    def _give_up(self, batch: Batch) -> None:
        for job in [*batch.running, *batch.pending]:
            if not job.lost:
                job.lost = True
                text = "job %s: no heartbeat was confirmed; giving it up"
                logger.warning(text, job.id, extra=job.facts)
