"""`oncue bench`: what oncue does on this machine, beside what its store could do at best."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from oncue.cli.app import App, examples, store_only

if TYPE_CHECKING:
    from oncue.bench.report import Report, Row
    from oncue.bench.sizes import Sizes
    from oncue.cli.progress import StatusLine

WORKS = {
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


@click.command(
    help=examples("oncue bench --quick", "oncue bench", "oncue bench --only W2 --n 5000000")
    + "\n\nMeasure oncue on this machine. Scheduling (W1), a burst (W2), precision (W3), growth"
    " (W4), HTTP (W5), events (W6), schedules (W7), reclaiming (W8) and bulk verbs (W9), each "
    "beside the raw thing, or few beside many, in the same run; in temporary files on a real disk: "
    "your store is not touched. All of it takes many minutes and about 3 GB, --quick some four. "
    "Let the machine do nothing else meanwhile."
)
@click.option("--n", type=click.IntRange(min=1), help="Jobs in the large burst.")
@click.option("--quick", is_flag=True, help="Smaller, so sooner and noisier.")
@click.option("--only", type=click.Choice(list(WORKS)), multiple=True, help="One part; repeatable.")
@store_only
@click.pass_obj
def bench(app: App, n: int | None, quick: bool, only: tuple[str, ...]) -> None:
    app.require_store()
    if not str(app.settings["store"].value).startswith("sqlite:"):
        raise click.UsageError("only SQLite stores can be measured: --store sqlite:///any.db")
    from oncue.bench.run import run
    from oncue.cli import output
    from oncue.cli.progress import StatusLine

    line = StatusLine()
    try:
        report = run(_sizes(n, quick), only, lambda text: _tell(line, text))
    finally:
        line.clear()
    if app.as_json:
        output.document(report.as_dict())
    else:
        show(report)


def _sizes(n: int | None, quick: bool) -> Sizes:
    from oncue.bench.sizes import DEFAULT, QUICK

    sizes = QUICK if quick else DEFAULT
    return sizes if n is None else replace(sizes, large=n)


def _tell(line: StatusLine, text: str) -> None:
    if line.shown:
        line.show(f"… {text}")
    else:
        click.echo(f"… {text}", err=True)


def show(report: Report) -> None:
    from oncue.cli import output

    own = report.machine
    click.echo(
        f"{own['cores']} cores ({own['processor']}), {own['file_system']}, Python {own['python']}, "
        f"SQLite {own['sqlite']} with synchronous=FULL; load {own['load']} before the run"
    )
    for work, name in WORKS.items():
        rows = [row for row in report.rows if row.work == work]
        if rows:
            click.echo()
            head = (f"{work} {name}", "oncue", "beside", "ratio", "", "goal", "", "peak MiB")
            output.table(head, [_cells(row) for row in rows], right=(1, 2, 3, 7))
    judged = [row for row in report.rows if row.met is not None]
    met = len(judged) - len(report.missed)
    click.echo(f"\n{met} of {len(judged)} goals met, in {output.length(report.seconds)}.")


def _cells(row: Row) -> tuple[str, ...]:
    from oncue.bench.report import amount
    from oncue.cli import output

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
