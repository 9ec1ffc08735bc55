"""`oncue schedules apply`: schedules from a file, and what they change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import click
import msgspec

from oncue import timetable
from oncue.cli import output, runs
from oncue.cli.app import App, common, examples
from oncue.cli.place import require_file
from oncue.core.runs import Difference
from oncue.timetable import Change, Kind
from oncue.wire.converting import written
from oncue.wire.schedules import RunChanges

_KINDS = {Kind.NEW: "green", Kind.CHANGED: "yellow", Kind.UNCHANGED: "bright_black"}
_PAYLOAD_SHOWN = 100  # characters


@click.command(
    help=examples(
        "oncue schedules apply schedules.json --dry-run",
        "oncue schedules apply schedules.json",
        "oncue schedules show NAME --json | jq '.cron = \"0 3 * * *\"' | oncue schedules apply -",
    )
    + f"""

Create schedules, or replace those that have these names. FILE is JSON: one schedule, a list, or
{{"schedules": […]}}. A schedule has {", ".join(timetable.MEMBERS[:-1])} and
{timetable.MEMBERS[-1]}; name, and either cron or every_seconds, must be there. All are checked
before any is stored. Prints what changes; with --dry-run also which of the coming runs. Schedules
of other names stay."""
)
@click.argument("file", type=click.File("rb"))
@click.option("--dry-run", "-n", is_flag=True, help="Say what would change, change nothing.")
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Coming runs that --dry-run compares.",
)
@common
@click.pass_obj
def apply(app: App, file: BinaryIO, dry_run: bool, count: int) -> None:
    source = "standard input" if file is sys.stdin.buffer else file.name
    entries = timetable.read(file.read(), source)
    if dry_run:
        require_file(app)
    changes = timetable.compare(app.cue, entries)
    differences = [
        timetable.preview(app.cue, change, count)
        if dry_run and change.kind is not Kind.UNCHANGED
        else None
        for change in changes
    ]
    if not dry_run:
        timetable.apply(app.cue, changes)
    if app.as_json:
        items = [_members(*one) for one in zip(changes, differences, strict=True)]
        output.document({"dry_run": dry_run, "items": items})
    else:
        _tell(changes, differences, dry_run)


def _tell(
    changes: Sequence[Change], differences: Sequence[Difference | None], dry_run: bool
) -> None:
    if dry_run:
        output.note("Nothing was changed; this is what would be:")
    for change, difference in zip(changes, differences, strict=True):
        kind = output.paint(f"{change.kind:<9}", _KINDS[change.kind])
        click.echo(f"{kind}  {change.entry.schedule.name}")
        for text in _altered(change):
            click.echo(output.paint(f"  {output.clean(text)}", _KINDS[change.kind]))
        if difference is not None:
            for line in runs.changed_lines(difference, change.after.timezone):
                click.echo(f"  {line}")
    counts = Counter(change.kind for change in changes)
    click.echo(", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]))


def _members(change: Change, difference: Difference | None) -> dict[str, Any]:
    changed = {name: {"from": old, "to": new} for name, (old, new) in change.members.items()}
    told: dict[str, Any] = {
        "name": change.entry.schedule.name,
        "change": change.kind,
        "changed": changed,
    }
    if difference is not None:
        told["runs"] = written(RunChanges, difference)
    return told


def _altered(change: Change) -> Iterator[str]:
    for name, (old, new) in change.members.items():
        if change.before is None:
            yield f"+ {name} {_json(new)}"
        else:
            yield f"~ {name} {_json(old)} → {_json(new)}"


def _json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _PAYLOAD_SHOWN else text[:_PAYLOAD_SHOWN] + "…"
