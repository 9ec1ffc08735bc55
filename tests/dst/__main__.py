"""All zones × all changes of the clocks from 2000 to 2037, in about ten minutes: `make dst`."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.dst.comparison import FIVE, SIX, changes, disagreements, distinct_zones


def compare(key: str) -> tuple[int, list[str]]:
    every = changes(key)
    return len(every), [line for change in every for line in disagreements(key, change)]


def main() -> int:
    zones = distinct_zones()
    total, wrong = 0, list[str]()
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for number, (count, lines) in enumerate(pool.map(compare, zones, chunksize=4), start=1):
            total += count
            wrong += lines
            print(*lines, sep="\n", end="\n" if lines else "")
            if number % 50 == 0:
                print(f"{number} of {len(zones)} zones, {total:,} changes", flush=True)
    expressions = len(FIVE) + len(SIX)
    print(
        f"{len(zones)} sets of rules, {total:,} changes of the clocks, {expressions} expressions: "
        f"{len(wrong)} disagreements"
    )
    return 1 if wrong or total < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
