"""W4: the same work in a file with few jobs and in one with many waiting and many finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from oncue_bench import bursts, precision
from oncue_bench.processes import Measured
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, Taken, in_turn, rate, ratios
from oncue_bench.seeds import CHUNK

FLAT = bursts.FLAT
NOISE_MS = 0.1  # what a lateness may differ by without telling anything
ROUNDS = 3


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    files = {
        "few": ground.seeded("few", pending=sizes.few),
        "many": ground.seeded("many", pending=sizes.many, finished=sizes.many),
    }
    versus = f"with {sizes.few:,} pending"
    against = f"{sizes.many:,} pending and finished"
    taken = in_turn(min(ROUNDS, sizes.rounds), _measurements(ground, files))
    yield from _insert(f"in bulk, {against}", taken, versus)
    title = f"{sizes.burst:,} due, sink, history kept, {against}"
    yield bursts.flat("W4", title, taken["burst many"], taken["burst few"], versus)
    yield from _precision(taken, against, versus)
    for file in files.values():
        file.unlink()


def _measurements(ground: Ground, files: dict[str, Path]) -> dict[str, Callable[[], Measured]]:
    sizes = ground.sizes
    own: dict[str, Callable[[], Measured]] = {}

    def add(name: str, source: Path) -> None:
        bulk, due = sizes.bulk, sizes.burst
        own[f"raw {name}"] = lambda: ground.fresh("raw.in_groups", source, count=bulk, group=CHUNK)
        own[f"bulk {name}"] = lambda: ground.fresh("product.in_bulk", source, count=bulk)
        own[f"burst {name}"] = lambda: ground.fresh(
            "product.to_sink", source, due=due, count=due, keep=True
        )
        own[f"on time {name}"] = precision.on_time(ground, source, "sink", 0.0)

    for name, source in files.items():
        add(name, source)
    ground.progress("W4 bulk, burst and precision")
    return own


def _insert(title: str, taken: Taken, versus: str) -> Iterator[Row]:
    """Inserting may slow down, but not more than the raw store does."""
    ratio = {
        name: median(ratios(taken[f"bulk {name}"], taken[f"raw {name}"]))
        for name in ("few", "many")
    }
    fallen = ratio["many"] / ratio["few"]
    yield Row(
        "W4",
        title,
        "jobs/s",
        rate(taken["bulk many"]),
        rate(taken["bulk few"]),
        versus,
        rate(taken["bulk many"]) / rate(taken["bulk few"]),
        goal="falls only as raw",
        reached=fallen >= 1 - FLAT,
    )
    more, less = rate(taken["raw many"]), rate(taken["raw few"])
    yield Row("W4", f"{title}: the raw store", "jobs/s", more, less, versus, more / less)


def _precision(taken: Taken, against: str, versus: str) -> Iterator[Row]:
    for share in (0.5, 0.99):
        few, many = (
            median(precision.lateness(taken[f"on time {name}"], share)) for name in ("few", "many")
        )
        yield Row(
            "W4",
            f"sink, {against}: lateness p{round(share * 100)}",
            "ms",
            many,
            few,
            versus,
            many / few,
            goal=f"≤ {1 + FLAT:g} × that",
            reached=many <= few * (1 + FLAT) + NOISE_MS,
        )
