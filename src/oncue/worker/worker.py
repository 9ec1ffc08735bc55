"""The Python worker: threads that claim jobs, run their handlers and settle.

One thread at a time is on watch: it waits for work and claims it. Having got some, it hands the
watch to the next idle thread and runs what it has. So claims are made one after the other, handlers
run side by side, and nothing is handed from thread to thread.

Quick jobs are claimed and settled many at a time: as many as were done in a twentieth of a second
before. Slow ones are claimed one by one. Jobs that wait behind one that turns out slow are handed
back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from oncue.core.errors import AccessDenied, InvalidInput, OncueError
from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import LATEST, Moment
from oncue.core.polling import about
from oncue.core.text import legible
from oncue.engine.alarm import Alarm
from oncue.engine.loop import Loop
from oncue.engine.wall_clock import WallClock
from oncue.worker.batch import RunningBatch, take_all
from oncue.worker.handlers import Host
from oncue.worker.heartbeats import Heartbeats
from oncue.worker.results import Results
from oncue.worker.runner import Runner

LOOK_EVERYWHERE_SECONDS = 30.0
OTHERS_REST_SECONDS = 0.25  # between looks at what others still have, when running until empty
TROUBLE_SECONDS = 1.0  # between tries while the store or the server is away
SUPERVISE_SECONDS = 2.0  # between looks whether all threads live
DENIALS_ALLOWED = 3  # a token that was just made may not be known everywhere for a second

logger = logging.getLogger("oncue.worker")


class Worker:
    def __init__(
        self,
        cue: Host,
        *,
        concurrency: int = 1,
        name: str | None = None,
        grace_seconds: float = 30.0,
    ) -> None:
        if not cue.handlers:
            raise InvalidInput(
                "no handler is registered; decorate a function with @cue.handler('queue') first."
            )
        if concurrency < 1:
            raise InvalidInput("must be at least 1.", "/concurrency")
        self.name = legible(name or f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}")
        self._cue = cue
        self._source = cue.claim_source(self.name)
        self._clock = cue.clock
        names = [f"oncue-worker-{n + 1}" for n in range(concurrency)]
        self._loops = [Loop(name, self._serve, cue.clock) for name in names]
        self._grace_seconds = grace_seconds
        self._alarm = Alarm(cue.clock)
        self._watch = threading.Lock()
        self._ended: SimpleQueue[None] = SimpleQueue()  # signal handlers may put into it
        self._queues = deque(cue.handlers)
        self._next_at: dict[str, Moment] = dict.fromkeys(self._queues, 0)
        self._expecting = threading.Lock()
        self._looked = cue.clock.monotonic()
        self._wall_clock = WallClock(cue.clock)
        self._batches: set[RunningBatch] = set()
        self._results = Results(self._clock)
        self._runner = Runner(self._alarm)
        self._heartbeats = Heartbeats(self._source, self._clock, lambda: list(self._batches))
        self._until_empty = False
        self._trouble = ""
        self._denials = 0
        self._denied: AccessDenied | None = None

    # -- running -------------------------------------------------------------------------------

    def run(self, *, until_empty: bool = False) -> None:
        """Work until `stop`, SIGTERM or Ctrl-C; or until nothing is left to do. Raises
        `AccessDenied` if the server refuses access for good."""
        self._until_empty = until_empty
        unwatch = self._source.watch(self._woken, self._next_at.keys)
        with self._signals():
            try:
                while not self._alarm.stopped:
                    self._start_threads()
                    if self._wall_clock.was_set():
                        self._expect(None, 0)  # these moments and the rest are of the old time
                        self._alarm.wake()
                    with suppress(Empty):
                        self._ended.get(timeout=SUPERVISE_SECONDS)
                        self.stop()
                self._finish()
            finally:
                self.stop()
                unwatch()
        if self._denied is not None:
            raise self._denied

    def stop(self) -> None:
        """Claim nothing more, hand back what was not begun, and let `run` return."""
        self._ended.put(None)
        self._alarm.stop()
        self._source.stop()

    def step(self) -> bool:
        """Claim and run one batch in this thread, without waiting. Whether there was any."""
        self._expect(None, 0)
        batch = self._claim()
        if batch is None:
            return False
        self._run(batch, None)
        return True

    def _start_threads(self) -> None:
        """Start every thread, and replace those that died."""
        for loop in (*self._loops, self._heartbeats.loop):
            if loop.start():
                self._source.thread_replaced()

    def _finish(self) -> None:
        ends = self._clock.monotonic() + self._grace_seconds
        for loop in self._loops:
            loop.stop(max(0.0, ends - self._clock.monotonic()))
        self._heartbeats.loop.stop(5.0)
        self._results.hurry()
        for batch in list(self._batches):  # still running after the grace: released
            left = [*batch.running, *take_all(batch.pending)]
            batch.hand_back(left)
            for job in left:
                job.lose(" (released: the worker has stopped)")
            try:
                batch.settle()
            except OncueError as trouble:  # of this batch; the others are handed back
                logger.error("worker %s: results were not written: %s", self.name, trouble)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: object) -> None:
            if number == signal.SIGINT and self._alarm.stopped:
                raise KeyboardInterrupt  # pressed again: end without waiting
            self._ended.put(None)

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _serve(self) -> None:
        """The one step of a thread: it ends when the worker stops."""
        with asyncio.Runner() as runner:
            while not self._alarm.stopped:
                try:
                    with self._watch:
                        batch = self._await_batch()
                    if batch is not None:
                        self._run(batch, runner)
                except OncueError as trouble:
                    self._report_trouble(trouble)
                    self._alarm.pause(TROUBLE_SECONDS)
                except BaseException:  # nothing that is raised here may end the thread
                    logger.exception("worker %s: unexpected (trying again)", self.name)
                    self._alarm.pause(TROUBLE_SECONDS)

    def _report_trouble(self, trouble: OncueError) -> None:
        """Log it once, however long it lasts. If access is denied again and again, stop."""
        if self._trouble != str(trouble):
            self._trouble = str(trouble)
            logger.error("worker %s: %s (trying again)", self.name, trouble)
        if isinstance(trouble, AccessDenied):
            self._denials += 1
            if self._denials >= DENIALS_ALLOWED:
                self._denied = trouble
                self.stop()

    def _recovered(self) -> None:
        """The store or the server has answered. Logged as visibly as the trouble before it."""
        if self._trouble:
            logger.warning("worker %s: works again", self.name)
        self._trouble, self._denials = "", 0

    # -- claiming ------------------------------------------------------------------------------

    def _await_batch(self) -> RunningBatch | None:
        while not self._alarm.stopped:
            self._alarm.arm()
            looked_at = self._clock.now()
            batch = self._claim()
            if batch is not None:
                return batch
            # Compared with the moment before the claim: what fell due meanwhile is taken at once.
            due_at = min(self._next_at.values())
            if due_at > looked_at:
                seconds = self._clock.seconds_until(due_at)
            else:
                seconds = about(self._source.poll_seconds)
            if self._until_empty:
                if not self._batches and self._is_nothing_left():
                    self.stop()
                    return None
                seconds = min(seconds, OTHERS_REST_SECONDS)
            self._source.rest(self._alarm, seconds)
            self._recovered()
            self._look_everywhere_at_times()
        return None

    def _is_nothing_left(self) -> bool:
        """Whether nothing waits in the queues, paused ones aside, and nothing is taken. What waits
        is looked for twice, because a job may come back while the taken ones are looked for."""
        open_queues = [name for name in self._queues if not self._cue.queue(name).paused]
        return not (
            self._is_any(open_queues, [State.SCHEDULED])
            or self._is_any(self._queues, LIVE)
            or self._is_any(open_queues, [State.SCHEDULED])
        )

    def _is_any(self, queues: Iterable[str], states: Collection[State]) -> bool:
        filters = (JobFilter(queue=queue, state=state) for queue in queues for state in states)
        pages = (self._cue.page(wanted, None, 1) for wanted in filters)
        return any(page.items or page.next for page in pages)

    def _look_everywhere_at_times(self) -> None:
        """News can get lost between processes: look at all queues now and then."""
        if self._clock.monotonic() - self._looked >= LOOK_EVERYWHERE_SECONDS:
            self._looked = self._clock.monotonic()
            self._expect(None, 0)

    def _claim(self) -> RunningBatch | None:
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
                    due_at = self._source.next_due(name)
            finally:
                self._expect(name, LATEST if due_at is None else due_at)
            self._recovered()
            if batch is not None:
                return batch
        return None

    def _claim_from(self, name: str, now: Moment) -> RunningBatch | None:
        batch = self._cue.handlers[name].batch
        limit = batch or self._runner.sizes.get(name, 1)
        claimed = self._source.claim(name, limit, now, together=batch is not None)
        if claimed is None:
            return None
        handler = self._cue.handlers[claimed.queue.name]
        running = RunningBatch(claimed, handler, self._source, self._results, self._clock)
        self._batches.add(running)
        self._heartbeats.expect(claimed.queue.lease_seconds)
        return running

    def _woken(self, queue: str | None, due_at: Moment) -> None:
        if queue is None or queue in self._next_at:
            self._expect(queue, due_at)
            self._alarm.wake_for(due_at)

    def _expect(self, queue: str | None, due_at: Moment) -> None:
        """Note that a queue (None: any) may have work from `due_at`."""
        with self._expecting:
            for name in self._next_at if queue is None else [queue]:
                self._next_at[name] = min(self._next_at[name], due_at)

    def _run(self, batch: RunningBatch, runner: asyncio.Runner | None) -> None:
        try:
            self._runner.run(batch, runner)
        finally:
            self._batches.discard(batch)
            if self._until_empty:  # the thread on watch may have been waiting for this
                self._alarm.wake()
