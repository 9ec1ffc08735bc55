"""Queues as JSON: their settings, and what is in them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from oncue.core import queue as core
from oncue.core.lifecycle import State
from oncue.core.queue import CONCURRENCY_CAP, MAX_ATTEMPTS_CAP, POISON_CAP, RATE_CAP
from oncue.core.shard import MOST_SHARDS
from oncue.wire.converting import read, written
from oncue.wire.formats import LONGEST, Answer, Body, Cursor, Delay, Lease, Time, schema

# -- requests --------------------------------------------------------------------------------------

# Whole numbers are read as any JSON: core then says within which bounds they must be, also of what
# is no number at all.
_MaxAttempts = Annotated[Any, schema(type="integer", minimum=1, maximum=MAX_ATTEMPTS_CAP)]
_Concurrency = Annotated[Any, schema(type=["integer", "null"], minimum=1, maximum=CONCURRENCY_CAP)]
_PoisonAfter = Annotated[Any, schema(type="integer", minimum=0, maximum=POISON_CAP)]
_Shards = Annotated[Any, schema(type=["integer", "null"], minimum=1, maximum=MOST_SHARDS)]
_Rate = Annotated[float, schema(exclusiveMinimum=0, maximum=RATE_CAP)]
_Sink = Annotated[str, schema(pattern="^log:$")]
_Pause = Annotated[float, schema("Seconds.", minimum=0, maximum=LONGEST)]


class Retry(Body):
    """Back-off: initial × factor^(failures − 1), at most max, with jitter."""

    initial_seconds: _Pause = 1.0
    factor: Annotated[float, schema(minimum=1, maximum=1000)] = 2.0
    """Each pause is the previous one multiplied by this."""
    max_seconds: _Pause = 100.0


class QueueSettings(Body):
    """All settings of a queue; those that are left out get their default."""

    sink: _Sink | None = None
    """Where jobs are delivered: `log:`. Null: workers claim them."""
    completion: Literal["delivery", "worker"] | None = None
    """What makes a job succeed; null: delivery if there is a sink."""
    max_attempts: _MaxAttempts = 3
    """How often a job is tried."""
    retry: Retry | None = None
    """The pauses between attempts."""
    lease_seconds: Lease = 60.0
    """How long a worker may send no heartbeat."""
    timeout_seconds: Lease | None = None
    """How long an attempt may take, heartbeats or not; null: no bound."""
    rate_per_second: _Rate | None = None
    """Jobs handed over a second, at most."""
    concurrency: _Concurrency = None
    """Jobs taken at the same time, at most."""
    retention_seconds: Delay | None = 604_800.0
    """How long finished jobs are kept; null: for ever."""
    poison_after: _PoisonAfter = 3
    """Lost claims that had started, with no operation finished in between, after which a job fails
    as poison; 0: never."""
    shards: _Shards = None
    """Over how many parts the waiting jobs may be spread; jobs are handed over in order within
    each. Null: the store decides. SQLite keeps every queue in one."""
    together: ClassVar = {
        "not": {
            "required": ["completion"],
            "properties": {"completion": {"const": "delivery"}, "sink": {"type": "null"}},
        }
    }


# -- answers ---------------------------------------------------------------------------------------


class RetryPolicy(Answer):
    """Back-off: initial × factor^(failures − 1), at most max, with jitter."""

    initial_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 100.0


class Lateness(Answer):
    """How late first attempts began, in the last minutes."""

    p50_seconds: float
    p99_seconds: float
    count: int
    window_seconds: float


class Queue(Answer, kw_only=True):
    """A queue's settings and what is in it."""

    name: str
    sink: str | None = None
    completion: Literal["delivery", "worker"]
    max_attempts: int = 3
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    lease_seconds: float = core.DEFAULT_LEASE_SECONDS
    timeout_seconds: float | None = None
    rate_per_second: float | None = None
    concurrency: int | None = None
    retention_seconds: float | None = core.WEEK_SECONDS
    poison_after: int = 3
    shards: int | None = None
    paused: bool = False
    counts: dict[str, int | None]
    """Jobs in each state; null: unknown."""
    approximate: bool = False
    oldest_due_at: Time | None = None
    lateness: Lateness | None = None
    """Null: no job was taken recently."""

    @classmethod
    def of(cls, queue: core.Queue, stats: core.QueueStats) -> Queue:
        counts = {state.value: stats.counts.get(state) for state in State}
        return written(cls, queue, stats, completion=queue.completes_on, counts=counts)

    def settings(self) -> core.Queue:
        """The queue. That it completes as queues with or without a sink do is not a setting."""
        usual = "worker" if self.sink is None else "delivery"
        completion = None if self.completion == usual else self.completion
        return read(core.Queue, self, completion=completion)

    def stats(self) -> core.QueueStats:
        known = {State(name): count for name, count in self.counts.items() if count is not None}
        return read(core.QueueStats, self, counts=known)


class Queues(Answer):
    """All queues that were set or have jobs."""

    items: list[Queue]
    next_cursor: Cursor = None


class DueCount(Answer):
    """One step of the time ahead."""

    at: Time
    """Its beginning."""
    count: int
    """Scheduled jobs that are due in it."""


class DueCounts(Answer):
    """In the order of time; steps in which nothing is due are left out."""

    items: list[DueCount]
    next_cursor: None = None
