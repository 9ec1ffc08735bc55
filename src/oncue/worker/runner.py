"""How a worker runs what it has claimed: handlers, results, failures, and how much to take next."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any

from oncue import config
from oncue.core.errors import (
    ClaimLost,
    Fenced,
    IllegalState,
    NonRetryable,
    NotSupported,
    ServerError,
    StoreError,
    is_ctrl_c,
)
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
STILL_OPEN = (
    "its handler ended while the transaction that completes the job was still open; nothing is "
    "reported about the job"
)
QUOTES_NOTHING = (ClaimLost, Fenced, IllegalState, NotSupported, ServerError, StoreError)
"""Errors whose texts are oncue's own and contain nothing of payloads and results."""
NOT_COMMITTED = "The transaction in which the job was completed was not committed."
CANCELLED = "The handler stopped because a cancel was requested."
NOT_STORED = (
    "What its handler returned is not stored, as the job was completed in a transaction; give it "
    "to job.complete(result, connection=connection)."
)
FLUSH_SECONDS = 0.02  # how long a finished job may wait for others to be settled with

Call = Callable[[list[HandledJob]], Sequence[bytes | None]]
"""Runs a handler on jobs; their results, as they are stored."""

_WHY_LOST, _COMPLETION = attrgetter("why_lost"), attrgetter("completion")
_CLAIM = attrgetter("claim")

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
            self._run_together(batch, call)
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

    def _run_together(self, batch: RunningBatch, call: Call) -> None:
        jobs = take_all(batch.pending)
        if not jobs:
            return  # taken away and handed back meanwhile
        # They were claimed together, so the first tells of all whether their claims still hold.
        if self._alarm.stopped or jobs[0].lost:
            batch.hand_back(jobs)
        else:
            _run(batch, jobs, call)

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
    if error is None and not any(map(_WHY_LOST, jobs)) and not any(map(_COMPLETION, jobs)):
        if batch.handler.batch is not None and not any(results):
            batch.completed = list(map(_CLAIM, jobs))
            return
        ended = zip(jobs, results, strict=True)
        batch.done.extend([ClaimEnd(job.claim, "complete", result) for job, result in ended])
        return
    failed: list[HandledJob] = []
    for job, result in zip_longest(jobs, results):
        end = _end_of(batch, job, result, error)
        if end is None:
            continue
        batch.done.append(end)
        if end.outcome == "fail" and end.error not in (NOT_COMMITTED, CANCELLED):
            failed.append(job)
    if failed and error is not None:
        _log_failure(failed, error, batch.source.options)


def _end_of(
    batch: RunningBatch, job: HandledJob, result: bytes | None, error: BaseException | None
) -> ClaimEnd | None:
    """How to end the claim of a job whose handler returned this result or raised this error. None:
    nothing is reported."""
    completion = job.completion
    if completion is not None and _is_done(batch, job, error):
        if error is None and result not in (None, completion.result):
            _warn(job, NOT_STORED)
        return None
    if job.why_lost and not job.is_unconfirmed:  # otherwise the store judges
        _warn(job, "%s; its result is not used", job.why_lost)
        return None
    if error is None and completion is None:
        return ClaimEnd(job.claim, "complete", result)
    if error is None:
        _warn(job, NOT_COMMITTED)
        return ClaimEnd(job.claim, "fail", error=NOT_COMMITTED, may_be_done=True)
    if job.is_cut_off and not batch.results.costs_attempt(job.id):
        _warn(job, "the store could not be reached during its transaction; the job is released")
        return ClaimEnd(job.claim, "release", may_be_done=completion is not None)
    if job.is_unconfirmed and isinstance(error, ClaimLost):
        _warn(job, "its handler stopped, as no heartbeat was confirmed; the job is released")
        batch.hand_back([job])
        return None
    failure = _failure(job, error, batch.handler)
    return failure and failure._replace(may_be_done=completion is not None)


def _is_done(batch: RunningBatch, job: HandledJob, error: BaseException | None) -> bool:
    """Whether a job that its handler completed in a transaction is completed, or still may be. It
    is only read: nothing but that transaction completes it."""
    try:
        done = batch.results.insist(job.is_completed)
    except AWAY as trouble:
        _warn(job, "it is not known whether its transaction completed it: %s", trouble)
        return False  # a failure is reported, which is refused if the job was completed
    if done is None:  # a report would wait for that transaction, as would the rest of the batch
        _warn(job, STILL_OPEN)
        return True
    if done and error is not None:
        _warn(job, "its handler raised %s after the job was completed", type(error).__name__)
    return done


def _failure(job: HandledJob, error: BaseException, handler: Handler) -> ClaimEnd | None:
    if isinstance(error, ClaimLost) and job.cancel_requested:
        line = "job %s: its handler stopped: a cancel was requested"
        logger.info(line, job.id, extra=job.facts)
        return ClaimEnd(job.claim, "fail", error=CANCELLED)
    if isinstance(error, ClaimLost) and job.overlong:
        # Left to the reclaimer, which judges every attempt that took too long alike.
        _warn(job, "its handler stopped at the timeout of the attempt")
        return None
    retryable = not isinstance(error, (NonRetryable, *handler.fatal))
    return ClaimEnd(job.claim, "fail", None, exception_text(error), retryable)


def _log_failure(
    failed: list[HandledJob], error: BaseException, options: Sequence[str] | None
) -> None:
    """Once for all jobs of a batch. The text of an exception may quote the payload: then only its
    kind and place are logged."""
    job, more = failed[0], len(failed) - 1
    in_python = f"cue.job('{job.id}').error"
    shown = in_python if options is None else config.typed(options, "jobs", "show", job.id)
    said = f"{type(error).__name__}; its text: {shown}"
    if isinstance(error, QUOTES_NOTHING):
        said = exception_text(error)
    others = f" (and {more:,} more of its batch)" if more else ""
    place = "".join(traceback.format_tb(error.__traceback__)[-3:])
    text = "job %s%s: attempt %d raised %s\n%s"
    logger.warning(text, job.id, others, job.attempt, said, place, extra=job.facts)


def _warn(job: HandledJob, text: str, *details: object) -> None:
    logger.warning(f"job %s: {text}", job.id, *details, extra=job.facts)


def _caller(handler: Handler, runner: asyncio.Runner | None) -> Call:
    function = handler.function
    if inspect.iscoroutinefunction(function):
        run, coroutine_of = asyncio.run if runner is None else runner.run, handler.function

        def function(argument: Any) -> Any:
            return run(coroutine_of(argument))

    if handler.batch is None:
        return lambda jobs: (body(function(jobs[0])),)
    return lambda jobs: bodies(function([*jobs]), len(jobs))  # its list is its own: it may empty it
