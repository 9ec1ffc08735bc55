"""What `oncue bench` prints."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import click

from oncue.cli import output
from oncue.cli.progress import StatusLine
from oncue_bench import run as benchmark
from oncue_bench.report import Report, Row, amount
from oncue_bench.sizes import DEFAULT, QUICK

NAMES = {
    "W1": "scheduling",
    "W2": "a burst, due at one instant",
    "W3": "precision",
    "W4": "growth",
    "W5": "HTTP",
    "W6": "events",
    "W7": "schedules",
    "W8": "reclaiming",
    "W9": "bulk verbs",
}
BAR_WIDTH = 16


def run(n: int | None, quick: bool, only: Collection[str], *, as_json: bool) -> None:
    """Measure and print. `n`: jobs in the large burst."""
    sizes = QUICK if quick else DEFAULT
    if n is not None:
        sizes = replace(sizes, large=n)
    line = StatusLine()
    try:
        report = benchmark.run(sizes, only, lambda text: _tell(line, text))
    except benchmark.ModulesMissing as missing:
        raise click.ClickException(str(missing)) from None
    finally:
        line.clear()
    if as_json:
        output.document(report.as_dict())
    else:
        show(report)


def _tell(line: StatusLine, text: str) -> None:
    if line.shown:
        line.show(f"… {text}")
    else:
        click.echo(f"… {text}", err=True)


def show(report: Report) -> None:
    facts = report.machine
    click.echo(
        f"{facts['cores']} cores ({facts['processor']}), {facts['file_system']}, "
        f"Python {facts['python']}, SQLite {facts['sqlite']} with synchronous=FULL; "
        f"load {facts['load']} before the run"
    )
    for work, name in NAMES.items():
        rows = [row for row in report.rows if row.work == work]
        if rows:
            click.echo()
            head = (f"{work} {name}", "oncue", "beside", "ratio", "", "goal", "", "peak MiB")
            output.table(head, [_cells(row) for row in rows], right=(1, 2, 3, 7))
    judged = [row for row in report.rows if row.met is not None]
    met = len(judged) - len(report.missed)
    click.echo(f"\n{met} of {len(judged)} goals met, in {output.length(report.seconds)}.")


def _cells(row: Row) -> tuple[str, ...]:
    beside = "" if row.beside is None else f"{amount(row.beside, row.unit)} {row.beside_what}"
    verdict = {True: ("met", "green"), False: ("MISSED", "red"), None: ("", None)}[row.met]
    return (
        row.title,
        amount(row.product, row.unit),
        beside,
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if row.ratio is None else output.bar(row.ratio, BAR_WIDTH),
        row.goal,
        output.paint(*verdict),
        "" if row.peak_mib is None else f"{row.peak_mib:.0f}",
    )
