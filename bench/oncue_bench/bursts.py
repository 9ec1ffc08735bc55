"""W2: N jobs due at one instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from oncue_bench.creating import at_least, beside_raw
from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, Taken, in_turn, rate
from oncue_bench.seeds import CHUNK

PEAK_GOAL_MIB = 80
LARGE_PEAK_GOAL_MIB = 150
NOTHING_KEPT_GOAL = 0.4
NOTHING_KEPT_RATE_GOAL = 105_000
BATCHES_GOAL = 0.7
KEPT_GOAL = 0.25
ONE_BY_ONE_RATE_GOAL = 60_000
FLAT = 0.2


class Kind(NamedTuple):
    title: str
    measurement: str
    arguments: dict[str, Any]
    goal: float | None
    """As a ratio to the raw drain."""
    rate_goal: float | None = None


KINDS = {
    "a": Kind(
        "sink, nothing kept",
        "product.to_sink",
        {"keep": False},
        NOTHING_KEPT_GOAL,
        NOTHING_KEPT_RATE_GOAL,
    ),
    "b": Kind(
        f"batch handler of {CHUNK:,}, nothing kept",
        "product.to_handler",
        {"keep": False, "batch": CHUNK},
        BATCHES_GOAL,
        NOTHING_KEPT_RATE_GOAL,
    ),
    "c": Kind("sink, history kept", "product.to_sink", {"keep": True}, KEPT_GOAL),
    "d": Kind(
        "handler job by job, history kept",
        "product.to_handler",
        {"keep": True},
        None,
        ONE_BY_ONE_RATE_GOAL,
    ),
}


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    small = _burst(ground, sizes.burst, sizes.rounds)
    yield from _compared(ground, sizes.burst, small, PEAK_GOAL_MIB)
    if sizes.large is None:
        return
    large = _burst(ground, sizes.large, sizes.large_rounds)
    yield from _compared(ground, sizes.large, large, LARGE_PEAK_GOAL_MIB)
    for letter, kind in KINDS.items():
        title = f"{kind.title}: {sizes.large:,} as fast as {sizes.burst:,}"
        yield flat("W2", title, large[letter], small[letter], f"at {sizes.burst:,}")


def _burst(ground: Ground, count: int, rounds: int) -> Taken:
    source = ground.seeded(f"due-{count}", due=count)
    measurements: dict[str, Callable[[], Measured]] = {
        "raw": lambda: ground.fresh("raw.drain", source, count=count)
    }
    for letter, kind in KINDS.items():
        measurements[letter] = _measurement(ground, kind, source, count)
    ground.progress(f"W2 {count:,} due at one instant")
    taken = in_turn(rounds, measurements)
    source.unlink()
    return taken


def _measurement(ground: Ground, kind: Kind, source: Path, count: int) -> Callable[[], Measured]:
    return lambda: ground.fresh(kind.measurement, source, count=count, **kind.arguments)


def _compared(ground: Ground, count: int, taken: Taken, peak_goal_mib: float) -> Iterator[Row]:
    for letter, kind in KINDS.items():
        title = f"{count:,} due, {kind.title}"
        product = taken[letter]
        if kind.goal is not None:
            pair = {"product": product, "raw": taken["raw"]}
            yield beside_raw(ground, "W2", title, pair, kind.goal, peak_goal_mib)
        if kind.rate_goal is not None:
            yield at_least("W2", f"{title}, absolute", product, kind.rate_goal)


def flat(
    work: str, title: str, more: list[Measured], less: list[Measured], beside_what: str
) -> Row:
    """Whether the rate stays as it was. Faster is no miss."""
    ratio = rate(more) / rate(less)
    return Row(
        work,
        title,
        "jobs/s",
        rate(more),
        rate(less),
        beside_what,
        ratio,
        goal=f"≥ {1 - FLAT:g} × that",
        reached=ratio >= 1 - FLAT,
    )
