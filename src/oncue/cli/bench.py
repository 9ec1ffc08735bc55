"""`oncue bench`: measure oncue on this machine. The benchmark itself is the package `oncue_bench`
of a clone; the wheel leaves it out."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import click

import oncue
from oncue.cli.app import App, store_only

WORKS = [f"W{number}" for number in range(1, 10)]


@click.command()
@click.option("--n", type=click.IntRange(min=1), help="Jobs in the large burst.")
@click.option("--quick", is_flag=True, help="Smaller, so sooner and noisier.")
@click.option("--only", type=click.Choice(WORKS), multiple=True, help="One part; repeatable.")
@store_only
def bench(app: App, n: int | None, quick: bool, only: tuple[str, ...]) -> None:
    """Measure oncue on this machine. Scheduling (W1), a burst (W2), precision (W3), growth (W4),
    HTTP (W5), events (W6), schedules (W7), reclaiming (W8) and bulk verbs (W9), each compared with
    the raw store, or few jobs with many, in the same run; in temporary files on a real disk: your
    store is not touched. The whole benchmark takes many minutes and about 3 GB, with --quick about
    four minutes. The machine should do nothing else meanwhile. Works in a clone of oncue's
    repository; the installed package leaves the benchmark out. HTTP needs uvicorn, too, with which
    it is compared; 'make bench' installs it.

    $ oncue bench --quick
    $ oncue bench
    $ oncue bench --only W2 --n 5000000
    """
    app.may_create = True  # it is not touched
    app.require_store()
    if not str(app.settings["store"].value).startswith("sqlite:"):
        raise click.UsageError("only SQLite stores can be measured: --store sqlite:///any.db")
    if not _found():
        raise click.ClickException(
            "the benchmark is not part of the installed package. Clone oncue's repository at "
            f"version {oncue.__version__} and run there: make bench"
        )
    from oncue_bench import terminal

    terminal.run(n, quick, only, as_json=app.as_json)


def _found() -> bool:
    """Whether the benchmark can be imported: in a clone it lies beside the package's folder."""
    clone = Path(oncue.__file__).parents[2] / "bench"
    if (clone / "oncue_bench").is_dir():
        sys.path.append(str(clone))
    return find_spec("oncue_bench") is not None
