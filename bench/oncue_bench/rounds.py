"""Measurements that take turns, so that a noisy machine is noisy for all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from oncue_bench import seeds
from oncue_bench.processes import Measured, measure
from oncue_bench.sizes import Sizes

Taken = dict[str, list[Measured]]


@dataclass(slots=True)
class Ground:
    """Where and how much is measured."""

    sizes: Sizes
    folder: Path
    idle_kib: int
    progress: Callable[[str], None]
    store: str = "sqlite"
    """What is measured on, as it was asked for."""

    def seeded(self, name: str, **jobs: int) -> Path:
        """A file with these jobs, made once."""
        path = self.folder / f"{name}.db"
        if not path.exists():
            self.progress(f"preparing {name}")
            measure("seeds.seed", path=str(path), **jobs)
        return path

    def fresh(
        self, name: str, source: Path | None = None, due: int = 0, **arguments: Any
    ) -> Measured:
        """Measure on a file of its own, empty or a copy of `source`, with `due` jobs added, that is
        removed afterwards."""
        path = self.folder / "measured.db"
        try:
            if source is not None:
                seeds.copy(source, path)
            if due:
                measure("seeds.seed", path=str(path), due=due)
            return measure(name, path=str(path), **arguments)
        finally:
            for file in self.folder.glob("measured.db*"):
                file.unlink()

    def peak_mib(self, taken: Sequence[Measured]) -> float:
        """The highest peak, above that of an idle process."""
        return max(0.0, (max(one.peak_kib for one in taken) - self.idle_kib) / 1024)


def in_turn(rounds: int, measurements: Mapping[str, Callable[[], Measured]]) -> Taken:
    """Each of them once per round; every other round in the opposite order."""
    taken: Taken = {name: [] for name in measurements}
    for turn in range(rounds):
        names = list(measurements)
        for name in names if turn % 2 == 0 else reversed(names):
            taken[name].append(measurements[name]())
    return taken


def rate(taken: Sequence[Measured]) -> float:
    return median(one.rate for one in taken)


def ratios(product: Sequence[Measured], raw: Sequence[Measured]) -> list[float]:
    """Round by round."""
    return [mine.rate / its.rate for mine, its in zip(product, raw, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def in_turns(
    do: Callable[[str], object], count: int, rounds: int
) -> tuple[list[float], list[float]]:
    """Do a small thing "mine" and "its" so often in each round, one after the other; the seconds of
    both in each round. The first round, which connects, does not count."""
    found: dict[str, list[float]] = {"mine": [], "its": []}
    for _ in range(rounds + 1):
        seconds = dict.fromkeys(found, 0.0)
        for number in range(count):
            for name in found if number % 2 else reversed(found):
                began = perf_counter()
                do(name)
                seconds[name] += perf_counter() - began
        for name, taken in seconds.items():
            found[name].append(taken)
    return found["mine"][1:], found["its"][1:]
