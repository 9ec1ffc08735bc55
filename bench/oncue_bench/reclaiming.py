"""W8: a reclaim run in a file full of other jobs, and the heartbeats of a thousand workers."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from oncue_bench.creating import beside_raw
from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, rate, ratios

LOOK_GOAL = 0.8  # as fast as where there is nothing else
RECLAIM_GOAL = 0.2  # a diagnostic, an attempt and an answer for each, beside one update
BEAT_GOAL = 0.15


def rows(ground: Ground) -> Iterator[Row]:
    yield from _runs(ground)
    yield _heartbeats(ground)


def _runs(ground: Ground) -> Iterator[Row]:
    ground.progress("W8 reclaim runs")
    sizes = ground.sizes
    others = max(2, sizes.many - sizes.stuck)
    crowded = ground.seeded("reclaim", pending=others // 2, finished=others // 2)
    taken = in_turn(
        min(3, sizes.rounds),
        {
            "raw": lambda: ground.fresh("reclaim_load.raw_updates", crowded, count=sizes.stuck),
            "product": lambda: ground.fresh("reclaim_load.run", crowded, count=sizes.stuck),
            "look": lambda: ground.fresh("reclaim_load.look", crowded, count=sizes.stuck),
            "alone": lambda: ground.fresh("reclaim_load.look", count=sizes.stuck),
        },
    )
    crowded.unlink()
    title = f"{sizes.stuck:,} stuck of {sizes.many:,}"
    yield _look(f"{title}: a dry run", taken["look"], taken["alone"])
    yield beside_raw(ground, "W8", f"{title}: a run", taken, RECLAIM_GOAL)


def _look(title: str, crowded: list[Measured], alone: list[Measured]) -> Row:
    """What else is in the file must not be read."""
    each = ratios(crowded, alone)
    return Row(
        "W8",
        title,
        "jobs/s",
        rate(crowded),
        rate(alone),
        "with nothing else",
        median(each),
        (min(each), max(each)),
        goal=f"≥ {LOOK_GOAL:g} × that",
        reached=median(each) >= LOOK_GOAL,
    )


def _heartbeats(ground: Ground) -> Row:
    ground.progress("W8 heartbeats")
    sizes = ground.sizes
    taken = in_turn(
        sizes.rounds,
        {
            "raw": lambda: ground.fresh(
                "reclaim_load.raw_beats", workers=sizes.beaters, beats=sizes.beats
            ),
            "product": lambda: ground.fresh(
                "reclaim_load.beats", workers=sizes.beaters, beats=sizes.beats
            ),
        },
    )
    return beside_raw(ground, "W8", f"heartbeats of {sizes.beaters:,} workers", taken, BEAT_GOAL)
