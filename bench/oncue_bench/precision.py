"""W3: how late jobs are handed over, with many waiting, and what waiting costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, percentile

P50_GOAL_MS = 1.0
P99_GOAL_MS = 3.0
HANDLER_P99_GOAL = 1.2  # × raw
IDLE_CPU_GOAL_PERCENT = 0.5


def rows(ground: Ground) -> Iterator[Row]:
    for pending in ground.sizes.pending:
        source = ground.seeded(f"pending-{pending}", pending=pending)
        raw = on_raw_time(ground, source)
        for by in ("sink", "handler"):
            product = on_time(ground, source, by, ground.sizes.idle_seconds)
            yield from _compared(by, f"{by}, {pending:,} pending", product, raw, ground)
        source.unlink()


def on_raw_time(ground: Ground, source: Path) -> Measured:
    """A bare loop that knows the moments and makes one durable claim at each."""
    ground.progress(f"W3 raw, {source.stem}")
    sizes = ground.sizes
    over = min(sizes.timed_seconds, 3.0)
    count = int(sizes.timed * over / sizes.timed_seconds)
    return ground.fresh("raw.on_time", source, count=count, over_seconds=over)


def on_time(ground: Ground, source: Path, by: str, idle_seconds: float) -> Measured:
    ground.progress(f"W3 {by}, {source.stem}")
    sizes = ground.sizes
    return ground.fresh(
        "receiving.on_time",
        source,
        by=by,
        count=sizes.timed,
        over_seconds=sizes.timed_seconds,
        lead_seconds=sizes.lead_seconds,
        idle_seconds=idle_seconds,
    )


def _compared(
    by: str, what: str, product: Measured, raw: Measured, ground: Ground
) -> Iterator[Row]:
    late, bare = product.figures["lateness_ms"], raw.figures["lateness_ms"]
    for share, goal in ((0.5, P50_GOAL_MS), (0.99, P99_GOAL_MS)):
        found, beside = percentile(late, share), percentile(bare, share)
        to_raw = by == "handler" and share == 0.99
        yield Row(
            "W3",
            f"{what}: lateness p{round(share * 100)}",
            "ms",
            found,
            beside,
            goal=f"≤ {HANDLER_P99_GOAL:g} × raw" if to_raw else f"≤ {goal:g} ms",
            reached=found <= (HANDLER_P99_GOAL * beside if to_raw else goal),
            peak_mib=ground.peak_mib([product]) if share == 0.5 else None,
        )
    earliest = min(late)
    yield Row(
        "W3", f"{what}: the earliest", "ms", earliest, goal="never early", reached=earliest >= 0
    )
    idle = product.figures["idle_cpu_percent"]
    yield Row(
        "W3",
        f"{what}: CPU of the idle process",
        "%",
        idle,
        goal=f"≤ {IDLE_CPU_GOAL_PERCENT:g} %",
        reached=idle <= IDLE_CPU_GOAL_PERCENT,
    )
