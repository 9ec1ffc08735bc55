"""The metrics for Prometheus: what this process counted (`counters.py`) and what the store holds.

Import it where it is needed: it brings the Prometheus client along.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily as Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from oncue import __version__
from oncue.core.errors import StoreError
from oncue.core.lacks import Lack
from oncue.core.moment import Moment
from oncue.core.queue import QueueStats
from oncue.telemetry import counters
from oncue.telemetry.counters import COUNTED, Outcome, Reclaimed, Totals

if TYPE_CHECKING:
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
    counts = _countings.setdefault(cue, Counting(cue)).counts()
    registry.register(_Exposition(_samples(cue.telemetry.totals(), counts, cue.clock.now())))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class StoreCounts(NamedTuple):
    """What the store holds. Without an answer: not up, and no queues."""

    up: bool
    queues: Mapping[str, QueueStats]
    left_out: int = 0
    lacks: frozenset[Lack] = frozenset()


class Counting:
    """Counts the jobs in a store, one caller at a time, and answers from memory for a while; also
    when the store was away, so that not every caller waits for it."""

    def __init__(self, cue: Scheduler) -> None:
        self._store = cue.store
        self._clock = cue.clock
        self._lock = threading.Lock()
        self._known: tuple[float, StoreCounts] | None = None

    def counts(self) -> StoreCounts:
        with self._lock:
            now = self._clock.monotonic()
            if self._known is None or now - self._known[0] >= COUNTS_SECONDS:
                counts = self._count()
                self._known = (self._clock.monotonic(), counts)
            return self._known[1]

    def _count(self) -> StoreCounts:
        try:
            names = [queue.name for queue in self._store.queues()]
            exported = names[:QUEUES_EXPORTED]
            stats = {name: self._store.stats(name) for name in exported}
            lacks = self._store.traits.lacks
        except StoreError:
            return StoreCounts(False, {})
        return StoreCounts(True, stats, len(names) - len(exported), lacks)


_countings: WeakKeyDictionary[Scheduler, Counting] = WeakKeyDictionary()


METRICS: dict[str, tuple[type[Counter | Gauge | Histogram], str, str]] = {
    "build_info": (Gauge, "version", "Always 1."),
    **{name: (Counter, "", text) for name, text in COUNTED.items()},
    "reclaimed": (Counter, "outcome", "Lost or overlong claims that ended here."),
    "lateness_seconds": (
        *(Histogram, "queue"),
        "How long after their due time jobs were first handed over by this process.",
    ),
    "deliveries": (
        *(Counter, "queue outcome"),
        "Jobs that this process gave to sinks. delivered: taken; refused: not now; failed: "
        "never; down: the sink was in trouble.",
    ),
    "circuit_open": (
        *(Gauge, "queue"),
        "1 while deliveries of the queue pause because its sink is in trouble.",
    ),
    "http_requests": (Counter, "method route status", "Answers."),
    "http_request_seconds": (Histogram, "route", "From request to answer."),
    "store_up": (Gauge, "", "Whether the store answers."),
    "jobs": (Gauge, "queue state", f"Jobs. {_COUNTED}"),
    "oldest_due_seconds": (
        *(Gauge, "queue"),
        "How long the longest waiting due job has waited; 0: none waits. A job that its sink "
        f"refused for now waits from the moment at which it may be offered again. {_COUNTED}",
    ),
    "queues_left_out": (
        *(Gauge, ""),
        f"Queues of the store beyond the first {QUEUES_EXPORTED:,} by name: not told of.",
    ),
}
"""Kind, names of the labels and help text of each metric, whose name begins with `oncue_`."""


class _Exposition(Collector):
    """The metrics of one moment. Each sample has the values of the labels first."""

    def __init__(self, samples: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for name, (kind, labels, text) in METRICS.items():
            names = labels.split()
            family: Any = kind(f"oncue_{name}", text, labels=names)
            for sample in self._samples[name]:
                values = [str(value) for value in sample[: len(names)]]
                family.add_metric(values, *sample[len(names) :])
            yield family


def _samples(
    totals: Totals, stored: StoreCounts, now: Moment
) -> dict[str, Iterable[Sequence[Any]]]:
    # The first by name, so that it is always the same ones.
    queues = sorted(totals.queues.items(), key=itemgetter(0))[:QUEUES_EXPORTED]
    late = [(name, queue.lateness_ms) for name, queue in queues if any(queue.lateness_ms.counts)]
    delivering = [(name, queue.deliveries) for name, queue in queues if queue.deliveries]
    stats = stored.queues.items()
    samples: dict[str, Iterable[Sequence[Any]]] = {
        "build_info": [(__version__, 1)],
        **{name: [(totals.counts.get(name, 0),)] for name in COUNTED},
        "reclaimed": [(name, totals.reclaimed.get(name, 0)) for name in get_args(Reclaimed)],
        "lateness_seconds": [(name, *_buckets(found, 1000)) for name, found in late],
        "deliveries": [(n, name, of[name]) for n, of in delivering for name in get_args(Outcome)],
        "circuit_open": sorted(totals.circuits.items())[:QUEUES_EXPORTED],
        "http_requests": [(*kind, count) for kind, count in totals.requests.items()],
        "http_request_seconds": [
            (route, *_buckets(found)) for route, found in totals.request_seconds.items()
        ],
        "store_up": [(stored.up,)],
        "jobs": [(name, *count) for name, one in stats for count in one.counts.items()],
        "oldest_due_seconds": [
            (name, max(0, now - (now if one.oldest_due_at is None else one.oldest_due_at)) / 1000)
            for name, one in stats
            if one.knows_oldest
        ],
        "queues_left_out": [(stored.left_out,)],
    }
    return samples | {"pruned_rows": []} if "prune-counts" in stored.lacks else samples


def _buckets(found: counters.Histogram, unit: float = 1) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts by upper bound, and the sum; `unit` of the values make a second."""
    bounds = [str(bound / unit) for bound in found.bounds]
    counts = accumulate(found.counts)
    return list(zip([*bounds, "+Inf"], counts, strict=True)), found.total / unit
