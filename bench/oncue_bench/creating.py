"""W1: scheduling, one by one, from many callers at once, and in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, rate, ratios
from oncue_bench.seeds import CHUNK

SINGLE_GOAL = 0.8
CROWD_GOAL = 0.6
BULK_GOAL = 0.4
SPREAD_GOAL = 0.6
BULK_RATE_GOAL = 95_000


def rows(ground: Ground) -> Iterator[Row]:
    yield _single(ground)
    for callers in ground.sizes.crowds:
        yield _crowd(ground, callers)
    yield from _bulk(ground, spread=False)
    yield from _bulk(ground, spread=True)


def _single(ground: Ground) -> Row:
    ground.progress("W1 one by one")
    sizes = ground.sizes
    both = ground.fresh("product.one_by_one", count=sizes.single, rounds=sizes.single_rounds)

    def turns(name: str) -> list[Measured]:
        return [
            Measured({"count": sizes.single, "seconds": seconds}, both.peak_kib)
            for seconds in both.figures[name]
        ]

    taken = {"product": turns("seconds"), "raw": turns("raw_seconds")}
    return beside_raw(ground, "W1", "one by one, 1 caller", taken, SINGLE_GOAL)


def _crowd(ground: Ground, callers: int) -> Row:
    ground.progress(f"W1 {callers} callers")
    count = max(ground.sizes.crowd_jobs, callers)
    taken = in_turn(
        ground.sizes.rounds,
        {
            "raw": lambda: ground.fresh("raw.in_groups", count=count, group=callers),
            "product": lambda: ground.fresh("product.concurrently", count=count, callers=callers),
        },
    )
    return beside_raw(ground, "W1", f"{callers} asynchronous callers", taken, CROWD_GOAL)


def _bulk(ground: Ground, spread: bool) -> Iterator[Row]:
    ground.progress("W1 in bulk" + (", due at random" if spread else ""))
    count = ground.sizes.bulk
    taken = in_turn(
        ground.sizes.rounds,
        {
            "raw": lambda: ground.fresh("raw.in_groups", count=count, group=CHUNK, spread=spread),
            "product": lambda: ground.fresh("product.in_bulk", count=count, spread=spread),
        },
    )
    title = "in bulk, due at random within a day" if spread else "in bulk"
    yield beside_raw(ground, "W1", title, taken, SPREAD_GOAL if spread else BULK_GOAL)
    if not spread:
        yield at_least("W1", f"{title}, absolute", taken["product"], BULK_RATE_GOAL)


def beside_raw(
    ground: Ground,
    work: str,
    title: str,
    taken: dict[str, list[Measured]],
    goal: float,
    peak_goal_mib: float | None = None,
) -> Row:
    """The product's rate beside the raw one's."""
    product, raw = taken["product"], taken["raw"]
    each = ratios(product, raw)
    return Row(
        work,
        title,
        "jobs/s",
        rate(product),
        rate(raw),
        ratio=median(each),
        spread=(min(each), max(each)),
        goal=f"≥ {goal:g} × raw",
        reached=median(each) >= goal,
        peak_mib=ground.peak_mib(product),
        peak_goal_mib=peak_goal_mib,
    )


def at_least(work: str, title: str, product: Sequence[Measured], goal: float) -> Row:
    """The product's rate beside a number that was reached on the machine of the goals."""
    rates = [one.rate for one in product]
    return Row(
        work,
        title,
        "jobs/s",
        rate(product),
        spread=(min(rates), max(rates)),
        goal=f"≥ {goal:,}/s",
        reached=rate(product) >= goal,
    )
