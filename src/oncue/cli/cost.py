"""`oncue cost`: what a load costs on AWS in a month, beside the alternatives."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import click

from oncue.aws.assumptions import assumptions, cautions
from oncue.aws.cost import DAYS, Bill, Dispatch, Workload, bills
from oncue.aws.prices import LOOKED_UP, MILLION, PRICES, Price, PriceList
from oncue.cli import amounts, output
from oncue.cli.app import App, Finite, storeless
from oncue.core.payload import LIMIT_BYTES
from oncue.core.shard import MOST_SHARDS

MOST_JOBS = 10**11
LONGEST_BAR, SHORTEST_BAR = 20, 8  # columns
DAYS_RANGE = Finite(0, 36_500)
ONLY_PULLED = {"heartbeats": "sinks send none", "workers": "sinks need none"}

# Of `oncue aws simulate`, too.
payload_bytes = click.option(
    "--payload-bytes",
    type=amounts.size(LIMIT_BYTES),
    metavar="N",
    default=500,
    help="Size of a payload: 500, 2KB.",
)
priced_region = click.option(
    "--region", type=click.Choice(list(PRICES)), default=next(iter(PRICES)), help="Of the prices."
)


@click.command()
@click.option(
    "--jobs-per-day",
    type=amounts.jobs(MOST_JOBS),
    metavar="N",
    required=True,
    help="Jobs a day: 250000, 100k, 1M.",
)
@payload_bytes
@click.option(
    "--keep-days", type=DAYS_RANGE, metavar="N", default=7, help="How long ended jobs are kept."
)
@click.option("--wait-days", type=DAYS_RANGE, metavar="N", default=1, help="How long a job waits.")
@click.option(
    "--queues", type=click.IntRange(1, 100_000), metavar="N", default=1, help="Queues in use."
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    metavar="N",
    default=4,
    help="Shards of each queue.",
)
@click.option(
    "--priorities", type=click.IntRange(1, 10), metavar="N", default=1, help="Priorities in use."
)
@click.option(
    "--idempotency-key",
    "idempotent",
    is_flag=True,
    help="Jobs have an Idempotency-Key or an id of your choice.",
)
@click.option(
    "--key", "keyed", is_flag=True, help="Jobs have a key: at most one unfinished of each."
)
@click.option("--pulled", is_flag=True, help="Workers pull the jobs; there is no SQS queue.")
@click.option("--heartbeats", type=Finite(0, 1_000_000), metavar="N", help="Of each pulled job.")
@click.option(
    "--workers", type=click.IntRange(1, 100_000), metavar="N", help="Processes that pull jobs."
)
@click.option(
    "--dispatch",
    type=click.Choice([one.value for one in Dispatch]),
    help="Who sends to SQS: every minute or every second.  [default: lambda]",
)
@click.option("--recovery", is_flag=True, help="The table has point-in-time recovery.")
@click.option("--free-tier", is_flag=True, help="Take off what is free in every month.")
@priced_region
@storeless
def cost(app: App, region: str, free_tier: bool, **options: Any) -> None:
    """Estimate what a load costs on AWS in a month. DynamoDB, SQS and Lambda, beside EventBridge
    Scheduler, waits of Step Functions, and a PostgreSQL server on RDS. The prices are part of oncue
    and have a date: nothing is asked of AWS, and no store is needed. What is assumed is printed
    below the figures.

    $ oncue cost --jobs-per-day 1M
    $ oncue cost --jobs-per-day 100k --payload-bytes 2KB --keep-days 0 --region eu-central-1
    $ oncue cost --jobs-per-day 50k --pulled --heartbeats 2 --json
    """
    load = _workload(options)
    found = bills(load, PRICES[region], free_tier=free_tier)
    assumed = assumptions(load, region, free_tier=free_tier)
    if app.as_json:
        _document(load, region, free_tier, found, assumed)
    else:
        _show(load, region, found, assumed)


def _workload(options: dict[str, Any]) -> Workload:
    """Refuses options that contradict each other."""
    given = {name: value for name, value in options.items() if value is not None}
    for name, why in ONLY_PULLED.items():
        if name in given and not given["pulled"]:
            raise click.UsageError(f"--{name} goes with --pulled: {why}.")
    if given["pulled"] and "dispatch" in given:
        raise click.UsageError("--dispatch is about sinks: leave it out, or leave out --pulled.")
    if "dispatch" in given:
        given["dispatch"] = Dispatch(given["dispatch"])
    return Workload(**given)


def _show(load: Workload, region: str, found: list[Bill], assumed: list[str]) -> None:
    ours = found[0]
    _say(
        f"{load.jobs_per_day:,} jobs a day, {load.jobs:,} a month, in {region}. {ours.title}: "
        f"{money(ours.dollars)} a month, {_per_million(ours, load)} per million jobs."
    )
    for text in cautions(load):
        _say(f"{output.paint('Warning', 'yellow')}: {text}")
    click.echo()
    _compare(load, found)
    click.echo()
    _parts(found)
    click.echo()
    for text in assumed:
        _say(f"- {text}", "  ")


def _compare(load: Workload, found: list[Bill]) -> None:
    most = max(bill.dollars for bill in found)
    head = ["", "a month", "per million jobs"]
    lines = [[bill.title, money(bill.dollars), _per_million(bill, load)] for bill in found]
    room = min(LONGEST_BAR, _room(head, lines))
    if room >= SHORTEST_BAR:
        head.append("")
        for bill, line in zip(found, lines, strict=True):
            line.append(output.bar(bill.dollars / most if most else 0, room))
    _fitting(head, lines)


def _parts(found: list[Bill]) -> None:
    """What the first bill is made of, in a table, and the others, in a line each."""
    lines = [
        [
            part.name,
            money(part.dollars),
            f"{_count(part.quantity)} {part.price.unit}",
            _price(part.price),
        ]
        for part in found[0].parts
    ]
    _fitting([found[0].title, "a month", "quantity", "price"], lines)
    click.echo()
    for bill in found[1:]:
        parts = ", ".join(f"{part.name} {money(part.dollars)}" for part in bill.parts)
        _say(f"{bill.title}: {parts}", "  ")


def _room(head: output.Cells, lines: list[list[str]]) -> int:
    """Columns of the terminal beside a table; negative if it is too wide."""
    width = output.table_width()
    if width is None:
        return LONGEST_BAR
    return width - 2 - max(map(output.breadth, output.columned(head, lines)))


def _fitting(head: list[str], lines: list[list[str]]) -> None:
    """Print the table, without its last columns where the terminal is too narrow for them."""
    columns = len(head)
    while columns > 2 and _room(head[:columns], [line[:columns] for line in lines]) < -2:
        columns -= 1
    output.table(
        head[:columns], [line[:columns] for line in lines], right=range(1, min(3, columns))
    )


def _price(price: Price) -> str:
    """$0.625 per million write units."""
    per = {1: _one(price.unit), MILLION: f"million {price.unit}"}
    whole, _, cents = f"{price.dollars:.10f}".partition(".")
    digits = cents.rstrip("0").ljust(2, "0")
    return f"${whole}.{digits} per {per.get(price.per, f'{price.per:,} {price.unit}')}"


def _say(text: str, indent: str = "") -> None:
    """A paragraph, in lines that a terminal does not break within a word."""
    width = output.table_width()
    click.echo(textwrap.fill(text, width, subsequent_indent=indent) if width else text)


def money(dollars: float) -> str:
    """In dollars and cents. A small amount is not shown as $0.00."""
    if 0 < dollars < 0.005:
        return "< $0.01"
    return f"${dollars:,.2f}"


def _per_million(bill: Bill, load: Workload) -> str:
    return money(bill.dollars / load.jobs * MILLION)


def _count(number: float) -> str:
    """1,234 or 12.3 M: three digits are enough for an estimate."""
    for factor, suffix in ((MILLION, " M"), (1, "")):
        if number >= factor:
            value = number / factor
            return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + suffix
    return f"{number:.2g}"


def _one(unit: str) -> str:
    return unit.removesuffix("s")


def _document(
    load: Workload, region: str, free_tier: bool, found: list[Bill], assumed: Sequence[str]
) -> None:
    prices = PRICES[region]
    output.document(
        {
            "region": region,
            "currency": "USD",
            "prices_looked_up": LOOKED_UP,
            "free_tier": free_tier,
            "month_days": DAYS,
            "load": load,
            "jobs_per_month": load.jobs,
            "units_per_job": {"writes": load.life.writes, "reads": load.life.reads},
            "alternatives": [_bill_document(bill, load, prices) for bill in found],
            "prices": prices,
            "warnings": cautions(load),
            "assumptions": assumed,
        }
    )


def _bill_document(bill: Bill, load: Workload, prices: PriceList) -> dict[str, Any]:
    names = {id(price): name for name, price in prices.items()}
    return {
        "name": bill.name,
        "title": bill.title,
        "dollars_per_month": round(bill.dollars, 4),
        "dollars_per_million_jobs": round(bill.dollars / load.jobs * MILLION, 4),
        "parts": [
            {
                "name": part.name,
                "quantity": round(part.quantity, 4),
                "unit": part.price.unit,
                "price": names[id(part.price)],
                "dollars_per_month": round(part.dollars, 4),
            }
            for part in bill.parts
        ],
    }
