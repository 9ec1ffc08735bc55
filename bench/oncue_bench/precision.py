"""W3: how late jobs are handed over, with many waiting, and what waiting costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, percentile

P50_GOAL_MS = 1.0
P99_GOAL_MS = 3.0
HANDLER_P99_GOAL = 1.2  # × raw
IDLE_CPU_GOAL_PERCENT = 0.5


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    for pending in sizes.pending:
        source = ground.seeded(f"pending-{pending}", pending=pending)
        ground.progress(f"W3 {pending:,} pending")
        measurements = {"raw": _on_raw_time(ground, source)}
        for by in ("sink", "handler"):
            idle_seconds = sizes.idle_seconds / sizes.timed_rounds
            measurements[by] = on_time(ground, source, by, idle_seconds)
        taken = in_turn(sizes.timed_rounds, measurements)
        for by in ("sink", "handler"):
            yield from _compared(by, f"{by}, {pending:,} pending", taken[by], taken["raw"], ground)
        source.unlink()


def _on_raw_time(ground: Ground, source: Path) -> Callable[[], Measured]:
    """A bare loop that knows the moments and makes one durable claim at each."""
    sizes = ground.sizes
    over = min(sizes.timed_seconds, 3.0)
    count = int(sizes.timed * over / sizes.timed_seconds)
    return lambda: ground.fresh("raw.on_time", source, count=count, over_seconds=over)


def on_time(ground: Ground, source: Path, by: str, idle_seconds: float) -> Callable[[], Measured]:
    sizes = ground.sizes
    return lambda: ground.fresh(
        "receiving.on_time",
        source,
        by=by,
        count=sizes.timed,
        over_seconds=sizes.timed_seconds,
        lead_seconds=sizes.lead_seconds,
        idle_seconds=idle_seconds,
    )


def lateness(taken: Sequence[Measured], share: float) -> list[float]:
    """What so many of the jobs were late at most, in each round."""
    return [percentile(one.figures["lateness_ms"], share) for one in taken]


def _compared(
    by: str, what: str, product: Sequence[Measured], raw: Sequence[Measured], ground: Ground
) -> Iterator[Row]:
    for share, goal in ((0.5, P50_GOAL_MS), (0.99, P99_GOAL_MS)):
        found, beside = lateness(product, share), lateness(raw, share)
        each = [mine / its for mine, its in zip(found, beside, strict=True)]
        to_raw = by == "handler" and share == 0.99
        yield Row(
            "W3",
            f"{what}: lateness p{round(share * 100)}",
            "ms",
            median(found),
            median(beside),
            ratio=median(each),
            spread=(min(each), max(each)),
            goal=f"≤ {HANDLER_P99_GOAL:g} × raw" if to_raw else f"≤ {goal:g} ms",
            reached=median(each) <= HANDLER_P99_GOAL if to_raw else median(found) <= goal,
            peak_mib=ground.peak_mib(product) if share == 0.5 else None,
        )
    earliest = min(min(one.figures["lateness_ms"]) for one in product)
    yield Row(
        "W3", f"{what}: the earliest", "ms", earliest, goal="never early", reached=earliest >= 0
    )
    idle = median(one.figures["idle_cpu_percent"] for one in product)
    yield Row(
        "W3",
        f"{what}: CPU of the idle process",
        "%",
        idle,
        goal=f"≤ {IDLE_CPU_GOAL_PERCENT:g} %",
        reached=idle <= IDLE_CPU_GOAL_PERCENT,
    )
