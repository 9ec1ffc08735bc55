"""W11 in docs/benchmarks.md: what was measured on DynamoDB, and what the capacity model says."""

from __future__ import annotations

from pathlib import Path

from oncue_bench import capacity_report
from oncue_bench.dynamodb import place
from oncue_bench.rendering import markdown_table
from oncue_bench.report import HEADER, Report, Row, cells

TITLE = "## W11: DynamoDB"
PICTURE = "capacity.svg"
_COSTS = ("life", "W", "R", "requests", "goal", "met")
_DATES = ("", "lasts", "throttled items", "peak W/s", "memory grows by", "started", "met")
_BEFORE = "## Missed"


def write(report: Report, page: Path) -> None:
    """Put the section into the page, in place of the former one, and the picture beside it."""
    found = capacity_report.outcomes()
    text = as_section(report, capacity_report.as_markdown(found))
    page.write_text(replaced(page.read_text("utf-8"), text, TITLE), "utf-8")
    page.with_name(PICTURE).write_text(capacity_report.as_picture(found), "utf-8")


def as_section(report: Report, capacity: str) -> str:
    costs = [row for row in report.rows if "requests" in row.more]
    dates = [row for row in report.rows if "throttled" in row.more]
    rates = [row for row in report.rows if not row.more]
    parts = (
        TITLE,
        _EXPLAINED.format(
            where=place.told(report.settings["store"]),
            machine=machine_of(report),
            jobs=report.settings["table_lives"],
        ),
        markdown_table(_COSTS, [_cost(row) for row in costs]),
        _RATES + doubt(report),
        markdown_table(HEADER[1:-1], [cells(row)[1:-1] for row in rates]),
        _ONE_DATE,
        markdown_table(_DATES, [_date(row) for row in dates]),
        _CAPACITY,
        capacity,
        f"![Jobs that are left over time]({PICTURE})",
    )
    return "\n\n".join(parts) + "\n"


def replaced(page: str, section: str, title: str) -> str:
    """The page with this section; the former one of that title ends where the next begins."""
    before, found, rest = page.partition(title + "\n")
    if not found:
        before, _, rest = page.partition(_BEFORE)
        return f"{before}{section}\n{_BEFORE}{rest}"
    return f"{before}{section}\n## {rest.partition(chr(10) + '## ')[2]}"


def machine_of(report: Report) -> str:
    own = report.machine
    cores = f"{own['cores']} cores ({own['processor']}), {own['memory_gib']} GiB"
    return f"{cores}, Python {own['python']}; load {own['load']} before the run"


def doubt(report: Report) -> str:
    """Whether the rates of the run can be relied on."""
    if report.machine["load"] <= report.machine["cores"]:
        return ""
    return _BUSY.format(**report.machine)


def _cost(row: Row) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: ""}[row.met]
    figures = [f"{value:.2f}" for value in (row.product, row.more["R"], row.more["requests"])]
    return (row.title, *figures, row.goal, met)


def _date(row: Row) -> tuple[str, ...]:
    more = row.more
    return (
        row.title,
        f"{row.product:,.0f} s",
        f"{more['throttled']:,.0f}",
        f"{more['peak W']:,.0f}",
        f"{more['MiB']:.0f} MiB",
        f"{more['started']:,.0f}",
        "yes" if row.met else "NO",
    )


_EXPLAINED = """`make bench STORE=dynamodb`, in a run of its own on {where}. {machine}.

What a job costs, as the service would charge it: write units (W) of 1 KB, read units (R) of 4 KB,
and requests, counted by the benchmark itself at each request: the emulator's own figures are wrong
for some requests. {jobs:,} jobs of each life, in a queue of four shards; payloads have about 200
bytes. Jobs for a sink are stored and delivered in one batch for each shard, so a batch is small
here, and its own requests and its two writes count; in a burst they do not. Pulled jobs are claimed
and reported on a hundred at a time. Cancel, reschedule and retry are that step alone; the first two
go job by job."""

_RATES = """How fast: raw is a plain client of the same settings that sends the same batches from as
many threads; for a drain it reads the pages of all shards and removes what it read, 25 items to a
request. The emulator, the raw client and the product share the cores, so only the ratio says
anything. Memory is what the delivering process grows by. With more jobs pending in the same queue,
nothing may cost more."""

_BUSY = """

**The machine was busy with other things in this run** (load {load} on {cores} cores). Requests and
units do not depend on that. The ratios do, as the range of the rounds shows: whether they reach the
goal is not settled before a run on a quiet machine."""

_ONE_DATE = """### One date, one shard

The product itself delivers jobs that are all due on one date, history kept, from the emulator
behind a client that throttles as the service does: each partition of table and index takes 1,000 W
and 3,000 R per second, keeps what it did not use for one second, and is never split. Time is
virtual: requests take 5 ms, 16 at a time, and the pauses after a throttle count. With one shard,
the line of the queue and its entries in the index are one partition each, and both are full. With
50, a batch of 1,000 fills those of its shard for a second, and some shards come twice in it. The
peak is that of table and index together."""

_CAPACITY = """### What a table can take

Nothing is measured here: this is arithmetic with the limits that the service publishes, second by
second. A partition takes 1,000 W per second, a table as many as its quota (40,000 by default), a
new on-demand table 4,000 at first. Each shard of a queue is taken to be a partition of its own, and
removing a delivered job is one write. There is no burst capacity, and no partition is split: both
would help, and nobody can count on them. A writer that was throttled tries a tenth more than it was
allowed the second before. *Held up by* `pace`: the program delivers no more than 2,167 jobs in a
second, as that of the example with 100,000 tasks did; `due`: the jobs are through as they fall
due."""
