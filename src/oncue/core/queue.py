"""A queue: a named destination and its policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from oncue.core.checks import at_least, is_number, whole
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.moment import HORIZON_MS, Moment
from oncue.core.shard import MOST_SHARDS

DEFAULT_QUEUE = "default"
MAX_ATTEMPTS_CAP = 20
RATE_CAP = 1_000_000
CONCURRENCY_CAP = 100_000
POISON_CAP = 100
LARGEST_FACTOR = 1000
LONGEST_PAUSE_SECONDS = HORIZON_MS / 1000
WEEK_SECONDS = 604_800.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", re.ASCII)

QUEUES_KEPT = 16_384  # made once: loops and intake ask for the default of each queue all the time
# Short enough to notice a dead worker soon, long enough to outlast a pause of the machine.
DEFAULT_LEASE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off after a failure: initial × factor^(failures − 1), at most max, with jitter."""

    initial_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 100.0

    def bounded(self) -> RetryPolicy:
        """The policy within the upper bounds. It may have been stored before there were any."""
        return RetryPolicy(
            min(self.initial_seconds, LONGEST_PAUSE_SECONDS),
            min(self.factor, LARGEST_FACTOR),
            min(self.max_seconds, LONGEST_PAUSE_SECONDS),
        )

    def __post_init__(self) -> None:
        at_least(self.initial_seconds, 0.0, "/retry/initial_seconds")
        at_least(self.factor, 1.0, "/retry/factor")
        at_least(self.max_seconds, 0.0, "/retry/max_seconds")


@dataclass(frozen=True, slots=True)
class Queue:
    """The settings of one queue. `completion` None means: as `completes_on` says.

    `rate_per_second` bounds how many jobs are handed over (see `core/rate.py`), `concurrency` how
    many are dispatched or executing at once, however many workers and dispatchers there are. None
    means: no bound.

    `poison_after`: how many lost claims that had started, with no operation finished in between,
    make a job fail as poison; 0 means never.

    `shards`: over how many parts the waiting jobs may be spread; order holds within each. None
    means: the store decides. A store may use fewer.
    """

    name: str
    sink: str | None = None
    completion: str | None = None
    max_attempts: int = 3
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    timeout_seconds: float | None = None
    rate_per_second: float | None = None
    concurrency: int | None = None
    retention_seconds: float | None = WEEK_SECONDS
    poison_after: int = 3
    shards: int | None = None
    paused: bool = False

    def __post_init__(self) -> None:
        check_queue_name(self.name)
        if self.completion not in (None, "delivery", "worker"):
            raise InvalidInput("must be 'delivery' or 'worker'.", "/completion")
        if self.completion == "delivery" and self.sink is None:
            raise InvalidInput(
                "'delivery' needs a sink; a queue without one is completed by its workers.",
                "/completion",
            )
        check_max_attempts(self.max_attempts)
        at_least(self.lease_seconds, 0.001, "/lease_seconds")
        if self.timeout_seconds is not None:
            at_least(self.timeout_seconds, 0.001, "/timeout_seconds")
        if self.retention_seconds is not None:
            at_least(self.retention_seconds, 0.0, "/retention_seconds")
        unbounded, rate = "leave it out for no bound", self.rate_per_second
        if rate is not None and not (is_number(rate) and 0 < rate <= RATE_CAP):
            detail = f"must be a number above 0, at most {RATE_CAP:,}; {unbounded}."
            raise InvalidInput(detail, "/rate_per_second")
        if self.concurrency is not None:
            whole(self.concurrency, 1, CONCURRENCY_CAP, "/concurrency", f"; {unbounded}")
        whole(self.poison_after, 0, POISON_CAP, "/poison_after", "; 0 for never")
        if self.shards is not None:
            whole(self.shards, 1, MOST_SHARDS, "/shards", "; leave it out for the store's default")

    @property
    def completes_on(self) -> str:
        """What makes a job succeed: `delivery` to the sink, or the report of a `worker`."""
        return self.completion or ("worker" if self.sink is None else "delivery")

    @property
    def is_limited(self) -> bool:
        """Whether only so many of its jobs may be under way, or begin in a second."""
        return self.concurrency is not None or self.rate_per_second is not None

    @property
    def keeps_history(self) -> bool:
        """False when finished jobs are gone at once."""
        return self.retention_seconds is None or self.retention_seconds > 0


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the first attempts of a queue's jobs began, in the last minutes; estimated from
    buckets, within what there really was."""

    p50_seconds: float
    p99_seconds: float
    count: int
    window_seconds: float


class QueueStats(NamedTuple):
    """What is in a queue."""

    counts: Mapping[State, int]
    """Lacks the states that the store cannot count."""
    oldest_due_at: Moment | None
    """Of the scheduled jobs; in the past means work is waiting. A job that is put off counts from
    the moment at which it may be offered again. None also where unknown."""
    approximate: bool = False
    """A count stopped at its cap."""
    put_off: int | None = None
    """How many of the scheduled jobs their sink refused for now. None: unknown."""
    lateness: Lateness | None = None
    """As the process that is asked has seen it; stores do not know it."""

    @property
    def knows_oldest(self) -> bool:
        """Whether `oldest_due_at` None means that no job waits."""
        return self.oldest_due_at is not None or State.SCHEDULED in self.counts


TASKS = "tasks"
"""The queue of tasks: what people do, on a date."""

# Settings of the built-in queues that differ from the defaults.
_BUILT_IN: dict[str, dict[str, Any]] = {
    TASKS: {"sink": "log:", "completion": "worker", "retention_seconds": None},
    "rules": {"sink": "log:"},
}


@lru_cache(maxsize=QUEUES_KEPT)
def default_queue(name: str) -> Queue:
    """The queue of that name with the settings that it has until they are set."""
    return Queue(name, **_BUILT_IN.get(name, {}))


BUILT_IN = frozenset({DEFAULT_QUEUE, *_BUILT_IN})


def why_kept(name: str, *, unfinished: bool, schedule: str | None, rule: str | None) -> str | None:
    """Why a queue cannot be deleted; None: it can. `schedule` and `rule` name one that makes jobs
    for it."""
    if name in BUILT_IN:
        return f"queue {name} is built in and cannot be deleted."
    if unfinished:
        return (
            f"queue {name} has unfinished jobs and cannot be deleted. Cancel them, move them to "
            "another queue or wait until they end."
        )
    for noun, maker in (("schedule", schedule), ("rule", rule)):
        if maker is not None:
            return (
                f"queue {name} cannot be deleted: {noun} {maker!r} makes jobs for it. Delete the "
                f"{noun} or give it another queue."
            )
    return None


def in_open_use(name: str) -> str:
    """Why a queue can be neither deleted nor changed now."""
    return (
        f"a transaction of another session that is still open uses queue {name}. Nothing was "
        "changed. End that transaction ('oncue doctor' names it) and call again."
    )


def check_queue_name(name: object, pointer: str = "/queue") -> str:
    return check_name(name, "a queue", pointer)


def check_name(name: object, kind: str, pointer: str = "/name") -> str:
    """The name of a queue, a schedule or an operation: all have the same form."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{kind} name is 1 to 80 letters, digits, '.', '_' or '-', "
            "and starts with a letter or digit.",
            pointer,
        )
    return name


def check_max_attempts(value: object, pointer: str = "/max_attempts") -> int:
    return whole(value, 1, MAX_ATTEMPTS_CAP, pointer)
