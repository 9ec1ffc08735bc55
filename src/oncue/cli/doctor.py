"""`oncue doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from oncue.cli import findings, output, server, server_findings
from oncue.cli.app import EXIT_FAILED, App, Cue, common
from oncue.cli.findings import Finding
from oncue.cli.progress import counted
from oncue.core.errors import OncueError

if TYPE_CHECKING:
    from oncue.scheduler import Scheduler

Looks = dict[str, Callable[[], Iterator[Finding]]]
MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}


@click.command()
@common
def doctor(app: App) -> None:
    """Check the installation, and say what to do about problems. Looks at the store, its disk and
    its durability, at the clock, and at work that waits for somebody. With --url it looks at the
    server instead: whether it can be reached and is ready, what the token allows, how its clock
    goes. The exit code is 1 if anything is bad; warnings leave it 0.

    $ oncue doctor
    $ oncue doctor --json
    """
    facts, found = examine(app) if app.url is None else examine_server(app)
    bad = sum(one.level == "bad" for one in found)
    if app.as_json:
        output.document(
            {
                "ok": bad == 0,
                "store" if app.url is None else "server": {"url": app.place, **facts},
                "findings": [one.fields() for one in found],
            }
        )
    else:
        _show(found)
    if bad:
        raise click.exceptions.Exit(EXIT_FAILED)


def examine(app: App) -> tuple[dict[str, Any], list[Finding]]:
    """The facts about the store, and everything that was looked at."""
    from oncue.cli.sqlite_findings import deleted

    path = app.file
    if path is not None and not path.exists():
        return {}, [findings.bad("store", app.missing_text(), ""), *deleted(path)]
    try:
        cue = app.scheduler
        facts = dict(cue.store.describe().details)
    except OncueError as error:
        # Its text has the next step in it.
        found = [findings.bad("store", str(error), "")]
        return {}, found if path is None else [*found, *findings.disk(path), *deleted(path)]
    looked = list(_all(cue, facts))
    if path is not None:
        facts["path"] = str(path.absolute())
    return facts, looked


def examine_server(app: App) -> tuple[dict[str, Any], list[Finding]]:
    """The same, from another machine."""
    client = server.client(app.settings)
    try:
        facts, found = server_findings.server_facts(client)
        if any(one.level == "bad" for one in found):
            return facts, found
        looks = {"clock": partial(findings.clock, client.clock)} | _waiting(client)
        return facts, [*found, *_each(looks)]
    finally:
        client.close()


def _all(cue: Scheduler, facts: dict[str, Any]) -> Iterator[Finding]:
    yield findings.store(facts)
    yield from _each(_looks(cue, facts))


def _each(looks: Looks) -> Iterator[Finding]:
    for name, look in looks.items():
        try:
            yield from look()
        except OncueError as error:
            yield findings.bad(name, str(error), "")


def _looks(cue: Scheduler, facts: dict[str, Any]) -> Looks:
    looks: Looks = {}
    if facts["kind"] == "sqlite":
        from oncue.cli.sqlite_findings import sqlite

        looks["file"] = partial(sqlite, cue, facts)
    return looks | {
        "clock": partial(findings.clock, cue.clock),
        "claims": partial(findings.claims, cue),
        **_waiting(cue),
        "sinks": partial(findings.sinks, cue),
    }


def _waiting(cue: Cue) -> Looks:
    """At work that waits for somebody, wherever it is."""
    return {
        "lateness": partial(findings.lateness, cue),
        "paused queues": partial(findings.paused, cue),
    }


def _show(found: list[Finding]) -> None:
    for one in found:
        mark, colour = MARKS[one.level]
        click.echo(f"{output.paint(mark, colour)} {output.paint(one.name, bold=True)}: {one.text}")
        if one.todo:
            click.echo(f"    → {one.todo}")
    levels = [one.level for one in found]
    errors, warnings = levels.count("bad"), levels.count("warn")
    told = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
    click.echo(f"\n{counted(len(found), 'check')}: {told}.")
