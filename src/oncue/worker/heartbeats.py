"""A worker's heartbeats: they renew the leases of what runs, and learn what should stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from oncue.core.errors import OncueError
from oncue.engine.loop import Loop
from oncue.ports.clock import Clock
from oncue.worker.batch import RunningBatch, take_all
from oncue.worker.job import HandledJob
from oncue.worker.source import AWAY, Beat, ClaimEnd, ClaimSource

LOOK_SECONDS = 1.0  # how soon a job that takes its time shows as executing

logger = logging.getLogger("oncue.worker")


class Heartbeats:
    """Looks every second at the batches under way. A job that has run for a second gets a
    heartbeat, then one every third of the lease, in one call for all jobs. Jobs that wait behind a
    slow one are handed back, and jobs that were done before it are settled. Claims are given up in
    time even if this thread is late: see `HandledJob.lost`."""

    def __init__(
        self, source: ClaimSource, clock: Clock, batches: Callable[[], Sequence[RunningBatch]]
    ) -> None:
        self.loop = Loop("oncue-heartbeats", self.step, clock)
        self._source = source
        self._clock = clock
        self._batches = batches
        self._next_look = 0.0

    def expect(self, lease_seconds: float) -> None:
        """A batch was claimed: where the lease is short, the next usual look would be too late."""
        if lease_seconds < 3 * LOOK_SECONDS:
            self.loop.wake_for(self._clock.now() + round(lease_seconds / 3 * 1000))

    def step(self) -> float:
        """Look at every batch once; rest until the next look."""
        batches = self._batches()
        slow = [batch for batch in batches if self._is_slow(batch)]
        acts = [
            partial(self._beat, slow),
            partial(self._look, batches),
            *(partial(self._settle_early, batch) for batch in slow),
        ]
        for act in acts:
            try:
                act()
            except OncueError as trouble:
                logger.warning("heartbeat: %s (trying again)", trouble)
                if isinstance(trouble, AWAY):
                    break  # each of the others would have to wait for it again
        for job in [job for batch in batches for job in (*batch.running, *batch.pending)]:
            if job.lost and not job.announced:
                job.announced = True
                logger.warning("job %s: %s", job.id, job.why_lost, extra=job.facts)
        return self._rest(batches)

    def _is_slow(self, batch: RunningBatch) -> bool:
        age = self._clock.monotonic() - batch.began
        return age >= min(LOOK_SECONDS, batch.queue.lease_seconds / 3)

    def _rest(self, batches: Sequence[RunningBatch]) -> float:
        if not batches:
            return LOOK_SECONDS
        shortest = min(batch.queue.lease_seconds for batch in batches) / 6
        now = self._clock.monotonic()
        look = max(0.0, self._next_look - now)
        ages = (now - batch.began for batch in batches)
        first_beat = min((LOOK_SECONDS - age for age in ages if age < LOOK_SECONDS), default=look)
        return min(LOOK_SECONDS, shortest, look, first_beat)

    def _beat(self, slow: Sequence[RunningBatch]) -> None:
        """One call for all that is due for a heartbeat."""
        with ExitStack() as held:
            due = [batch for batch in slow if self._is_due(batch) and _hold(batch, held)]
            jobs = list(_running(due))
            if not jobs:
                return
            sent = self._clock.monotonic()
            beats = [Beat(job.claim, batch.queue.lease_seconds) for batch, job in jobs]
            for (batch, job), answer in zip(jobs, self._source.touch(beats), strict=True):
                batch.acknowledged = sent
                job.heartbeat_answered(answer, sent)

    def _is_due(self, batch: RunningBatch) -> bool:
        every = min(batch.queue.lease_seconds / 3, self._source.beat_seconds)
        silent = self._clock.monotonic() - batch.acknowledged
        return batch.acknowledged == batch.began or silent >= every

    def _look(self, batches: Sequence[RunningBatch]) -> None:
        """Ask, for all that runs, what should stop: what was cancelled, or is no longer ours."""
        if self._clock.monotonic() < self._next_look:
            return
        jobs = [(batch, job) for batch, job in _running(batches) if not job.cancel_requested]
        self._next_look = self._clock.monotonic() + self._source.look_seconds
        if jobs:
            found = self._source.interruptions([job.claim for _, job in jobs])
            for position, why in found.items():
                batch, job = jobs[position]
                # Else it came to its end meanwhile.
                if job in batch.running and job.completion is None:
                    job.interrupt(why)

    def _settle_early(self, batch: RunningBatch) -> None:
        """Settle what is done and hand back what has not begun; if that fails, as it was."""
        with ExitStack() as held:
            if not _hold(batch, held):
                return
            done, waiting = take_all(batch.done), take_all(batch.pending)
            back = [ClaimEnd(job.claim, "release") for job in waiting if not job.is_over]
            try:
                self._source.settle(batch.queue, [*done, *back], brief=True)
            except BaseException:  # the jobs that are done are settled later
                batch.done.extendleft(reversed(done))
                batch.pending.extendleft(reversed(waiting))
                raise


def _hold(batch: RunningBatch, held: ExitStack) -> bool:
    """Keep others from writing about the batch. False: its runner is writing."""
    if not batch.settling.acquire(blocking=False):
        return False
    held.callback(batch.settling.release)
    return True


def _running(batches: Sequence[RunningBatch]) -> Iterator[tuple[RunningBatch, HandledJob]]:
    """Without those that a transaction of their handler completes: a heartbeat would wait."""
    return (
        (batch, job)
        for batch in batches
        for job in batch.running
        if not job.is_over and job.completion is None
    )
