"""W11: the DynamoDB store. What the lives of jobs cost, which is what one pays for; how fast jobs
are stored and delivered, compared with a plain client; and that neither memory nor cost grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from oncue.stores.dynamodb.address import TableAddress
from oncue_bench.dynamodb import place
from oncue_bench.processes import Measured, measure
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, rate, ratios

WORK = "W11"
GOAL = 0.6
ROUNDS = 3
PEAK_MIB, LARGE_PEAK_MIB, LARGE = 80, 150, 1_000_000
SAME = 0.02
"""What a cost may differ by: which batches jobs fall into is chance."""
LIVES = (
    *("fleeting", "kept", "chosen", "pulled"),
    *("cancelled", "cancelled-due", "rescheduled", "retried"),
)
SHARDS = (1, 50)
FLAT = {"fleeting": "sink, nothing kept", "pulled": "pulled, history kept, 1 heartbeat"}


def rows(ground: Ground) -> Iterator[Row]:
    near = place.address(ground.store)
    ground.progress(f"{WORK} on {place.told(ground.store)}")
    yield from _costs(ground, near)
    yield from _rates(ground, near)
    yield from _memory(ground, near)
    yield from _growth(ground, near)
    yield from _one_date(ground, near)


def _fresh(near: TableAddress, name: str, *, due: int = 0, **arguments: Any) -> Measured:
    """Measure on a table of its own, with so many due jobs in it."""
    with place.own_table(near) as url:
        if due:
            measure("dynamodb.rates.seed", url=url, count=due)
        return measure(f"dynamodb.{name}", url=url, **arguments)


def _costs(ground: Ground, near: TableAddress) -> Iterator[Row]:
    count = ground.sizes.table_lives
    ground.progress(f"{WORK} requests and units, {count:,} jobs of each life")
    found = _fresh(near, "lives.units", count=count, lives=LIVES).figures
    for figures in found.values():
        goal, writes = figures["goal"], figures["writes"]
        yield Row(
            WORK,
            figures["title"],
            "W",
            writes,
            goal=f"≤ {goal:.3g} W",
            reached=writes <= goal,
            more={"R": figures["reads"], "requests": figures["requests"]},
        )


def _rates(ground: Ground, near: TableAddress) -> Iterator[Row]:
    count = ground.sizes.table_jobs
    ground.progress(f"{WORK} {count:,} jobs stored and delivered")
    own: dict[str, Callable[[], Measured]] = {
        "raw insert": partial(_fresh, near, "rates.raw_insert", count=count),
        "insert": partial(_fresh, near, "rates.insert", count=count),
        "raw drain": partial(_fresh, near, "rates.raw_drain", due=count, count=count),
        "drain": partial(_fresh, near, "rates.drain", due=count, count=count),
    }
    taken = in_turn(min(ROUNDS, ground.sizes.rounds), own)
    yield _compared(f"{count:,} stored by schedule_many", taken["insert"], taken["raw insert"])
    title = f"{count:,} due, sink, nothing kept"
    yield _compared(title, taken["drain"], taken["raw drain"])


def _compared(title: str, product: list[Measured], raw: list[Measured]) -> Row:
    each = ratios(product, raw)
    ratio, spread = median(each), (min(each), max(each))
    own = (title, "jobs/s", rate(product), rate(raw), "raw", ratio, spread)
    return Row(WORK, *own, goal=f"≥ {GOAL:g} × raw", reached=ratio >= GOAL)


def _memory(ground: Ground, near: TableAddress) -> Iterator[Row]:
    """What a process grows by while it delivers."""
    count = ground.sizes.table_due
    ground.progress(f"{WORK} memory, {count:,} due")
    few, many = (_growth_mib(near, number) for number in (count // 5, count))
    most = LARGE_PEAK_MIB if count >= LARGE else PEAK_MIB
    title, versus = f"{count:,} due, sink, nothing kept: memory grows by", f"with {count // 5:,}"
    yield Row(*(WORK, title, "MiB", many, few, versus), goal=f"≤ {most} MiB", reached=many <= most)


def _growth_mib(near: TableAddress, count: int) -> float:
    taken = _fresh(near, "rates.drain", due=count, count=count)
    return (taken.peak_kib - float(taken.figures["before_kib"])) / 1024


def _growth(ground: Ground, near: TableAddress) -> Iterator[Row]:
    """A job costs the same, however many others wait in its queue."""
    few, many = ground.sizes.table_pending
    found = {}
    for pending in (few, many):
        ground.progress(f"{WORK} units with {pending:,} pending")
        given: dict[str, Any] = {
            "count": ground.sizes.table_lives,
            "lives": [*FLAT],
            "pending": pending,
        }
        found[pending] = _fresh(near, "lives.units", **given).figures
    for name, title in FLAT.items():
        for figure, unit in (("writes", "W"), ("reads", "R")):
            less, more = (found[pending][name][figure] for pending in (few, many))
            yield Row(
                *(WORK, f"{title}: {figure} with {many:,} pending", unit, more, less),
                beside_what=f"with {few:,}",
                ratio=more / less,
                goal=f"≤ {1 + SAME:g} × that",
                reached=more <= less * (1 + SAME),
            )


def _one_date(ground: Ground, near: TableAddress) -> Iterator[Row]:
    """Partitions that take no more than those of the service: one shard is throttled."""
    count = ground.sizes.table_date
    for shards in SHARDS:
        ground.progress(f"{WORK} {count:,} due on one date, shards: {shards}")
        with place.own_table(near) as url:
            measure("dynamodb.one_date.seed", url=url, count=count, shards=shards)
            found, peak_kib = measure("dynamodb.one_date.deliver", url=url, shards=shards)
        yield Row(
            *(WORK, f"{count:,} due on one date, shards: {shards}", "s", found["seconds"]),
            goal=f"{count:,} started",
            reached=found["started"] == found["count"] == count,
            more={
                "started": found["started"],
                "throttled": found["throttles"],
                "peak W": found["peak_writes"],
                "MiB": (peak_kib - found["before_kib"]) / 1024,
            },
        )
