"""W7: what an occurrence costs, among few schedules and among many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from oncue_bench.processes import Measured, measure
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, Taken, in_turn, rate

WITHIN = 1.5  # a cost that does not grow stays within this factor; the rest is noise


def rows(ground: Ground) -> Iterator[Row]:
    files = {count: _scheduled(ground, count) for count in ground.sizes.schedules}
    ground.progress("W7 schedules")
    measurements: dict[str, Callable[[], Measured]] = {
        str(count): partial(ground.fresh, "recurring.occurrences", source)
        for count, source in files.items()
    }
    taken = in_turn(ground.sizes.schedule_rounds, measurements)
    for file in files.values():
        file.unlink()
    yield from (_beside_plain_jobs(count, taken[str(count)]) for count in files)
    yield from _compared("an occurrence", taken, "seconds")
    yield from _compared("a look that finds nothing to do", taken, "look_seconds")


def _beside_plain_jobs(count: int, taken: Sequence[Measured]) -> Row:
    figures = [one.figures for one in taken]
    ratios = [one["plain_seconds"] / one["seconds"] for one in figures]
    return Row(
        "W7",
        f"{count:,} schedules due at once",
        "occurrences/s",
        rate(taken),
        median(one["count"] / one["plain_seconds"] for one in figures),
        "plain jobs",
        median(ratios),
        (min(ratios), max(ratios)),
    )


def _compared(title: str, taken: Taken, figure: str) -> Iterator[Row]:
    """What it costs among the most schedules, beside the fewest."""
    costs = {int(count): _microseconds(each, figure) for count, each in taken.items()}
    fewest, most = min(costs), max(costs)
    yield Row(
        "W7",
        f"{title}, among {most:,} schedules",
        "µs",
        costs[most],
        costs[fewest],
        f"among {fewest:,}",
        costs[most] / costs[fewest],
        goal=f"≤ {WITHIN} × that",
        reached=costs[most] <= costs[fewest] * WITHIN,
    )


def _microseconds(taken: Sequence[Measured], figure: str) -> float:
    """Of one occurrence, or of one look."""
    shares = [one.figures["count"] if figure == "seconds" else 1 for one in taken]
    each = [one.figures[figure] / share for one, share in zip(taken, shares, strict=True)]
    return float(median(each)) * 1e6


def _scheduled(ground: Ground, count: int) -> Path:
    """A file with so many schedules."""
    path = ground.folder / f"schedules-{count}.db"
    ground.progress(f"preparing {count:,} schedules")
    measure("recurring.seed_schedules", path=str(path), count=count)
    return path
