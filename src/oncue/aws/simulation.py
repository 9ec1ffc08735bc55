"""A deployment on an emulator, with its minutes in fast motion: how late jobs arrive, and what they
cost.

The clock is moved by hand, from one tick of the dispatch function to the next. A message that is
sent with a delay arrives when the delay is over by that clock; nobody waits for it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from typing import Any

from oncue.aws import cost, emulator, sandbox
from oncue.aws.emulator import Arrival, Place
from oncue.aws.invocation import LocalContext, scheduled_event
from oncue.aws.meter import Units
from oncue.aws.prices import MILLION, PriceList
from oncue.aws.ticks import dispatch
from oncue.clock import FakeClock
from oncue.core.errors import SinkDown
from oncue.core.job import Delivery
from oncue.core.moment import Moment, to_datetime
from oncue.ports.sink import Refusal, Sink
from oncue.scheduler import Scheduler
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress
from oncue.stores.dynamodb.store import DynamoStore

SECOND_MS = 1000
MINUTE_MS = 60_000
QUEUE = "default"
Progress = Callable[[int, str], None]
"""Called with a number of steps that are done and what was done last."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What is to be simulated."""

    jobs: int
    minutes: int
    ahead_seconds: float | None = None
    """How long before its due time a job is stored; None: all at the beginning."""
    payload_bytes: int = 500
    keeps_history: bool = True
    shards: int = 4

    @property
    def ticks(self) -> int:
        """Until the last job is due, and one at the beginning."""
        return self.minutes + 2

    def dues(self, start: Moment) -> list[Moment]:
        """When the jobs are due: evenly over the minutes, from the second tick on."""
        span = self.minutes * MINUTE_MS
        return [start + MINUTE_MS + n * span // self.jobs for n in range(self.jobs)]

    def stored_at(self, due: Moment, start: Moment) -> Moment:
        """When the job that is due then is stored, in whole seconds after the start."""
        if self.ahead_seconds is None:
            return start
        after = due - round(self.ahead_seconds * 1000) - start
        return start + max(0, after // SECOND_MS * SECOND_MS)


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation."""

    simulated: Simulated
    arrivals: list[Arrival]
    used: Units
    """Of the whole run."""
    idle: Units
    """Of a tick that finds nothing."""

    @property
    def lateness_ms(self) -> list[int]:
        """Of each message, the smallest first."""
        return sorted(one.arrives_at - one.due_at for one in self.arrivals)

    def quantile_ms(self, share: float) -> int | None:
        found = self.lateness_ms
        return found[min(len(found) - 1, int(share * len(found)))] if found else None

    @property
    def doubled(self) -> int:
        counts = Counter(one.job_id for one in self.arrivals)
        return sum(count - 1 for count in counts.values())

    @property
    def lost(self) -> int:
        return self.simulated.jobs - len({one.job_id for one in self.arrivals})

    @property
    def job_units(self) -> tuple[float, float]:
        """Write and read units for each job, without what idle ticks take."""
        ticks, jobs = self.simulated.ticks, self.simulated.jobs
        writes = (self.used.writes - ticks * self.idle.writes) / jobs
        reads = (self.used.reads - ticks * self.idle.reads) / jobs
        return max(0.0, writes), max(0.0, reads)

    def million_jobs(self, prices: PriceList) -> dict[str, float]:
        """Dollars for a million jobs like these, by what they are for. Consumers receive and delete
        ten messages at once."""
        writes, reads = self.job_units
        requests = self.used.requests / self.simulated.jobs + 2 / cost.MESSAGES
        seconds = cost.FUNCTION_GB / cost.FUNCTION_JOBS
        quantities = {
            "DynamoDB writes": ("dynamodb_write", writes),
            "DynamoDB reads": ("dynamodb_read", reads),
            "SQS requests": ("sqs_request", requests),
            "Lambda duration": ("lambda_duration", seconds),
        }
        return {name: prices[kind].of(MILLION * each) for name, (kind, each) in quantities.items()}

    def idle_month(self, prices: PriceList) -> dict[str, float]:
        """Dollars for a month of ticks that find nothing."""
        ticks = cost.SECONDS / cost.TICK_SECONDS
        seconds = ticks * cost.FUNCTION_SECONDS * cost.FUNCTION_GB
        return {
            "DynamoDB writes": prices["dynamodb_write"].of(ticks * self.idle.writes),
            "DynamoDB reads": prices["dynamodb_read"].of(ticks * self.idle.reads),
            "Lambda calls": prices["lambda_request"].of(ticks),
            "Lambda duration": prices["lambda_duration"].of(seconds),
        }


class SimulatedSink(SqsSink):
    """Trouble ends the simulation: it is that of the emulator, and no time passes in a tick that
    would wait for it."""

    trouble: SinkDown | None = None

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        try:
            return super().deliver(queue, batch)
        except SinkDown as down:
            self.trouble = down
            down.retry_after_seconds = 60.0  # not within this tick
            raise


def simulate(
    simulated: Simulated, endpoint: str, sqs_endpoint: str, start: Moment, progress: Progress
) -> Simulation:
    """Make a table and a queue, store the jobs, let the minutes pass, and remove both."""
    clock = FakeClock(start)
    with emulator.place(endpoint, sqs_endpoint, clock) as place:
        sink = SimulatedSink(SqsAddress(place.queue, emulator.REGION), clock, place.sqs)
        with _deployed(place, clock, simulated, sink) as cue:
            waiting = simulated.dues(start)
            for tick in range(simulated.ticks):
                _store(cue, clock, simulated, waiting, start, start + tick * MINUTE_MS)
                _tick(clock, sink)
                progress(tick + 1, f"{len(place.sqs.arrivals):,} of {simulated.jobs:,} jobs sent")
            used = place.meter.units
            clock.advance(60)
            _tick(clock, sink)
        return Simulation(simulated, list(place.sqs.arrivals), used, place.meter.units - used)


def _store(
    cue: Scheduler,
    clock: FakeClock,
    simulated: Simulated,
    waiting: list[Moment],
    start: Moment,
    tick_at: Moment,
) -> None:
    """Let the time until a tick pass, and store the jobs that come in it, each at its moment: a job
    that is stored after its due time would be due when it is stored. They are taken out of
    `waiting`."""
    coming = [due for due in waiting if simulated.stored_at(due, start) <= tick_at]
    del waiting[: len(coming)]
    payload = "x" * max(0, simulated.payload_bytes - 2)  # as JSON, with its quotes
    for moment, dues in groupby(coming, lambda due: simulated.stored_at(due, start)):
        clock.advance((moment - clock.now()) / SECOND_MS)
        cue.schedule_many({"payload": payload, "at": to_datetime(due)} for due in dues)
    clock.advance((tick_at - clock.now()) / SECOND_MS)


def _tick(clock: FakeClock, sink: SimulatedSink) -> None:
    with redirect_stdout(StringIO()):
        dispatch(scheduled_event(clock.now()), LocalContext("dispatch", 60, clock))
    if sink.trouble is not None:
        raise sink.trouble


@contextmanager
def _deployed(
    place: Place, clock: FakeClock, simulated: Simulated, sink: Sink
) -> Iterator[Scheduler]:
    """The scheduler of the functions. The store's own clock would be that of the emulator."""
    store = f"dynamodb://{place.table.name}"
    url = f"sqs://{place.queue}?region={emulator.REGION}"
    cue = Scheduler(DynamoStore(place.table, clock, shards=simulated.shards))
    settings: dict[str, Any] = {} if simulated.keeps_history else {"retention_seconds": 0}
    before = os.environ.get("ONCUE_STORE")
    os.environ["ONCUE_STORE"] = store
    sandbox.adopt(store, cue, {url: sink})
    try:
        cue.set_queue(QUEUE, sink=url, **settings)
        yield cue
    finally:
        sandbox.close()
        if before is None:
            del os.environ["ONCUE_STORE"]
        else:
            os.environ["ONCUE_STORE"] = before
