"""`oncue schedules next`: the coming runs, as the clock on the wall will show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.nouns import answer_list, ask_about
from oncue.cli.times import LENGTH
from oncue.clock import SystemClock
from oncue.core.cron import Mark
from oncue.core.runs import Difference, Run
from oncue.usecases.schedules import RUNS_LIMIT, runs_of
from oncue.wire import schedules as wire
from oncue.wire.converting import written

SIGNS = {"+": "green", "-": "red", "~": "yellow", " ": None}
"""Colours of what is new, gone, changed or the same."""


@click.command("next")
@click.argument("name", required=False)
@click.option("--count", type=click.IntRange(1, RUNS_LIMIT), default=20)
@click.option("--cron", metavar="TEXT", help="An expression of five fields, or six with seconds.")
@click.option("--every", "every_seconds", type=LENGTH, help="An interval: seconds, or 90s, 2h30m.")
@click.option("--timezone", metavar="ZONE", help="Such as Europe/Paris.  [default: as it is; UTC]")
@common
def next_(app: App, /, name: str | None, count: int, **given: Any) -> None:
    """Show the coming runs of a schedule, in its own time zone and in UTC. Those that a change of
    the clocks moves, leaves out or doubles are marked. Without NAME: of a cron expression or an
    interval, without storing it. With both, what such a change would do: - marks runs that would no
    longer happen, + new ones.

    $ oncue schedules next nightly --count 40
    $ oncue schedules next --cron '30 2 * * *' --timezone Europe/Paris
    $ oncue schedules next nightly --cron '30 3 * * *'
    """
    timing = {key: value for key, value in given.items() if value is not None}
    if timing.keys() >= {"cron", "every_seconds"}:
        raise click.UsageError("give either --cron or --every.")
    if name is None:  # neither a store nor a server is asked
        if not timing.keys() & {"cron", "every_seconds"}:
            raise click.UsageError("name a schedule, or give --cron or --every.")
        _show(app, runs_of(timing, SystemClock().now(), count), timing.get("timezone", "UTC"))
        return
    schedule = ask_about(app, "schedule", name, lambda cue: cue.schedule_named(name))
    if not timing:
        _show(app, app.cue.next_runs(name, count), schedule.timezone)
        if schedule.paused:
            output.note(f"Schedule {name} is paused; this is what will be once it is resumed.")
        return
    kept = {"cron": schedule.cron, "every_seconds": schedule.every_seconds}
    edit = {"timezone": schedule.timezone} | timing
    if not timing.keys() & kept.keys():
        edit |= kept
    found = app.cue.preview_schedule(name, count=count, **edit)
    if app.as_json:
        output.document(written(wire.RunChanges, found))
        return
    click.echo("\n".join(changed_lines(found, edit["timezone"])))


def changed_lines(found: Difference, timezone: str) -> list[str]:
    """All runs of both, in order of time, each with a sign."""
    by_sign = {"-": found.removed, "+": found.added, " ": found.kept}
    signed = [(sign, run) for sign, runs in by_sign.items() for run in runs]
    if not signed:
        return ["  No runs, neither before nor after."]
    signed.sort(key=lambda one: one[1].at)
    head, *lines = output.columned(
        ["", timezone, "UTC", ""],
        [[sign, *_cells(run)] for sign, run in signed],
        width=output.table_width(),
    )
    pairs = zip(lines, signed, strict=True)
    return [head, *(output.paint(line, SIGNS[sign]) for line, (sign, _) in pairs)]


def _show(app: App, found: Sequence[Run], timezone: str) -> None:
    items = [wire.Run.of(run) for run in found]
    document = {"timezone": timezone, "items": items, "next_cursor": None}
    lines = [_cells(run) for run in found]
    answer_list(app, document, [timezone, "UTC", ""], lines, "There is none.")


def _cells(run: Run) -> list[str]:
    told = f"{run.mark}: {run.note}" if run.note else ""
    return [
        _written(run.local, f"{run.local:%a} "),
        _written(run.at.replace(tzinfo=None)),
        told if run.mark is Mark.NORMAL else output.paint(told, "yellow"),
    ]


def _written(when: datetime, day: str = "") -> str:
    fine = "milliseconds" if when.microsecond else "seconds"
    return day + when.isoformat(" ", fine)
