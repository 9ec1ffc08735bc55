"""`oncue aws simulate`: a deployment on an emulator, in fast motion."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from oncue.aws.prices import PRICES
from oncue.cli import amounts, output
from oncue.cli.app import App, Finite, storeless
from oncue.cli.cost import money, payload_bytes, priced_region
from oncue.cli.failures import EXIT_FAILED
from oncue.cli.progress import ProgressBar, counted
from oncue.clock import SystemClock

if TYPE_CHECKING:
    from oncue.aws.simulation import Simulation

MOST_JOBS = 100_000
MOST_MINUTES = 1440
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "simulation", "AWS_SECRET_ACCESS_KEY": "simulation"}
NO_EMULATOR = (
    "a simulation needs an emulator of DynamoDB and SQS. Start one (pip install ministack, in "
    "an environment of its own; ministack), and give its URL: --endpoint http://127.0.0.1:4566"
)


@click.command()
@click.option("--endpoint", metavar="URL", help="The emulator: of DynamoDB, or of both services.")
@click.option("--sqs-endpoint", metavar="URL", help="The emulator of SQS, if it is another one.")
@click.option(
    "--jobs", type=amounts.jobs(MOST_JOBS), metavar="N", default=1000, help="Jobs: 500, 10k."
)
@click.option(
    "--minutes",
    type=click.IntRange(1, MOST_MINUTES),
    metavar="N",
    default=10,
    help="Over how many minutes their due times are spread.",
)
@click.option(
    "--ahead",
    "ahead_seconds",
    type=Finite(0, 86_400),
    metavar="SECONDS",
    help="How long before its due time a job is stored.  [default: all at the beginning]",
)
@payload_bytes
@click.option(
    "--keep/--no-keep", "keeps_history", default=True, help="Whether ended jobs are kept."
)
@click.option("--shards", type=click.IntRange(1, 50), metavar="N", default=4, help="Of the queue.")
@priced_region
@storeless
def simulate(
    app: App, endpoint: str | None, sqs_endpoint: str | None, region: str, **options: Any
) -> None:
    """Simulate a deployment on an emulator, with its minutes in fast motion. The table, the queue
    and the dispatch function are real. It prints how late jobs arrive, as the receiver sees it,
    and what they cost: the units of this run, counted by the rules of AWS, by the prices of 'oncue
    cost'. The emulator gets a table and a queue of random names, which are removed at the end.

    Time is simulated: how long the functions run is not part of the lateness. With --ahead below
    60, jobs are stored after the tick that could have sent them on time, and wait for the next.

    $ oncue aws simulate --endpoint http://127.0.0.1:4566
    $ oncue aws simulate --endpoint http://127.0.0.1:8000 --sqs-endpoint http://127.0.0.1:4566
    $ oncue aws simulate --endpoint http://127.0.0.1:4566 --jobs 10k --ahead 5 --no-keep
    """
    if endpoint is None:
        raise click.UsageError(NO_EMULATOR)
    from oncue.aws import simulation

    os.environ.update(CREDENTIALS)  # an emulator takes any, and yours stay here
    simulated = simulation.Simulated(**options)
    with ProgressBar("minutes", simulated.ticks) as bar:
        start = SystemClock().now()
        found = simulation.simulate(
            simulated, endpoint, sqs_endpoint or endpoint, start, bar.update
        )
    if app.as_json:
        output.document(_document(found, region))
    else:
        _show(found, region)
    if found.lost:
        raise click.exceptions.Exit(EXIT_FAILED)


def _show(found: Simulation, region: str) -> None:
    asked = found.simulated
    click.echo(
        f"{counted(asked.jobs, 'job')} due within {counted(asked.minutes, 'minute')}, "
        f"{asked.ticks} ticks: {len(found.arrivals):,} sent, {found.doubled:,} of them again, "
        f"{found.lost:,} lost."
    )
    click.echo()
    lines = [[name, _seconds(late)] for name, late in _lateness_ms(found).items()]
    output.table(["lateness", ""], lines, right=[1])
    click.echo()
    writes, reads = found.job_units
    output.table(
        ["each job", ""],
        [["write units", f"{writes:.2f}"], ["read units", f"{reads:.2f}"]],
        right=[1],
    )
    click.echo()
    _prices("a million jobs", found.million_jobs(PRICES[region]))
    click.echo()
    _prices("a month of ticks", found.idle_month(PRICES[region]))
    output.note(f"Prices of {region}. Storage, recovery, logs and alarms are left out.")


def _prices(title: str, dollars: dict[str, float]) -> None:
    lines = [[name, money(amount)] for name, amount in dollars.items() if amount]
    output.table([title, ""], [*lines, ["in all", money(sum(dollars.values()))]], right=[1])


def _lateness_ms(found: Simulation) -> dict[str, int | None]:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: found.quantile_ms(share) for name, share in shares.items()}


def _seconds(milliseconds: int | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds / 1000:.3f} s"


def _document(found: Simulation, region: str) -> dict[str, Any]:
    writes, reads = found.job_units
    return {
        "load": found.simulated,
        "ticks": found.simulated.ticks,
        "sent": len(found.arrivals),
        "doubled": found.doubled,
        "lost": found.lost,
        "lateness_ms": _lateness_ms(found),
        "units_per_job": {"writes": round(writes, 4), "reads": round(reads, 4)},
        "units_per_idle_tick": {"writes": found.idle.writes, "reads": found.idle.reads},
        "region": region,
        "currency": "USD",
        "dollars_per_million_jobs": _rounded(found.million_jobs(PRICES[region])),
        "dollars_per_month_of_ticks": _rounded(found.idle_month(PRICES[region])),
    }


def _rounded(dollars: dict[str, float]) -> dict[str, float]:
    names = {name.lower().replace(" ", "_"): amount for name, amount in dollars.items()}
    return {name: round(amount, 4) for name, amount in names.items()}
