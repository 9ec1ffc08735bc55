"""`oncue rules apply`: rules from a file, and what they change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import click
import msgspec

from oncue import rulebook
from oncue.cli import output, windows
from oncue.cli.app import App, common, examples
from oncue.cli.place import is_missing
from oncue.core.rule import Rule
from oncue.rulebook import Change, Kind

_SIGNS = {"+": "green", "-": "red", "~": "yellow"}
_KINDS = {Kind.NEW: "green", Kind.CHANGED: "yellow", Kind.UNCHANGED: "bright_black"}


@click.command(
    help=examples(
        "oncue rules apply rules.json --dry-run",
        "oncue rules apply rules.json",
        "oncue rules show NAME --json | jq '.enabled = false' | oncue rules apply -",
    )
    + f"""

Create rules, or change those that have these names. FILE is JSON: one rule, a list, or {{"rules":
[…]}}. A rule has {", ".join(rulebook.MEMBERS[:-1])} and {rulebook.MEMBERS[-1]}; the first two must
be there. All are checked before any is stored. Prints what changes. Rules of other names stay."""
)
@click.argument("file", type=click.File("rb"))
@click.option("--dry-run", "-n", is_flag=True, help="Say what would change, change nothing.")
@common
@click.pass_obj
def apply(app: App, file: BinaryIO, dry_run: bool) -> None:
    source = "standard input" if file is sys.stdin.buffer else file.name
    rules = rulebook.read(file.read(), source)
    if dry_run and is_missing(app):  # looking would make the file
        changes = [Change(rule, None) for rule in rules]
    else:
        changes = rulebook.compare(app.cue, rules)
    if not dry_run:
        rulebook.apply(app.cue, changes)
    if app.as_json:
        items = [_members(change) for change in changes]
        output.document({"dry_run": dry_run, "items": items})
        return
    if dry_run:
        output.note("Nothing was changed; this is what would be:")
    for change in changes:
        kind = output.paint(f"{change.kind:<9}", _KINDS[change.kind])
        click.echo(f"{kind}  {output.clean(change.rule.name)}")
        for sign, text in _difference(change):
            click.echo(output.paint(f"  {sign} {output.clean(text)}", _SIGNS[sign]))
    counts = Counter(change.kind for change in changes)
    click.echo(", ".join(f"{counts[kind]} {kind}" for kind in Kind if counts[kind]))


def _members(change: Change) -> dict[str, Any]:
    changed = {name: {"from": old, "to": new} for name, (old, new) in change.members.items()}
    return {"name": change.rule.name, "change": change.kind, "changed": changed}


def _difference(change: Change) -> Iterator[tuple[str, str]]:
    """What is added, taken away or altered, in the words of `show`."""
    before, rule = change.before, change.rule
    yield from _dependencies(before, rule)
    for name, (old, new) in change.members.items():
        if name == "dependencies":
            continue
        if before is None and new != _DEFAULTS[name]:
            yield "+", f"{name} {_json(new)}"
        elif before is not None:
            yield "~", f"{name} {_json(old)} → {_json(new)}"


_DEFAULTS = Rule("", ()).as_dict()


def _dependencies(before: Rule | None, rule: Rule) -> Iterator[tuple[str, str]]:
    old = {one.identity: one for one in (before.dependencies if before is not None else ())}
    new = {one.identity: one for one in rule.dependencies}
    for identity, one in new.items():
        name, life = f"{one.type} {one.resource}", windows.life(one.life_seconds)
        if identity not in old:
            yield "+", f"{name}, valid for {life}"
        elif old[identity] != one:
            yield "~", f"{name}, valid for {windows.life(old[identity].life_seconds)} → {life}"
    for identity, one in old.items():
        if identity not in new:
            yield "-", f"{one.type} {one.resource}"
    if old.keys() == new.keys() and list(old) != list(new):
        yield "~", "the order of the dependencies"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
