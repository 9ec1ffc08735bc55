"""How a worker runs what it has claimed: handlers, results, failures, and how much to take next."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from oncue.core.errors import ClaimLost, NonRetryable, is_ctrl_c
from oncue.core.text import exception_text
from oncue.engine.alarm import Alarm
from oncue.worker.batch import RunningBatch, take_all
from oncue.worker.handlers import Handler
from oncue.worker.job import HandledJob
from oncue.worker.results import bodies, body
from oncue.worker.source import AWAY, ClaimEnd

BATCH_SECONDS = 0.05  # how much work is taken at once
BATCH_LIMIT = 1000
BATCH_BYTES = 16 * 1024 * 1024  # of payloads, if all were as large as the largest seen last
NOT_COMMITTED = "The transaction in which the job was completed was not committed."
FLUSH_SECONDS = 0.02  # how long a finished job may wait for others to be settled with

Call = Callable[[list[HandledJob]], Sequence[bytes | None]]
"""Runs a handler on jobs; their results, as they are stored."""

logger = logging.getLogger("oncue.worker")


class Runner:
    """Once `alarm` is stopped, nothing more is begun."""

    def __init__(self, alarm: Alarm) -> None:
        self.sizes: dict[str, int] = {}
        """How many jobs of a queue to take next; one, until more is known."""
        self._alarm = alarm

    def run(self, batch: RunningBatch, runner: asyncio.Runner | None) -> None:
        """Run the handler on all jobs of the batch whose claims still hold, and settle them."""
        call = _caller(batch.handler, runner)
        if batch.handler.batch is None:
            self._run_each(batch, call)
        else:
            _run(batch, take_all(batch.pending), call)
        batch.hand_back(take_all(batch.pending))
        batch.settle()

    def _run_each(self, batch: RunningBatch, call: Call) -> None:
        monotonic, alarm, pending = batch.clock.monotonic, self._alarm, batch.pending
        began = flushed = monotonic()
        ran = 0
        while pending and not alarm.stopped:
            try:
                job = pending.popleft()
            except IndexError:
                break  # taken away and handed back meanwhile
            if job.lost:
                batch.hand_back([job])
                continue
            _run(batch, [job], call)
            ran += 1
            if monotonic() - flushed >= FLUSH_SECONDS:
                batch.settle()
                flushed = monotonic()
        if ran:
            self._resize(batch, (monotonic() - began) / ran)

    def _resize(self, batch: RunningBatch, seconds_each: float) -> None:
        """Take as many next time as fit in a batch's time and memory, but at most four times as
        many as before."""
        queue = batch.queue.name
        in_time = int(BATCH_SECONDS / max(seconds_each, 1e-6))
        in_memory = BATCH_BYTES // max(batch.largest, 1)
        grown = self.sizes.get(queue, 1) * 4
        self.sizes[queue] = max(1, min(in_time, in_memory, grown, BATCH_LIMIT))


def _run(batch: RunningBatch, jobs: list[HandledJob], call: Call) -> None:
    """Run the handler, and note how those claims end that are not lost."""
    batch.running = jobs
    results: Sequence[bytes | None] = ()
    error = None
    try:
        results = call(jobs)
    except BaseException as raised:  # whatever a handler raises must not end the worker's thread
        if is_ctrl_c(raised):
            raise
        error = raised
    batch.running = []
    for place, job in enumerate(jobs):
        if job.completion is not None and _is_done(batch, job, error):
            continue
        if job.why_lost and not job.is_unconfirmed:  # otherwise the store judges
            text = "job %s: %s; its result is not used"
            logger.warning(text, job.id, job.why_lost, extra=job.facts)
        elif error is None and job.completion is not None:
            logger.warning("job %s: %s", job.id, NOT_COMMITTED, extra=job.facts)
            batch.done.append(ClaimEnd(job.claim, "fail", error=NOT_COMMITTED, may_be_done=True))
        elif error is None:
            batch.done.append(ClaimEnd(job.claim, "complete", results[place]))
        elif job.is_unconfirmed and isinstance(error, ClaimLost):
            text = "job %s: its handler stopped, as no heartbeat was confirmed; it is handed back"
            logger.warning(text, job.id, extra=job.facts)
            batch.hand_back([job])
        elif (failure := _failure(job, error, batch.handler)) is not None:
            batch.done.append(failure._replace(may_be_done=job.completion is not None))


def _is_done(batch: RunningBatch, job: HandledJob, error: BaseException | None) -> bool:
    """Whether a job that its handler completed in a transaction is completed. It is only read:
    nothing but that transaction completes it."""
    try:
        done = batch.results.insist(job.is_completed)
    except AWAY as trouble:
        logger.warning("job %s: was it completed? %s", job.id, trouble, extra=job.facts)
        return False  # then a failure is reported, and refused if it was
    if done and error is not None:
        line = "job %s: its handler raised %s after the job was completed"
        logger.warning(line, job.id, type(error).__name__, extra=job.facts)
    return done


def _failure(job: HandledJob, error: BaseException, handler: Handler) -> ClaimEnd | None:
    if isinstance(error, ClaimLost) and job.cancel_requested:
        line = "job %s: its handler stopped: a cancel was requested"
        logger.info(line, job.id, extra=job.facts)
        text = "The handler stopped because a cancel was requested."
        return ClaimEnd(job.claim, "fail", error=text)
    if isinstance(error, ClaimLost) and job.overlong:
        # Left to the reclaimer, which judges every attempt that took too long alike.
        text = "job %s: its handler stopped at the timeout of the attempt"
        logger.warning(text, job.id, extra=job.facts)
        return None
    retryable = not isinstance(error, (NonRetryable, *handler.fatal))
    # The text of an exception may quote the payload, so only its kind and place are logged.
    place = "".join(traceback.format_tb(error.__traceback__)[-3:])
    line = "job %s: attempt %d raised %s\n%s"
    logger.warning(line, job.id, job.attempt, type(error).__name__, place, extra=job.facts)
    text = exception_text(error)
    return ClaimEnd(job.claim, "fail", None, text, retryable)


def _caller(handler: Handler, runner: asyncio.Runner | None) -> Call:
    function = handler.function
    if inspect.iscoroutinefunction(function):
        run, coroutine_of = asyncio.run if runner is None else runner.run, handler.function

        def function(argument: Any) -> Any:
            return run(coroutine_of(argument))

    if handler.batch is None:
        return lambda jobs: (body(function(jobs[0])),)
    return lambda jobs: bodies(function(jobs), len(jobs))
