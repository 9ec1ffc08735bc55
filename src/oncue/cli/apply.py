"""`oncue rules apply` and `oncue schedules apply`: from a file, with what they change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import click
import msgspec

from oncue.cli import output, rule_windows, runs
from oncue.cli.app import App, common
from oncue.cli.nouns import WOULD_CHANGE, dry_run_option
from oncue.core.rule import Dependency, Rule
from oncue.core.runs import Difference
from oncue.core.schedule import Schedule
from oncue.transfer import declared
from oncue.transfer.declared import RULES, SCHEDULES, Declared, Kind, Noun, T
from oncue.wire.converting import written
from oncue.wire.schedules import RunChanges

_KINDS = {Kind.NEW: "green", Kind.CHANGED: "yellow", Kind.UNCHANGED: "bright_black"}
_VALUE_SHOWN = 100  # characters


@click.command()
@click.argument("file", type=click.File("rb"))
@dry_run_option("change")
@common
def rules(app: App, file: BinaryIO, dry_run: bool) -> None:
    """Create rules, or change those that have these names. FILE is JSON: one rule, a list, or
    {"rules": […]}. A rule has name, dependencies, enabled, queue and payload; the first two must be
    there. All are checked before any is stored. Prints what changes. Rules of other names stay.

    $ oncue rules apply rules.json --dry-run
    $ oncue rules apply rules.json
    $ oncue rules show NAME --json | jq '.enabled = false' | oncue rules apply -
    """
    changes = _changes(app, RULES, file, dry_run)
    if not dry_run:
        declared.apply(app.cue, changes)
    _tell(app, changes, dry_run, {})


@click.command()
@click.argument("file", type=click.File("rb"))
@dry_run_option("change")
@click.option(
    "--count", type=click.IntRange(1, 1000), default=10, help="Coming runs that --dry-run compares."
)
@common
def schedules(app: App, file: BinaryIO, dry_run: bool, count: int) -> None:
    """Create schedules, or replace those that have these names. FILE is JSON: one schedule, a list,
    or {"schedules": […]}. A schedule has name, cron, every_seconds, timezone, queue, payload,
    owner, emits, catch_up, overlap and paused; name, and either cron or every_seconds, must be
    there. All are checked before any is stored. Prints what changes; with --dry-run also which of
    the coming runs. Schedules of other names stay.

    $ oncue schedules apply schedules.json --dry-run
    $ oncue schedules apply schedules.json
    $ oncue schedules show NAME --json | jq '.cron = "0 3 * * *"' | oncue schedules apply -
    """
    changes = _changes(app, SCHEDULES, file, dry_run)
    runs_changed: dict[str, Difference] = {}
    if dry_run:
        differing = (change for change in changes if change.kind is not Kind.UNCHANGED)
        runs_changed = {one.name: _preview(app, one, count) for one in differing}
    else:
        declared.apply(app.cue, changes)
    _tell(app, changes, dry_run, runs_changed)


def _preview(app: App, one: Declared[Schedule], count: int) -> Difference:
    timed = {name: value for name, value in one.written.items() if name != "paused"}
    return app.cue.preview_schedule(one.name, count=count, **timed)


def _changes(app: App, noun: Noun[T], file: BinaryIO, dry_run: bool) -> list[Declared[T]]:
    app.may_create = not dry_run
    source = "standard input" if file is sys.stdin.buffer else file.name
    found = declared.read(noun, file.read(), source)
    if dry_run and app.is_missing:
        return found
    return declared.compare(app.cue, found)


def _tell(
    app: App, changes: Sequence[Declared[T]], dry_run: bool, runs_changed: Mapping[str, Difference]
) -> None:
    """`runs_changed` are the coming runs of schedules that would be others."""
    if app.as_json:
        items = [_as_json(change, runs_changed.get(change.name)) for change in changes]
        output.document({"dry_run": dry_run, "items": items})
        return
    if dry_run:
        output.note(WOULD_CHANGE)
    for change in changes:
        kind = output.paint(f"{change.kind:<9}", _KINDS[change.kind])
        click.echo(f"{kind}  {output.clean(change.name)}")
        for line in _lines(change, runs_changed.get(change.name)):
            click.echo(line)
    counts = Counter(change.kind for change in changes)
    click.echo(", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]))


def _as_json(change: Declared[T], difference: Difference | None) -> dict[str, Any]:
    changed = {name: {"from": old, "to": new} for name, (old, new) in change.changes.items()}
    if isinstance(change.value, Rule) and change.before is None:  # all fields, from null
        values = change.noun.values(change.value)
        changed = {name: {"from": None, "to": value} for name, value in values.items()}
    shown = {"name": change.name, "change": change.kind, "changed": changed}
    return shown if difference is None else shown | {"runs": written(RunChanges, difference)}


def _lines(change: Declared[T], difference: Difference | None) -> Iterator[str]:
    if isinstance(change.value, Rule):
        before = change.before
        yield from _dependencies(() if before is None else before.dependencies, change.value)
    for name, (old, new) in change.changes.items():
        if name == "dependencies":
            continue
        if change.before is None:
            yield _signed("+", f"{name} {_json(new)}")
        else:
            yield _signed("~", f"{name} {_json(old)} → {_json(new)}")
    if isinstance(change.value, Schedule) and difference is not None:
        yield from (f"  {line}" for line in runs.changed_lines(difference, change.value.timezone))


def _dependencies(before: Iterable[Dependency], rule: Rule) -> Iterator[str]:
    old = {one.identity: one for one in before}
    new = {one.identity: one for one in rule.dependencies}
    for identity, one in new.items():
        name, life = f"{one.type} {one.resource}", rule_windows.life(one.life_seconds)
        if identity not in old:
            yield _signed("+", f"{name}, valid for {life}")
        elif old[identity] != one:
            was = rule_windows.life(old[identity].life_seconds)
            yield _signed("~", f"{name}, valid for {was} → {life}")
    for identity, one in old.items():
        if identity not in new:
            yield _signed("-", f"{one.type} {one.resource}")
    if old.keys() == new.keys() and list(old) != list(new):
        yield _signed("~", "the order of the dependencies")


def _signed(sign: str, text: str) -> str:
    return output.paint(f"  {sign} {output.clean(text)}", runs.SIGNS[sign])


def _json(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_SHOWN else text[:_VALUE_SHOWN] + "…"
