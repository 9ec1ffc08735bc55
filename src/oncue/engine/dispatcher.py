"""The dispatcher: claims due jobs of one queue with a sink, delivers them, settles.

A batch is delivered before it is settled, so a crash in between repeats it and never loses it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from oncue.core.errors import SinkDown, SinkError, StoreUnavailable, is_ctrl_c
from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.core.polling import about
from oncue.core.queue import Queue
from oncue.engine.batch import (
    ClaimBatch,
    DeliveryBatch,
    RangeBatch,
    RangeHolder,
    Untaken,
    checked,
    part_taken,
)
from oncue.engine.circuit import Circuit
from oncue.engine.claiming import Claiming
from oncue.engine.flights import Flights
from oncue.engine.keeper import Keeper, Kept
from oncue.engine.node import Node
from oncue.ports.inbox import InboxBatch
from oncue.ports.sink import Sink, traits_of

RANGE_LIMIT = 5000
CLAIM_LIMIT = 1000
FIRST_LIMIT = 500  # until the size of the queue's payloads is known
BATCH_BYTES = 16 * 1024 * 1024  # of payloads, in all batches of the queue that are under way
SLOW_SECONDS = 0.01  # a sink that takes so long for a batch is given several at once
BUSY_REST_SECONDS = 1.0  # no other dispatcher is told when the holder settles

_PAYLOAD = itemgetter(Delivery._fields.index("payload"))  # by position: of every job

logger = logging.getLogger("oncue.engine")


class _Delivered(NamedTuple):
    """A batch, and what the sink answered to it."""

    queue: Queue
    batch: DeliveryBatch
    untaken: Untaken


class Dispatcher:
    """`name` must be of this dispatcher alone: claims are held under it."""

    def __init__(
        self,
        node: Node,
        queue_of: Callable[[], Queue],
        sink: Sink,
        name: str,
        keeper: Keeper,
        check_clock: Callable[[], None] = lambda: None,
        at_once: int = 1,
        ahead_seconds: float = 0.0,
    ) -> None:
        """`check_clock` is called before each claim: see `Reclaimer.check_clock`. `at_once`: how
        many batches may be under way at the same time, where the sink or the store makes us
        wait. `ahead_seconds`: jobs that are due within this time are given to the sink as well, as
        far as it takes them before they are due."""
        self._store, self._clock, _, self._telemetry = node
        self._queue_of = queue_of
        self._sink = sink
        self._name = name
        self._keeper = keeper
        self._check_clock = check_clock
        self._circuit = Circuit(node.clock)
        self._limit = FIRST_LIMIT
        self._claiming = Claiming(node.store)
        self._holder = RangeHolder(node.store, name)
        self._unsettled: list[_Delivered] = []
        traits = traits_of(sink)
        self._at_once = 1 if traits.in_order else at_once
        self.ahead_ms = round(1000 * min(ahead_seconds, traits.ahead_seconds))
        """How long before it is due a job may be delivered."""
        self._flights = Flights(self._at_once)
        self._remote = node.store.traits.is_remote
        self._poll_seconds = node.store.traits.poll_seconds
        self._waits = self._remote
        self.turn_seconds: float | None = None
        """How long jobs of its queue, which has a rate, wait for their turn; None: none does."""
        self.woken: Callable[[], None] = lambda: None
        """Called when a batch has come to its end in another thread: make a step."""

    def step(self) -> float | None:
        """Claim → deliver → settle → go again; nothing due → rest until the next due time."""
        self.turn_seconds = None
        self._settle_again()
        self._flights.check()
        if pause := self._circuit.pause_seconds():
            return pause
        if self._flights.full:
            return None
        self._check_clock()
        queue, now = self._queue_of(), self._clock.now()
        if queue.sink is None:
            return None
        asked = self._clock.monotonic()
        batch = self._claim(queue, now)
        if not batch.deliveries:
            return self._rest(queue, batch, now)
        if self._begin(queue, batch, asked):
            return 0.0
        return self._circuit.pause_seconds()

    def carry(self, batch: InboxBatch) -> bool:
        """Deliver a batch that was found in the inbox, and settle it. False: not now. To be called
        from any thread."""
        if self._circuit.pause_seconds() or self._flights.full:
            return False
        try:
            self._begin(self._queue_of(), batch, batch.asked)
        except StoreUnavailable:
            if not any(one.batch is batch for one in self._unsettled):
                raise
            self.woken()  # it was delivered, and the next step settles it
        return True

    def _begin(self, queue: Queue, batch: DeliveryBatch, asked: float) -> bool:
        """Deliver and settle a batch. Whether that goes on in another thread."""
        # The next claim may be made before this batch is delivered.
        self._limit = min(self._limit, self._enough(batch))
        fly = partial(self._fly, queue, batch, asked)
        if self._waits and self._flights.begin(fly, self.woken):
            return True
        fly()
        return False

    def finish(self, timeout: float | None) -> bool:
        """Wait for the batches under way, and settle what the store could not take before. Whether
        all came to their end. To be called when no step is made any more."""
        ended = self._flights.finish(timeout)
        if ended:
            try:
                self._settle_again()
            except StoreUnavailable:
                pass  # see `settled`
            except Exception:  # a defect; the jobs were let go, or are when the lease ends
                logger.exception("%s: a delivery could not be settled", self._name)
        return ended

    def check_flights(self) -> None:
        """Raise what a batch in another thread has raised since the last step."""
        self._flights.check()

    def give_up(self) -> None:
        """Forget what could not be settled. The process goes on, and finds it again."""
        while self._unsettled:
            self._unsettled.pop().batch.forget()

    @property
    def is_flying(self) -> bool:
        """Whether a batch is under way in another thread."""
        return self._flights.any

    @property
    def pause_seconds(self) -> float:
        """How long nothing is given to its sink, which is in trouble; 0: it is not."""
        return self._circuit.pause_seconds()

    @property
    def settled(self) -> bool:
        """Whether the store knows what became of every batch; if not, `finish` tries again."""
        return not self._unsettled

    def _fly(self, queue: Queue, batch: DeliveryBatch, asked: float) -> None:
        """Deliver a batch and settle it. It was asked for then, by the monotonic clock."""
        began = self._clock.monotonic()
        renew, lease = (lambda: batch.renew(self._clock.now())), batch.lease_seconds
        with self._keeper.keeping(renew, lease, asked) as kept:
            untaken = self._deliver(queue, batch, kept)
        self._waits = self._remote or self._clock.monotonic() - began >= SLOW_SECONDS
        self._limit = self._enough(batch)
        self._settle(_Delivered(queue, batch, untaken))

    def _claim(self, queue: Queue, now: Moment) -> RangeBatch | ClaimBatch:
        if queue.completes_on == "delivery":
            limit = min(self._limit, RANGE_LIMIT)
            # What is sent ahead arrives when it is due, not at the rate at which it was sent.
            ahead_ms = self.ahead_ms if queue.rate_per_second is None else 0
            beside = self._waits and self._at_once > 1
            return self._holder.claim(queue, limit, now, now + ahead_ms, beside=beside)
        limit = min(self._limit, CLAIM_LIMIT)
        return ClaimBatch(self._store, queue, self._name, limit, now, self._claiming)

    def _rest(self, queue: Queue, batch: RangeBatch | ClaimBatch, now: Moment) -> float | None:
        if batch.busy_until is not None:
            busy = (batch.busy_until - self._clock.now()) / 1000
            if busy > self._poll_seconds:
                return min(busy, about(max(BUSY_REST_SECONDS, self._poll_seconds)))
            return about(self._poll_seconds)
        due_at = self._store.next_due([queue.name])
        if due_at is None:
            return None
        if due_at <= now:  # another is about to take it, or it has just arrived and wakes us
            return about(self._poll_seconds)
        rest = max(0.0, self._clock.seconds_until(due_at))
        if queue.rate_per_second is not None and rest * queue.rate_per_second <= 1:
            self.turn_seconds = rest
        return rest

    def _deliver(self, queue: Queue, batch: DeliveryBatch, kept: Kept) -> Untaken:
        """Deliver a batch: the jobs that the sink did not take. Trouble of the sink itself opens
        the circuit."""
        if kept.lost:  # the claim took so long that its lease may be over: another may deliver
            text = "queue %s: the lease was nearly over before anything was sent; claiming again"
            logger.warning(text, queue.name, extra={"queue": queue.name})
            return None
        jobs = batch.deliveries
        untaken: Untaken = None
        try:
            untaken = checked(self._sink.deliver(queue.name, jobs), len(jobs))
            self._answered(queue)
        except SinkDown as error:
            untaken = part_taken(error, len(jobs))
            self._trouble(queue, str(error), error.retry_after_seconds)
        except SinkError as error:
            self._trouble(queue, str(error))
        except BaseException as error:  # also what is meant to end a program or a task: not ours
            if is_ctrl_c(error):
                raise
            # Foreign messages may quote payloads, so only the place is logged.
            place = "".join(traceback.format_tb(error.__traceback__))
            self._trouble(queue, f"{type(error).__name__} in the sink at\n{place}")
        if untaken is None:
            self._telemetry.down(queue.name, len(jobs))
        else:
            self._telemetry.delivered(queue.name, jobs, untaken, self._clock.now())
        return untaken

    def _answered(self, queue: Queue) -> None:
        """The sink works. A refusal concerns a single job, even if all jobs are refused."""
        if not self._circuit.closed:
            logger.info("queue %s: the sink works again", queue.name, extra={"queue": queue.name})
            self._telemetry.circuit(queue.name, is_open=False)
        self._circuit.success()

    def _enough(self, batch: DeliveryBatch) -> int:
        """How many jobs as large as these make a batch."""
        size = sum(map(len, map(_PAYLOAD, batch.deliveries))) // len(batch.deliveries)
        at_once = self._at_once if self._waits else 1
        return max(1, BATCH_BYTES // at_once // max(size, 1))

    def _trouble(self, queue: Queue, what: str, asked: float | None = None) -> None:
        first = self._circuit.closed
        pause = self._circuit.trouble(asked)
        self._telemetry.circuit(queue.name, is_open=True)
        level = logging.WARNING if first else logging.DEBUG
        text = "queue %s: %s; trying again in %.3g s"
        why = what.removesuffix(".")
        logger.log(level, text, queue.name, why, pause, extra={"queue": queue.name})

    def _settle_again(self) -> None:
        """Settle what the store could not take last time."""
        while self._unsettled:
            self._settle(self._unsettled.pop())

    def _settle(self, delivered: _Delivered) -> None:
        queue, batch, untaken = delivered
        try:
            held = batch.settle(untaken, self._clock.now())
        except StoreUnavailable:
            self._unsettled.append(delivered)
            raise  # passing: the same is tried again, and nothing is delivered twice
        except Exception:
            # It would fail again each time and stop the queue. So the jobs are let go, to be
            # delivered once more after the back-off of the loop, which logs the error.
            try:
                batch.settle(None, self._clock.now())
            except Exception:
                batch.forget()
            raise
        if not held:
            self._telemetry.count("fenced_writes")
            logger.warning(
                "queue %s: the lease ended during delivery and the jobs were taken over; "
                "they will be delivered once more",
                queue.name,
                extra={"queue": queue.name},
            )
