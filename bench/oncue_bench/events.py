"""W6: publishing events, one by one and in lists, to a store with few rules and with many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

from oncue_bench.processes import Measured, measure
from oncue_bench.report import Row
from oncue_bench.rounds import Ground, in_turn, rate

WITHIN = 1.5  # a cost that does not grow stays within this factor; the rest is noise
LIST = 500


def rows(ground: Ground) -> Iterator[Row]:
    files = {count: _ruled(ground, count) for count in ground.sizes.rules}
    yield from _compared(f"events in lists of {LIST}", _in_lists(ground, files))
    yield from _compared("events one by one", _one_by_one(ground, files))
    for file in files.values():
        file.unlink()


def _one_by_one(ground: Ground, files: Mapping[int, Path]) -> dict[int, float]:
    ground.progress("W6 one by one")
    count = ground.sizes.events_single
    taken = measure(
        "publishing.one_by_one",
        paths=[str(path) for path in files.values()],
        count=count,
        rounds=ground.sizes.single_rounds,
    )
    seconds = taken.figures["seconds"]
    return {rules: count / median(seconds[str(path)]) for rules, path in files.items()}


def _in_lists(ground: Ground, files: Mapping[int, Path]) -> dict[int, float]:
    ground.progress("W6 in lists")
    own = {"count": ground.sizes.events_listed, "size": LIST}
    measurements: dict[str, Callable[[], Measured]] = {
        str(rules): partial(ground.fresh, "publishing.in_lists", source, **own)
        for rules, source in files.items()
    }
    taken = in_turn(ground.sizes.rounds, measurements)
    return {rules: rate(taken[str(rules)]) for rules in files}


def _compared(title: str, rates: Mapping[int, float]) -> Iterator[Row]:
    """Each beside the one with the fewest rules."""
    fewest = min(rates)
    least = rates[fewest]
    for rules, now in rates.items():
        if rules == fewest:
            yield Row("W6", f"{title}, {rules:,} rules", "events/s", now)
            continue
        yield Row(
            "W6",
            f"{title}, {rules:,} rules",
            "events/s",
            now,
            least,
            f"with {fewest:,} rules",
            now / least,
            goal=f"≥ {1 / WITHIN:.2f} × that",
            reached=now >= least / WITHIN,
        )


def _ruled(ground: Ground, count: int) -> Path:
    """A file with so many rules."""
    path = ground.folder / f"rules-{count}.db"
    ground.progress(f"preparing {count:,} rules")
    measure("publishing.seed_rules", path=str(path), count=count)
    return path
