"""What a process counts of its own work: lateness of jobs, deliveries, reclaims, requests.

Nothing here is stored: every process counts since it began. All methods may be called from any
thread. They take whole batches, and nothing that is in a job.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Literal, NamedTuple

from oncue.core.job import Claimed, Delivery
from oncue.core.moment import Moment
from oncue.core.queue import Lateness
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal

LATENESS_BOUNDS_MS = (
    *(1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500),
    *(1_000, 2_000, 3_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
)
REQUEST_BOUNDS_SECONDS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
)
SLOT_SECONDS = 10
SLOTS = 30
QUEUES_KEPT = 10_000
REQUESTS_KEPT = 1_000  # kinds of requests: methods are chosen by clients
OTHER = "other"

Outcome = Literal["delivered", "refused", "failed", "down"]
"""Of a delivery: taken; refused for now; refused for good; not tried by a sink in trouble."""
Reclaimed = Literal["retried", "failed", "cancelled"]
Counted = Literal["jobs_created", "expired", "pruned_rows", "fenced_writes", "threads_replaced"]
COUNTED: dict[Counted, str] = {
    "jobs_created": "Jobs that this process stored.",
    "expired": "Waiting jobs that the reclaimer here found expired.",
    "pruned_rows": "Rows that the pruner here removed or emptied.",
    "fenced_writes": "Writes refused because their claim was over.",
    "threads_replaced": "Threads of loops and workers that died and were replaced: see the log.",
}
"""What is counted without labels, with its help text in Prometheus."""


@dataclass(slots=True)
class Histogram:
    """How many values lie at or below each bound; the last count is of those beyond all."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0
    smallest: float = inf
    largest: float = 0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, ordered: Sequence[float]) -> None:
        """Count values that come in rising order; only the buckets they reach cost anything."""
        position = 0
        while position < len(ordered):
            bucket = bisect_left(self.bounds, ordered[position])
            end = len(ordered)
            if bucket < len(self.bounds):
                end = bisect_right(ordered, self.bounds[bucket], position)
            self.counts[bucket] += end - position
            position = end
        self.total += max(sum(ordered), 0)  # a clock that was set back must not take any away
        self.smallest = min(self.smallest, ordered[0])
        self.largest = max(self.largest, ordered[-1])

    def add_one(self, value: float) -> None:
        """The same for one value, which is quicker."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += max(value, 0)
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)

    def quantile(self, share: float) -> float:
        """Below what so large a share of the values lies, taking a bucket as evenly filled."""
        wanted, below = share * sum(self.counts), 0.0
        for bucket, count in enumerate(self.counts[:-1]):
            if count and below + count >= wanted:
                floor = self.bounds[bucket - 1] if bucket else 0.0
                within = floor + (self.bounds[bucket] - floor) * (wanted - below) / count
                return min(max(within, self.smallest, 0.0), self.largest)
            below += count
        return self.largest

    def copy(self) -> Histogram:
        return replace(self, counts=self.counts.copy())


@dataclass(slots=True)
class QueueTotals:
    """One queue since the process began."""

    lateness_ms: Histogram = field(default_factory=lambda: Histogram(LATENESS_BOUNDS_MS))
    deliveries: Counter[Outcome] = field(default_factory=Counter)

    def copy(self) -> QueueTotals:
        return QueueTotals(self.lateness_ms.copy(), self.deliveries.copy())


RequestKind = tuple[str, str, int]
"""Method, route and status."""


class Totals(NamedTuple):
    """Everything that was counted, at one moment."""

    queues: Mapping[str, QueueTotals]
    circuits: Mapping[str, bool]
    """Of the queues that have a dispatcher here: whether deliveries pause, the sink being in
    trouble."""
    counts: Mapping[Counted, int]
    reclaimed: Mapping[Reclaimed, int]
    requests: Mapping[RequestKind, int]
    request_seconds: Mapping[str, Histogram]


class RecentLateness:
    """The last five minutes of a queue, in slots of ten seconds."""

    def __init__(self) -> None:
        self._slots: deque[tuple[int, Histogram]] = deque(maxlen=SLOTS)

    @property
    def latest(self) -> int:
        return self._slots[-1][0]

    def add(self, slot: int, ordered: Sequence[int]) -> None:
        if not self._slots or self.latest != slot:
            self._slots.append((slot, Histogram(LATENESS_BOUNDS_MS)))
        self._slots[-1][1].add(ordered)

    def lateness(self, slot: int) -> Lateness | None:
        """What the slots up to this one amount to; None if nothing happened in them."""
        recent = [found for at, found in self._slots if at > slot - SLOTS]
        if not recent:
            return None
        counts = [sum(column) for column in zip(*(one.counts for one in recent), strict=True)]
        smallest = min(one.smallest for one in recent)
        largest = max(one.largest for one in recent)
        merged = Histogram(LATENESS_BOUNDS_MS, counts, smallest=smallest, largest=largest)
        p50, p99 = merged.quantile(0.50) / 1000, merged.quantile(0.99) / 1000
        return Lateness(p50, p99, sum(counts), float(SLOTS * SLOT_SECONDS))


class Telemetry:
    """One for each scheduler. Memory is bounded: the windows of idle queues are dropped, and so is
    the longest idle queue as soon as there are more than 10,000."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._queues: OrderedDict[str, QueueTotals] = OrderedDict()  # the longest idle comes first
        self._windows: OrderedDict[str, RecentLateness] = OrderedDict()  # likewise
        self._circuits: dict[str, bool] = {}
        self._counts: Counter[Counted] = Counter()
        self._reclaimed: Counter[Reclaimed] = Counter()
        self._requests: Counter[RequestKind] = Counter()
        self._request_seconds: defaultdict[str, Histogram] = defaultdict(
            lambda: Histogram(REQUEST_BOUNDS_SECONDS)
        )

    # -- jobs ------------------------------------------------------------------------------------

    def handed_over(self, queue: str, lateness_ms: Sequence[int]) -> None:
        """Jobs were handed over for the first time, each so late."""
        if not lateness_ms:
            return
        ordered = sorted(lateness_ms)
        with self._lock:
            self._totals(queue).lateness_ms.add(ordered)
            slot = self._slot()
            window = self._windows.pop(queue, None) or RecentLateness()
            window.add(slot, ordered)
            self._windows[queue] = window
            self._drop_idle(slot)

    def claimed(self, jobs: Sequence[Claimed], now: Moment) -> None:
        """Workers have got these jobs, just now."""
        for queue, group in groupby(jobs, attrgetter("queue")):
            self.handed_over(queue, [now - one.due_at for one in group if one.attempt == 1])

    def delivered(
        self,
        queue: str,
        jobs: Sequence[Delivery],
        untaken: Mapping[int, Refusal | None],
        now: Moment,
    ) -> None:
        """A sink has answered just now; `untaken` by position, None: it was not tried."""
        if untaken:
            jobs = [job for position, job in enumerate(jobs) if position not in untaken]
        refusals = [refusal for refusal in untaken.values() if refusal is not None]
        failed = sum(refusal.permanent for refusal in refusals)
        with self._lock:
            deliveries = self._totals(queue).deliveries
            deliveries["delivered"] += len(jobs)
            deliveries["failed"] += failed
            deliveries["refused"] += len(refusals) - failed
            if untried := len(untaken) - len(refusals):
                deliveries["down"] += untried
        # A sink that delays hands over at the due time what it was given before.
        self.handed_over(queue, [max(now - job.due_at, 0) for job in jobs if job.attempt == 1])

    def down(self, queue: str, count: int) -> None:
        """So many jobs could not be delivered: the sink was in trouble."""
        with self._lock:
            self._totals(queue).deliveries["down"] += count

    def circuit(self, queue: str, is_open: bool | None) -> None:
        """Whether deliveries pause, the sink being in trouble; None: there is no sink any more."""
        with self._lock:
            if is_open is None:
                self._circuits.pop(queue, None)
            else:
                self._circuits[queue] = is_open

    def forget(self, queue: str) -> None:
        """Drop what was counted of a queue: it was deleted."""
        with self._lock:
            self._queues.pop(queue, None)
            self._windows.pop(queue, None)
            self._circuits.pop(queue, None)

    def count(self, name: Counted, number: int = 1) -> None:
        with self._lock:
            self._counts[name] += number

    def reclaimed(self, outcomes: Mapping[Reclaimed, int]) -> None:
        with self._lock:
            self._reclaimed.update(outcomes)

    # -- requests --------------------------------------------------------------------------------

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the pattern of the path, never the path itself; once
        there are too many kinds, new ones are counted as `other`."""
        kind = (method, route, status)
        with self._lock:
            if kind not in self._requests and len(self._requests) >= REQUESTS_KEPT:
                kind = (OTHER, OTHER, status)
            self._requests[kind] += 1
            self._request_seconds[kind[1]].add_one(seconds)

    # -- reading ---------------------------------------------------------------------------------

    def lateness(self, queue: str) -> Lateness | None:
        """Of what this process handed over in the last five minutes; None: nothing."""
        with self._lock:
            window = self._windows.get(queue)
            return None if window is None else window.lateness(self._slot())

    def totals(self) -> Totals:
        """A copy of everything that was counted."""
        with self._lock:
            return Totals(
                {name: queue.copy() for name, queue in self._queues.items()},
                self._circuits.copy(),
                self._counts.copy(),
                self._reclaimed.copy(),
                self._requests.copy(),
                {route: one.copy() for route, one in self._request_seconds.items()},
            )

    def _slot(self) -> int:
        return int(self._clock.monotonic() // SLOT_SECONDS)

    def _totals(self, queue: str) -> QueueTotals:
        found = self._queues.get(queue)
        if found is None:
            found = self._queues[queue] = QueueTotals()
            if len(self._queues) > QUEUES_KEPT:
                dropped, _ = self._queues.popitem(last=False)
                self._windows.pop(dropped, None)
        else:
            self._queues.move_to_end(queue)
        return found

    def _drop_idle(self, slot: int) -> None:
        while next(iter(self._windows.values())).latest <= slot - SLOTS:
            self._windows.popitem(last=False)
