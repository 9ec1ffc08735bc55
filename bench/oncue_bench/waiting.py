"""Rows about messages that wait longer than their broker can delay them."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from oncue_bench.report import Row

NATIVE_GOAL = 1.05
MEMORY_MIB = 20

Figures = dict[str, Any]


def native(work: str, title: str, other: str, found: Figures) -> Row:
    """What a call costs if nothing is captured, beside the same call of the other library."""
    mine, its, each = found["seconds"], found["raw_seconds"], 1e6 / found["count"]
    ratios = [own / raw for own, raw in zip(mine, its, strict=True)]
    ratio = median(ratios)
    return Row(
        *(work, title, "µs", each * median(mine)),
        *(each * median(its), other, ratio, (min(ratios), max(ratios))),
        goal=f"≤ {NATIVE_GOAL:g} × {other}",
        reached=ratio <= NATIVE_GOAL,
    )


def captured(work: str, what: str, how: str, broker: str, found: Figures) -> Iterator[Row]:
    """How fast so many are captured, and handed over to the broker later."""
    count, unit = found["count"], f"{what}/s"
    yield Row(
        *(work, f"{count:,} {what} captured in SQLite, {how}", unit, count / found["seconds"]),
        peak_mib=found["grown_kib"] / 1024,
        peak_goal_mib=MEMORY_MIB,
    )
    yield Row(work, f"the same, handed over to {broker}", unit, count / found["handing"])
