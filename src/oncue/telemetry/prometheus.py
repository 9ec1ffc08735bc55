"""What Prometheus is told: what this process counted (`telemetry.py`) and what the store holds.

Import it where it is needed: it brings the Prometheus client along.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, get_args
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from oncue import __version__
from oncue.core.errors import StoreError
from oncue.core.moment import Moment
from oncue.core.queue import QueueStats
from oncue.telemetry.counters import Histogram, Outcome, QueueTotals, Reclaimed, Totals

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from oncue.scheduler import Scheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTS_SECONDS = 5.0  # counting a large queue takes a while
QUEUES_EXPORTED = 1000

_COUNTED = f"Counted in the store at most every {COUNTS_SECONDS:g} s."


def render(cue: Scheduler) -> bytes:
    """Everything in the Prometheus text format. Never fails because of the store: without it, what
    the process knows is told, and `oncue_store_up 0`. May take as long as counting in the store, so
    an event loop asks for it in a thread."""
    registry = CollectorRegistry()
    registry.register(_Exposition(cue.telemetry.totals(), _counting(cue).counts(), cue.clock.now()))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class Counts(NamedTuple):
    """What the store holds. Without an answer: not up, and no queues."""

    up: bool
    queues: Mapping[str, QueueStats]
    left_out: int = 0


class Counting:
    """Counts the jobs in a store, one caller at a time, and answers from memory for a while; also
    when the store was away, so that nobody waits for it again and again."""

    def __init__(self, cue: Scheduler) -> None:
        self._store = cue.store
        self._clock = cue.clock
        self._lock = threading.Lock()
        self._known: tuple[float, Counts] | None = None

    def counts(self) -> Counts:
        with self._lock:
            now = self._clock.monotonic()
            if self._known is None or now - self._known[0] >= COUNTS_SECONDS:
                counts = self._count()
                self._known = (self._clock.monotonic(), counts)
            return self._known[1]

    def _count(self) -> Counts:
        try:
            names = [queue.name for queue in self._store.queues()]
            exported = names[:QUEUES_EXPORTED]
            stats = {name: self._store.stats(name) for name in exported}
        except StoreError:
            return Counts(False, {})
        return Counts(True, stats, len(names) - len(exported))


_countings: WeakKeyDictionary[Scheduler, Counting] = WeakKeyDictionary()
_countings_lock = threading.Lock()


def _counting(cue: Scheduler) -> Counting:
    with _countings_lock:
        found = _countings.get(cue)
        if found is None:
            found = _countings[cue] = Counting(cue)
        return found


class _Exposition(Collector):
    """The metrics of one moment."""

    def __init__(self, totals: Totals, counts: Counts, now: Moment) -> None:
        self._totals = totals
        self._counts = counts
        self._now = now

    def collect(self) -> Iterator[Metric]:
        yield from self._process()
        yield from self._handed_over()
        yield from self._requests()
        yield from self._store()

    def _process(self) -> Iterator[Metric]:
        totals = self._totals
        build = GaugeMetricFamily("oncue_build_info", "Always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        for name, help_text, value in (
            ("jobs_created", "Jobs that this process stored.", totals.created),
            ("expired", "Waiting jobs that the reclaimer here found expired.", totals.expired),
            ("pruned_rows", "Rows that the pruner here removed or emptied.", totals.pruned),
            ("fenced_writes", "Writes refused because their claim was over.", totals.fenced),
            (
                "threads_replaced",
                "Threads of loops and workers that died and were started anew: see the log.",
                totals.threads_replaced,
            ),
        ):
            yield CounterMetricFamily(f"oncue_{name}", help_text, value)
        reclaimed = CounterMetricFamily(
            "oncue_reclaimed", "Lost or overlong claims that ended here.", labels=["outcome"]
        )
        for outcome in get_args(Reclaimed):
            reclaimed.add_metric([outcome], totals.reclaimed.get(outcome, 0))
        yield reclaimed

    def _handed_over(self) -> Iterator[Metric]:
        lateness = HistogramMetricFamily(
            "oncue_lateness_seconds",
            "How long after their due time jobs were first handed over by this process.",
            labels=["queue"],
        )
        deliveries = CounterMetricFamily(
            "oncue_deliveries",
            "Jobs that this process gave to sinks. delivered: taken; refused: not now; failed: "
            "never; down: the sink was in trouble.",
            labels=["queue", "outcome"],
        )
        for name, queue in self._exported():
            if any(queue.lateness_ms.counts):
                lateness.add_metric([name], *_buckets(queue.lateness_ms, 1000))
            for outcome in get_args(Outcome) if queue.deliveries else ():
                deliveries.add_metric([name, outcome], queue.deliveries[outcome])
        circuits = GaugeMetricFamily(
            "oncue_circuit_open",
            "1 while deliveries of the queue pause because its sink is in trouble.",
            labels=["queue"],
        )
        for name, is_open in sorted(self._totals.circuits.items())[:QUEUES_EXPORTED]:
            circuits.add_metric([name], is_open)
        yield from (lateness, deliveries, circuits)

    def _exported(self) -> list[tuple[str, QueueTotals]]:
        """By name, so that it is always the same ones."""
        return sorted(self._totals.queues.items(), key=lambda item: item[0])[:QUEUES_EXPORTED]

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "oncue_http_requests", "Answers.", labels=["method", "route", "status"]
        )
        for (method, route, status), count in self._totals.requests.items():
            requests.add_metric([method, route, str(status)], count)
        seconds = HistogramMetricFamily(
            "oncue_http_request_seconds", "From request to answer.", labels=["route"]
        )
        for route, found in self._totals.request_seconds.items():
            seconds.add_metric([route], *_buckets(found))
        yield from (requests, seconds)

    def _store(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("oncue_store_up", "Whether the store answers.", self._counts.up)
        jobs = GaugeMetricFamily("oncue_jobs", f"Jobs. {_COUNTED}", labels=["queue", "state"])
        oldest = GaugeMetricFamily(
            "oncue_oldest_due_seconds",
            "How long the longest waiting due job has waited; 0: none waits. A job that its sink "
            f"refused for now waits from the moment at which it may be offered again. {_COUNTED}",
            labels=["queue"],
        )
        for name, stats in self._counts.queues.items():
            for state, count in stats.counts.items():
                jobs.add_metric([name, state.value], count)
            due_at = self._now if stats.oldest_due_at is None else stats.oldest_due_at
            oldest.add_metric([name], max(0, self._now - due_at) / 1000)
        yield from (jobs, oldest)
        yield GaugeMetricFamily(
            "oncue_queues_left_out",
            f"Queues of the store beyond the first {QUEUES_EXPORTED:,} by name: not told of.",
            self._counts.left_out,
        )


def _buckets(found: Histogram, unit: float = 1) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts by upper bound, and the sum; `unit` of the values make a second."""
    bounds = [str(bound / unit) for bound in found.bounds]
    counts = accumulate(found.counts)
    return list(zip([*bounds, "+Inf"], counts, strict=True)), found.total / unit
