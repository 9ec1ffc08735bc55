"""A report as text: for the terminal, and for docs/benchmarks.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oncue_bench.report import HEADER, Report, Row, cells

_RIGHT = {2, 4, 8}  # columns of numbers


def as_table(report: Report) -> str:
    """For people at a terminal."""
    lines = [HEADER, *(cells(row) for row in report.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    text = ["  ".join(_padded(line, widths)).rstrip() for line in lines]
    text.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([_machine(report), "", *text, "", _verdict(report)])


def _padded(line: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        text.rjust(width) if column in _RIGHT else text.ljust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    ]


_NAMES = {
    "W1": "scheduling",
    "W2": "a burst",
    "W3": "precision",
    "W4": "growth",
    "W5": "HTTP",
    "W6": "events",
    "W7": "schedules",
    "W8": "reclaiming",
    "W9": "bulk verbs",
}


def as_markdown(report: Report) -> str:
    """The page docs/benchmarks.md."""
    parts = [_INTRODUCTION.format(machine=_machine(report), verdict=_verdict(report))]
    for work, name in _NAMES.items():
        rows = [row for row in report.rows if row.work == work]
        if rows:
            parts.append(f"## {work}: {name}\n\n{_EXPLAINED[work]}\n\n{_markdown_table(rows)}")
    parts.append(_misses(report))
    parts.append(_REPEATING.format(minutes=report.seconds / 60))
    return "\n\n".join(parts) + "\n"


_MISSED = "## Missed\n"
_SECTION = re.compile(r"^## (W\d+):.*?(?=^## )", re.DOTALL | re.MULTILINE)


def with_others(page: str, old: str) -> str:
    """The page, with those sections of the old one that were not measured now."""
    sections = {found[1]: found[0] for text in (old, page) for found in _SECTION.finditer(text)}
    every = "".join(sections[work] for work in sorted(sections, key=lambda work: int(work[1:])))
    before, _, after = _SECTION.sub("", page).partition(_MISSED)
    return before + every + _MISSED + after


def _markdown_table(rows: list[Row]) -> str:
    return markdown_table(HEADER[1:], [cells(row)[1:] for row in rows])


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = "|" + "|".join("---" for _ in header) + "|"
    head, *body = ["| " + " | ".join(line) + " |" for line in (header, *lines)]
    return "\n".join([head, rule, *body])


def _machine(report: Report) -> str:
    own = report.machine
    return (
        f"{own['cores']} cores ({own['processor']}), {own['memory_gib']} GiB, {own['system']}, "
        f"{own['file_system']}, Python {own['python']}, SQLite {own['sqlite']} with "
        f"synchronous=FULL; load {own['load']} before the run"
    )


def _verdict(report: Report) -> str:
    judged = [row for row in report.rows if row.met is not None]
    met = len(judged) - len(report.missed)
    return f"{met} of {len(judged)} goals met, in {report.seconds:.0f} s."


def _misses(report: Report) -> str:
    if not report.missed:
        return f"{_MISSED}\nNothing in this run."
    lines = [f"- {' · '.join(filter(None, cells(row)[:7]))}" for row in report.missed]
    return f"{_MISSED}\n" + "\n".join(lines)


_INTRODUCTION = """# Benchmarks

The speed of oncue compared with the best speed of its store, on one machine and in one run.

{machine}.

**{verdict}**

## How to read it

- *raw* is the limit: the schema and the SQL statements of oncue in a plain loop on a plain
  connection, without Python objects, measured in turn with the product. A goal is a *ratio* to
  it, because machines differ. Where a goal is a number of jobs per second, it was set on a quiet
  2-core machine like this one.
- *product* and *raw* are medians over the rounds. *ratio* is the median of the ratios of the
  rounds; *of the rounds* is the lowest and the highest. A wide range means that the machine was
  busy with other things.
- *peak* is the most memory of the process, above that of a process that has only imported the
  same modules. Nearly every measurement has its own process and its own file on a real disk, with
  `synchronous=FULL`.
- Payloads have about 200 bytes."""

_EXPLAINED = {
    "W1": """Every job is durable when the call returns. One by one: a commit per job; raw is
`BEGIN IMMEDIATE`, insert, `COMMIT`. The two take short turns in one process, because the commits
of a disk vary from second to second by more than the two differ. Asynchronous callers in one
process: each waits for its own job, and callers that wait at the same time share a commit; raw
commits as many rows at once as there are callers. In bulk: `schedule_many`; raw is `executemany`
of 5,000 rows and a commit.""",
    "W2": """N jobs are due at one instant. The time runs from the start of the loops until the
last job is delivered *and settled*. Raw selects 5,000 due rows, decodes their payloads, deletes
them and commits, without claim, lease or history. The sink decodes nothing, so it can be faster
than raw. The absolute goals are five times the best other system that was measured (pg-boss,
21,000/s) and, for the handler called job by job in one worker process, 60,000/s. Garbage
collection is set as `oncue worker` sets it; with the settings of Python, handlers are
5 % slower.""",
    "W3": """Another process schedules jobs at distinct moments, all of them at least 1.5 s ahead.
Lateness is the time of the clock at the receipt in the sink or the handler, minus the due time;
the claim for a sink is durable before it is handed over, that for a handler does not wait for the
disk. Raw is a plain loop that knows the moments, sleeps, and makes one durable claim at each. Raw,
sink and handler take turns; p50 and p99 are those of a round, and the table shows their medians.
The idle process runs its loops while all jobs wait.""",
    "W4": """The same measurements with few jobs in the file, and with many waiting and many
finished ones. Inserting may become slower as the raw store does; burst and lateness may not (20
%, and 0.1 ms of noise).""",
    "W6": """Events are published to a store with few rules and to one with many, of which one
matches; nine of ten are files, the tenth is the cron that fires a job. One by one: a commit per
event. In lists: 500 events a call. The cost must not grow with the number of rules.""",
    "W7": """So many schedules fall due in the same minute, the worst case; every third one goes by
the minute, the others every five minutes or on working days, in four time zones. Measured from the
first look of the recurrer until all their jobs are stored and their next times found. Beside it as
many plain jobs, stored in batches of the same size, with nothing to decide. What an occurrence and
an idle look cost must not grow with the number of schedules.""",
    "W5": """One server process, one process that asks it over loopback. `POST /jobs`: 64 keep-alive
connections, each job durable when it is answered; beside it a bare ASGI application on
uvicorn that decodes the body, commits the same row together with those of the others that wait, and
answers with the id. `POST /jobs/batch` beside `schedule_many` in a process of its own. Working: 64
connections claim one job and complete it, counted in calls; and 4 connections claim and settle a
hundred at a time. Waiting: lateness is what the clock of the asking process shows when the answer
to a claim that waited has arrived, less the due time; there is no goal for it.""",
    "W8": """Jobs whose workers fell silent, in a file in which all others wait or are finished. A
dry run finds them all and decides; beside it the same in a file that has nothing else, since it
must read nothing else. A run retries them, with a diagnostic and the end of an attempt for each;
raw is the update alone, 500 rows to a statement and a commit. Heartbeats: asynchronous callers in
one process, each for its own claim; raw updates as many rows one by one, 256 to a commit.""",
    "W9": """`cancel_all` over a queue, beside the one UPDATE that would do it if nobody else wanted
to write meanwhile. The product changes 400 jobs in a transaction and then rests for a quarter of
the time that they took. That keeps other jobs in time, which a sink receives while it goes on, in
the same process and in another.""",
}

_REPEATING = """## Repeat it

```
make bench                   # W1 to W9, on SQLite; took {minutes:.0f} minutes here
make bench SIZE=quick        # about four minutes; smaller, so noisier
oncue bench                  # W1 to W9 as well; --quick makes it smaller, --json is for programs
oncue bench --only W2        # one part
make bench STORE=hostile     # W10, on a store in memory that is slow on purpose
make bench STORE=dynamodb    # W11, on a DynamoDB Local that it starts
make bench STORE=lambda      # W12, without a store
make bench STORE=sqs         # W13, on a ministack and a DynamoDB Local that it starts
make bench STORE=celery      # W14, on a Redis that it starts
make bench STORE=postgresql  # W15, on a PostgreSQL that it starts
```

These commands work in a clone: the installed package does not contain the benchmark. `make bench`
installs what it needs. `oncue bench` needs uvicorn for W5; if that is missing, it says so before it
begins. The benchmark needs about 3 GB of disk for a while and a machine that does nothing else.

These write their results into this page; the second one also with `sqs`, `celery` or `postgresql`:

```
PYTHONPATH=bench python -m oncue_bench --write docs/benchmarks.md
PYTHONPATH=bench python -m oncue_bench --store dynamodb --write docs/benchmarks.md
```"""
