"""The Python worker: threads that claim jobs, run their handlers and settle.

One thread at a time is on watch: it waits for work and claims it. Having got some, it hands the
watch to the next idle thread and runs what it has. So claims are made one after the other, handlers
run side by side, and nothing is handed from thread to thread.

Quick jobs are claimed and settled many at a time: as many as were done in a twentieth of a second
before. Slow ones are claimed one by one. What waits behind a job that turns out slow goes back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from oncue.batch import Batch
from oncue.core.errors import ClaimLost, InvalidInput, NonRetryable, OncueError
from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, Verb
from oncue.core.moment import LATEST, Moment
from oncue.engine.alarm import Alarm
from oncue.handled import HandledJob
from oncue.handlers import Handler
from oncue.heartbeats import Heartbeats
from oncue.intake import legible
from oncue.ports.claims import Settlement
from oncue.reporting import failure, failure_verdict
from oncue.settling import Settling, bodies, body, release

if TYPE_CHECKING:
    from oncue.scheduler import Scheduler

BATCH_SECONDS = 0.05  # how much work is taken at once
BATCH_LIMIT = 1000
BATCH_BYTES = 16 * 1024 * 1024  # of payloads, if all were as large as the largest seen last
EMPTY_HANDED_REST_MS = 50  # something is due, but somebody else is about to take it
LOOK_EVERYWHERE_SECONDS = 30.0
OTHERS_REST_SECONDS = 0.25  # between looks at what others still have, when running until empty
FLUSH_SECONDS = 0.02  # how long a finished job may wait for others to be settled with

logger = logging.getLogger("oncue.worker")


class Worker:
    def __init__(
        self,
        cue: Scheduler,
        *,
        concurrency: int = 1,
        name: str | None = None,
        grace_seconds: float = 30.0,
    ) -> None:
        if not cue.handlers.queues:
            raise InvalidInput(
                "no handler is registered; decorate a function with @cue.handler('queue') first."
            )
        if concurrency < 1:
            raise InvalidInput("must be at least 1.", "/concurrency")
        self.name = name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._cue = cue
        self._store = cue.store
        self._clock = cue.clock
        self._concurrency = concurrency
        self._grace_seconds = grace_seconds
        self._alarm = Alarm(cue.clock)
        self._watch = threading.Lock()
        self._done = threading.Event()
        self._ended: SimpleQueue[None] = SimpleQueue()  # signal handlers may put into it
        self._queues = deque(cue.handlers.queues)
        self._next_at: dict[str, Moment] = dict.fromkeys(self._queues, 0)
        self._expecting = threading.Lock()
        self._looked = cue.clock.monotonic()
        self._sizes: dict[str, int] = dict.fromkeys(self._queues, 1)
        self._batches: set[Batch] = set()
        self._settling = Settling(self._store, self._clock)
        self._heartbeats = Heartbeats(
            self._store, self._clock, self._settling, lambda: list(self._batches)
        )
        self._until_empty = False

    # -- running -------------------------------------------------------------------------------

    def run(self, *, until_empty: bool = False) -> None:
        """Work until `stop`, SIGTERM or Ctrl-C; or until nothing is left to do."""
        self._until_empty = until_empty
        unwatch = self._store.watch(self._woken)
        self._heartbeats.start()
        threads = [
            threading.Thread(target=self._serve, name=f"oncue-worker-{n + 1}", daemon=True)
            for n in range(self._concurrency)
        ]
        with self._signals():
            for thread in threads:
                thread.start()
            self._ended.get()
            self.stop()
            unwatch()
            self._finish(threads)

    def stop(self) -> None:
        """Claim nothing more, hand back what was not begun, and let `run` return."""
        self._done.set()
        self._alarm.stop()
        self._ended.put(None)

    def step(self) -> bool:
        """Claim and run one batch in this thread, without waiting. Whether there was any."""
        self._expect(None, 0)
        batch = self._claim()
        if batch is None:
            return False
        self._run(batch, None)
        return True

    def _finish(self, threads: list[threading.Thread]) -> None:
        ends = self._clock.monotonic() + self._grace_seconds
        for thread in threads:
            thread.join(max(0.0, ends - self._clock.monotonic()))
        self._heartbeats.stop()
        for batch in list(self._batches):  # still running after the grace: somebody else may
            keep = batch.queue.keeps_history
            jobs = [job for job in [*batch.running, *batch.take_pending()] if not job.lost]
            batch.done.extend(release(job.claim, keep=keep) for job in jobs)
            self._settle(batch)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: object) -> None:
            if number == signal.SIGINT and self._done.is_set():
                raise KeyboardInterrupt  # pressed again: whoever waits here has waited enough
            self._ended.put(None)

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            while not self._done.is_set():
                try:
                    with self._watch:
                        batch = self._await_batch()
                    if batch is not None:
                        self._run(batch, runner)
                except OncueError as trouble:
                    logger.error("worker %s: %s (trying again)", self.name, trouble)
                    self._alarm.pause(1.0)
                except Exception:
                    logger.exception("worker %s: unexpected (trying again)", self.name)
                    self._alarm.pause(1.0)

    # -- claiming ------------------------------------------------------------------------------

    def _await_batch(self) -> Batch | None:
        while not self._done.is_set():
            self._alarm.arm()
            looked_at = self._clock.now()
            batch = self._claim()
            if batch is not None:
                return batch
            # Compared with the moment before the claim: what fell due meanwhile is taken at once.
            ahead_ms = min(self._next_at.values()) - looked_at
            if self._until_empty and not self._batches:
                if self._nothing_left():
                    self.stop()
                    return None
                ahead_ms = min(ahead_ms, round(OTHERS_REST_SECONDS * 1000))
            if ahead_ms > 0:
                ahead_ms -= self._clock.now() - looked_at
            else:
                ahead_ms = EMPTY_HANDED_REST_MS
            self._alarm.rest(ahead_ms / 1000)
            self._look_everywhere_at_times()
        return None

    def _nothing_left(self) -> bool:
        """Nothing waits and nothing is taken. Looked at twice: what goes from one to the other in
        between is seen the second time."""
        queues = list(self._queues)
        if self._store.next_due(queues) is not None:
            return False
        pages = (
            self._store.page(JobFilter(queue=queue, state=state), None, 1)
            for queue in queues
            for state in LIVE
        )
        taken = any(page.items or page.next for page in pages)
        return not taken and self._store.next_due(queues) is None

    def _look_everywhere_at_times(self) -> None:
        """News can get lost between processes: look at all queues now and then."""
        if self._clock.monotonic() - self._looked >= LOOK_EVERYWHERE_SECONDS:
            self._looked = self._clock.monotonic()
            self._expect(None, 0)

    def _claim(self) -> Batch | None:
        """A batch of the first queue, in turn, that has due work."""
        for _ in range(len(self._queues)):
            name = self._queues[0]
            self._queues.rotate(-1)
            now = self._clock.now()
            if self._next_at[name] > now:
                continue
            # Before claiming, so that news which comes meanwhile is not overwritten by older facts.
            self._next_at[name] = LATEST
            due_at: Moment | None = 0  # also when the store fails: look again
            try:
                batch = self._claim_from(name, now)
                if batch is None:
                    due_at = self._store.next_due([name])
            finally:
                self._expect(name, LATEST if due_at is None else due_at)
            if batch is not None:
                return batch
        return None

    def _claim_from(self, name: str, now: Moment) -> Batch | None:
        queue, handler = self._cue.policies(name), self._cue.handlers.of(name)
        limit = handler.batch or self._sizes[name]
        began = self._clock.monotonic()
        claims = self._store.claim([queue], self.name, limit, now, reclaimed_limit=1)
        if not claims:
            return None
        jobs = [HandledJob(claim, self._store, self._clock, self._settling) for claim in claims]
        batch = Batch(queue, handler, jobs, began)
        self._batches.add(batch)
        self._heartbeats.expect(queue.lease_seconds)
        return batch

    def _woken(self, queue: str | None, due_at: Moment) -> None:
        if queue is None or queue in self._next_at:
            self._expect(queue, due_at)
            self._alarm.wake_for(due_at)

    def _expect(self, queue: str | None, due_at: Moment) -> None:
        """Note that a queue (None: any) may have work from `due_at`."""
        with self._expecting:
            for name in self._next_at if queue is None else [queue]:
                self._next_at[name] = min(self._next_at[name], due_at)

    # -- running handlers ----------------------------------------------------------------------

    def _run(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        try:
            if batch.handler.batch is not None:
                self._run_together(batch, runner)
            else:
                self._run_one_by_one(batch, runner)
        finally:
            self._batches.discard(batch)
            if self._until_empty:  # whoever is on watch may have been waiting for this
                self._alarm.wake()

    def _run_one_by_one(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        monotonic, pending = self._clock.monotonic, batch.pending
        call = _caller(batch.handler, runner)
        began = flushed = monotonic()
        ran = 0
        while pending and not self._done.is_set():
            try:
                job = pending.popleft()
            except IndexError:
                break  # taken away and handed back meanwhile
            if job.lost:
                continue
            batch.running = [job]
            settlement = self._outcome(batch, job, call)
            batch.running = []
            if settlement is not None:
                batch.done.append(settlement)
            ran += 1
            if monotonic() - flushed >= FLUSH_SECONDS:
                self._settle(batch)
                flushed = monotonic()
        keep = batch.queue.keeps_history
        batch.done.extend(
            release(job.claim, keep=keep) for job in batch.take_pending() if not job.lost
        )
        self._settle(batch)
        self._resize(batch, ran, monotonic() - began)

    def _outcome(
        self, batch: Batch, job: HandledJob, call: Callable[[Any], Any]
    ) -> Settlement | None:
        """Run the handler; how the claim ends, or None if it is no longer ours to end."""
        try:
            result = call(job)
            stored = None if result is None else body(result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a handler raises must not end the worker's thread
            return self._failed(batch, job, error)
        if job.lost:
            return None
        claim, keep = job.claim, batch.queue.keeps_history
        return Settlement(claim.id, claim.epoch, Verb.COMPLETE, stored, keep=keep)

    def _run_together(self, batch: Batch, runner: asyncio.Runner | None) -> None:
        jobs = batch.running = batch.take_pending()
        keep = batch.queue.keeps_history
        ends: list[Settlement | None]
        try:
            results = _caller(batch.handler, runner)(jobs)
            stored = bodies(results, len(jobs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            ends = [self._failed(batch, job, error) for job in jobs]
        else:
            ends = [
                Settlement(job.claim.id, job.claim.epoch, Verb.COMPLETE, one, keep=keep)
                for job, one in zip(jobs, stored, strict=True)
                if not job.lost
            ]
        batch.running = []
        batch.done.extend(end for end in ends if end is not None)
        self._settle(batch)

    def _failed(self, batch: Batch, job: HandledJob, error: BaseException) -> Settlement | None:
        claim = job.claim
        if job.lost:
            logger.warning("job %s: the claim was lost; its result is not used", claim.id)
            return None
        if isinstance(error, ClaimLost) and job.cancel_requested:
            text = "The handler stopped because a cancel was requested."
        else:
            text = legible(f"{type(error).__name__}: {error}")
        retryable = not isinstance(error, (NonRetryable, *batch.handler.fatal))
        verdict = failure_verdict(
            claim,
            batch.queue,
            self._clock.now(),
            cancelled=job.cancel_requested,
            retryable=retryable,
            spread=self._cue.spread(),
        )
        # The text of an exception may quote the payload, so only its kind and place are logged.
        place = "".join(traceback.format_tb(error.__traceback__)[-3:])
        logger.warning(
            "job %s: attempt %d raised %s (%s)\n%s",
            claim.id,
            claim.attempt,
            type(error).__name__,
            verdict.verb,
            place,
        )
        return failure(
            claim.id,
            claim.epoch,
            verdict,
            text,
            cancel_seen=job.cancel_requested,
            keep=batch.queue.keeps_history,
        )

    # -- settling ------------------------------------------------------------------------------

    def _settle(self, batch: Batch) -> None:
        """Write down how the jobs of a batch ended, as far as they have."""
        with batch.settling:
            settlements = batch.take_done()
            self._settling.insist(lambda: self._settling.settle(settlements))

    def _resize(self, batch: Batch, done: int, seconds: float) -> None:
        """Take as many next time as fit in a batch's time and memory, but at most four times as
        many as before."""
        if done:
            queue = batch.queue.name
            in_time = int(BATCH_SECONDS / max(seconds / done, 1e-6))
            in_memory = BATCH_BYTES // max(batch.largest, 1)
            grown = self._sizes[queue] * 4
            self._sizes[queue] = max(1, min(in_time, in_memory, grown, BATCH_LIMIT))


def _caller(handler: Handler, runner: asyncio.Runner | None) -> Callable[[Any], Any]:
    if not handler.is_async:
        return handler.function
    run = asyncio.run if runner is None else runner.run
    return lambda argument: run(handler.function(argument))
