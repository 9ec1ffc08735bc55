"""How a worker runs what it has in hand: handlers, results, failures, and how much to take next."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from oncue.core.errors import ClaimLost, NonRetryable, is_ctrl_c
from oncue.core.text import exception_text
from oncue.ports.clock import Clock
from oncue.worker.batch import Batch
from oncue.worker.handlers import Handler
from oncue.worker.job import HandledJob
from oncue.worker.results import Results, bodies, body
from oncue.worker.source import ClaimSource, Ending

BATCH_SECONDS = 0.05  # how much work is taken at once
BATCH_LIMIT = 1000
BATCH_BYTES = 16 * 1024 * 1024  # of payloads, if all were as large as the largest seen last
FLUSH_SECONDS = 0.02  # how long a finished job may wait for others to be settled with

logger = logging.getLogger("oncue.worker")


class Runner:
    """`stopped` says whether nothing more is to be begun."""

    def __init__(
        self, source: ClaimSource, clock: Clock, results: Results, stopped: Callable[[], bool]
    ) -> None:
        self.sizes: dict[str, int] = {}
        """How many jobs of a queue to take next; one, until more is known."""
        self._source = source
        self._clock = clock
        self._results = results
        self._stopped = stopped

    def run(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        """Run the handler on all jobs of the batch that are still ours, and settle them."""
        if batch.handler.batch is not None:
            self._run_together(batch, runner)
        else:
            self._run_one_by_one(batch, runner)

    def hand_back(self, batch: Batch, jobs: Sequence[HandledJob]) -> None:
        """Note that these were not begun, or not finished, and may be done by somebody else."""
        released, queue = self._source.released, batch.queue
        batch.done.extend(released(job.claim, queue) for job in jobs if not job.lost)

    def settle(self, batch: Batch) -> None:
        """Write down how the jobs of a batch ended, as far as they have."""
        with batch.settling:
            endings = batch.take_done()
            self._results.insist(lambda: self._source.settle(endings))

    def _run_one_by_one(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        monotonic, stopped, pending = self._clock.monotonic, self._stopped, batch.pending
        call = _caller(batch.handler, runner)
        began = flushed = monotonic()
        ran = 0
        while pending and not stopped():
            try:
                job = pending.popleft()
            except IndexError:
                break  # taken away and handed back meanwhile
            if job.lost:
                continue
            batch.running = [job]
            ending = self._outcome(batch, job, call)
            batch.running = []
            if ending is not None:
                batch.done.append(ending)
            ran += 1
            if monotonic() - flushed >= FLUSH_SECONDS:
                self.settle(batch)
                flushed = monotonic()
        self.hand_back(batch, batch.take_pending())
        self.settle(batch)
        self._resize(batch, ran, monotonic() - began)

    def _outcome(self, batch: Batch, job: HandledJob, call: Callable[[Any], Any]) -> Ending | None:
        """Run the handler; how the claim ends, or None if it is no longer ours to end."""
        try:
            result = call(job)
            stored = None if result is None else body(result)
        except BaseException as error:  # whatever a handler raises must not end the worker's thread
            if is_ctrl_c(error):
                raise
            return self._failed(batch, job, error)
        return self._completed(batch, job, stored)

    def _completed(self, batch: Batch, job: HandledJob, stored: bytes | None) -> Ending | None:
        if job.why_lost:  # noticed by the handler or the heartbeats; else the store judges it
            _log_unused(job)
            return None
        return self._source.completed(job.claim, batch.queue, stored)

    def _run_together(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        jobs = batch.running = batch.take_pending()
        ends: list[Ending | None]
        try:
            results = _caller(batch.handler, runner)(jobs)
            stored = bodies(results, len(jobs))
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            ends = [self._failed(batch, job, error) for job in jobs]
        else:
            pairs = zip(jobs, stored, strict=True)
            ends = [self._completed(batch, job, one) for job, one in pairs]
        batch.running = []
        batch.done.extend(end for end in ends if end is not None)
        self.settle(batch)

    def _failed(self, batch: Batch, job: HandledJob, error: BaseException) -> Ending | None:
        claim = job.claim
        if job.why_lost:
            _log_unused(job)
            return None
        if isinstance(error, ClaimLost) and job.cancel_requested:
            line = "job %s: its handler stopped: a cancel was requested"
            logger.info(line, claim.id, extra=job.facts)
            text = "The handler stopped because a cancel was requested."
            return self._source.failed(claim, batch.queue, text, retryable=True, cancel_seen=True)
        if isinstance(error, ClaimLost) and job.overlong:
            # Left to the reclaimer, which judges every attempt that took too long alike.
            text = "job %s: its handler stopped at the timeout of the attempt"
            logger.warning(text, claim.id, extra=job.facts)
            return None
        retryable = not isinstance(error, (NonRetryable, *batch.handler.fatal))
        # The text of an exception may quote the payload, so only its kind and place are logged.
        place = "".join(traceback.format_tb(error.__traceback__)[-3:])
        kind = type(error).__name__
        line = "job %s: attempt %d raised %s\n%s"
        logger.warning(line, claim.id, claim.attempt, kind, place, extra=job.facts)
        return self._source.failed(
            claim,
            batch.queue,
            exception_text(error),
            retryable=retryable,
            cancel_seen=job.cancel_requested,
        )

    def _resize(self, batch: Batch, done: int, seconds: float) -> None:
        """Take as many next time as fit in a batch's time and memory, but at most four times as
        many as before."""
        if done:
            queue = batch.queue.name
            in_time = int(BATCH_SECONDS / max(seconds / done, 1e-6))
            in_memory = BATCH_BYTES // max(batch.largest, 1)
            grown = self.sizes.get(queue, 1) * 4
            self.sizes[queue] = max(1, min(in_time, in_memory, grown, BATCH_LIMIT))


def _log_unused(job: HandledJob) -> None:
    text = "job %s: %s; its result is not used"
    logger.warning(text, job.id, job.why_lost, extra=job.facts)


def _caller(handler: Handler, runner: asyncio.Runner | None) -> Callable[[Any], Any]:
    if not handler.is_async:
        return handler.function
    run = asyncio.run if runner is None else runner.run
    return lambda argument: run(handler.function(argument))
