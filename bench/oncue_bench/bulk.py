"""W9: cancelling very many jobs by a filter, and how late others are delivered meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, percentile, rate, ratios

RATIO_GOAL = 0.4
P50_GOAL_MS = 3.0
P99_GOAL_MS = 25.0
ROUNDS = 2


def rows(ground: Ground) -> Iterator[Row]:
    count = ground.sizes.cancelled
    source = ground.seeded(f"cancelled-{count}", pending=count)
    yield _speed(ground, source)
    for elsewhere in (False, True):
        yield from _lateness(ground, source, elsewhere)
    source.unlink()


def _speed(ground: Ground, source: Path) -> Row:
    ground.progress("W9 cancel by a filter")
    taken = in_turn(
        min(ROUNDS, ground.sizes.rounds),
        {
            "raw": lambda: ground.fresh("cancelling.bare", source),
            "product": lambda: ground.fresh("cancelling.by_filter", source),
        },
    )
    each = ratios(taken["product"], taken["raw"])
    return Row(
        "W9",
        f"cancel {ground.sizes.cancelled:,} by a filter",
        "jobs/s",
        rate(taken["product"]),
        rate(taken["raw"]),
        "one statement",
        median(each),
        (min(each), max(each)),
        goal=f"≥ {RATIO_GOAL:g} × that",
        reached=median(each) >= RATIO_GOAL,
        peak_mib=ground.peak_mib(taken["product"]),
    )


def _lateness(ground: Ground, source: Path, elsewhere: bool) -> Iterator[Row]:
    where = "in another process" if elsewhere else "in the same process"
    ground.progress(f"W9 deliveries while jobs are cancelled {where}")
    sizes = ground.sizes
    taken = ground.fresh(
        "cancelling.meanwhile",
        source,
        elsewhere=elsewhere,
        count=sizes.timed,
        over_seconds=sizes.timed_seconds,
        lead_seconds=sizes.lead_seconds,
    )
    late = taken.figures["lateness_ms"]
    for share, goal in ((0.5, P50_GOAL_MS), (0.99, P99_GOAL_MS)):
        found = percentile(late, share)
        title = f"jobs delivered meanwhile, cancelled {where}: lateness p{round(share * 100)}"
        yield Row("W9", title, "ms", found, goal=f"≤ {goal:g} ms", reached=found <= goal)
