"""What the capacity model says of DynamoDB: a table and a picture for docs/benchmarks.md.

`python -m oncue_bench.capacity_report FILE.svg` writes the picture and prints the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from oncue_bench.capacity import NEW_TABLE_WRITES, Burst, Outcome, drain, quota_needed
from oncue_bench.picture import Panel, Points, as_svg
from oncue_bench.rendering import markdown_table

TASKS = 100_000
TASKS_PACE = 2_167  # what the program of the example managed when nothing held it up
MINUTE = 10_000_000
HEADER = ("", "shards", "W/s of the table", "lasts", "throttled", "peak W/s", "held up by")

_DATE = f"{TASKS:,} due on one date"
_MINUTE = f"{MINUTE:,} due in one minute"

ONE_DATE = [Burst(_DATE, TASKS, shards, due_seconds=1, pace=TASKS_PACE) for shards in (1, 4, 50)]
ONE_MINUTE = [
    Burst(_MINUTE, MINUTE, 167, quota=quota_needed(MINUTE)),
    Burst(_MINUTE, MINUTE, 167),
    Burst(_MINUTE, MINUTE, 50),
    Burst(_MINUTE, MINUTE, 4),
    Burst(f"{_MINUTE}, a new table", MINUTE, 167, quota=NEW_TABLE_WRITES),
]

DATE_LINES = {"1 shard": ONE_DATE[0], "50 shards": ONE_DATE[2]}
MINUTE_LINES = {
    "167 shards, 167k W/s": ONE_MINUTE[0],
    "50 shards, 40k W/s": ONE_MINUTE[2],
    "4 shards": ONE_MINUTE[3],
}


def outcomes() -> list[Outcome]:
    """The rows of the table."""
    return [drain(burst) for burst in (*ONE_DATE, *ONE_MINUTE)]


def as_markdown(rows: list[Outcome]) -> str:
    return markdown_table(HEADER, [_cells(row) for row in rows])


def as_picture(rows: list[Outcome]) -> str:
    """The jobs that are left over time, as SVG. The other bursts last as long as one of these."""
    return as_svg(
        [
            Panel(_DATE, "seconds", "left", _lines(rows, DATE_LINES)),
            Panel(_MINUTE, "seconds", "left", _lines(rows, MINUTE_LINES), is_log=True),
        ]
    )


def _lines(rows: list[Outcome], wanted: dict[str, Burst]) -> dict[str, Points]:
    left = {row.burst: row.left for row in rows}
    return {name: list(enumerate(left[burst])) for name, burst in wanted.items()}


def _cells(row: Outcome) -> tuple[str, ...]:
    burst = row.burst
    return (
        burst.title,
        f"{burst.shards:,}",
        f"{burst.quota:,}",
        f"{row.seconds:,} s",
        f"{row.throttles:,}",
        f"{row.peak_writes:,.0f}",
        row.limit,
    )


if __name__ == "__main__":
    found = outcomes()
    Path(sys.argv[1]).write_text(as_picture(found), "utf-8")
    print(as_markdown(found))
