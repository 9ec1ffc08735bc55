"""Large numbers on the command line, as people write them: 250000, 100k, 1.5M; 2KB."""

from __future__ import annotations

import re
from typing import Any

import click

_AMOUNT = re.compile(r"(\d[\d_,]*(?:\.\d+)?)\s*([a-z]*)", re.ASCII | re.IGNORECASE)
THOUSANDS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "b": 1000**3}
BYTES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1024**2, "mb": 1024**2}


class Amount(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """A whole number within bounds, with a suffix if people like."""

    def __init__(self, name: str, suffixes: dict[str, int], low: int, high: int, how: str) -> None:
        """`name` says what is counted, `how` is an example to follow."""
        self.name = name
        self._suffixes, self._low, self._high, self._how = suffixes, low, high, how

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _AMOUNT.fullmatch(str(value).strip())
        factor = self._suffixes.get(found[2].lower()) if found else None
        if found is None or factor is None:
            self.fail(f"{value!r} is not a number of {self.name}. Write {self._how}.", param, ctx)
        number = round(float(re.sub("[_,]", "", found[1])) * factor, 6)
        if number % 1:
            self.fail(f"{value!r} is not a whole number of {self.name}. Round it.", param, ctx)
        if not self._low <= number <= self._high:
            bounds = f"{self._low:,} to {self._high:,}"
            self.fail(f"{value!r} is out of range. Give {bounds} {self.name}.", param, ctx)
        return int(number)


def jobs(high: int) -> Amount:
    return Amount("jobs", THOUSANDS, 1, high, "250000, 100k or 1M")


def size(high: int) -> Amount:
    return Amount("bytes", BYTES, 0, high, "500, 2KB or 64KB (1 KB is 1,024 bytes)")
