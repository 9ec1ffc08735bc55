"""A worker's heartbeats: signs of life for what it runs, and the courage to stop by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from oncue.batch import Batch
from oncue.core.errors import StoreError
from oncue.engine.loop import Loop
from oncue.ports.claims import Refused, Touch
from oncue.ports.clock import Clock
from oncue.ports.store import Store
from oncue.settling import Settling, release

LOOK_SECONDS = 1.0  # how soon a job that takes its time shows as executing

logger = logging.getLogger("oncue.worker")


class Heartbeats:
    """Looks every second at the batches under way. What has run for a second gets a heartbeat, then
    one every third of the lease. A claim for which none was confirmed during two thirds of its
    lease is given up, by the monotonic clock, before anybody else can take it. What waits behind a
    job that takes its time is handed back, and what is done before it is settled."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settling: Settling,
        batches: Callable[[], Sequence[Batch]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._settling = settling
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
                except StoreError as trouble:
                    logger.warning("heartbeat: %s (trying again)", trouble)
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
        touches = [Touch(job.claim.id, job.claim.epoch, lease) for job in jobs]
        answers = self._store.touch(touches, self._clock.now())
        batch.acknowledged = sent
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Refused):
                job.lost = True
                logger.warning("job %s: the claim was lost (%s)", job.claim.id, answer.reason)
            else:
                job.cancel_requested = answer.cancel_requested

    def _relieve(self, batch: Batch) -> None:
        """Settle what is done and hand back what has not begun; if that fails, as it was."""
        done, waiting = batch.take_done(), batch.take_pending()
        keep = batch.queue.keeps_history
        try:
            back = [release(job.claim, keep=keep) for job in waiting if not job.lost]
            self._settling.settle([*done, *back])
        except StoreError:
            batch.done.extendleft(reversed(done))
            batch.pending.extendleft(reversed(waiting))
            raise

    def _give_up(self, batch: Batch) -> None:
        for job in [*batch.running, *batch.pending]:
            if not job.lost:
                job.lost = True
                logger.warning("job %s: no heartbeat was confirmed; giving it up", job.claim.id)
