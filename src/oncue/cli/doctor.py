"""`oncue doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import click

from oncue.cli import findings, output, server, server_findings
from oncue.cli.app import App, Cue, common
from oncue.cli.failures import EXIT_FAILED, sentence
from oncue.cli.findings import Checks, DoctorFinding, bad, checked, ok
from oncue.cli.progress import counted
from oncue.core.errors import OncueError

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}


@click.command()
@click.option(
    "--quota",
    is_flag=True,
    help="DynamoDB: compare the write quota of the account with what is due ahead.",
)
@common
def doctor(app: App, quota: bool) -> None:
    """Check the installation, and say what to do about problems. Looks at the store, its disk and
    its durability, at the clock, at the processes that run, and at work and schedules that wait; of
    DynamoDB at the table, its index, its time to live, and at shards that have too much to do; of
    PostgreSQL at the server's version and durability, the rights of the role, indexes, connections,
    and at what holds back vacuum.
    Also at who can read a password in oncue.toml.
    With --url it looks at the server instead: whether it can be reached and is ready, what the
    token allows, its clock, and what runs and waits there. The exit code is 1 if there are errors;
    warnings do not change it.

    $ oncue doctor
    $ oncue doctor --json
    $ oncue doctor --store 'dynamodb://jobs?region=eu-central-1' --quota
    """
    if quota and app.url is not None:
        raise click.UsageError("--quota needs the store itself: give --store instead of --url.")
    facts, checks = _examine_store(app, quota) if app.url is None else _examine_server(app)
    checks = chain(checks, checked({"settings": findings.secrets()}))
    # One after the other: a check may have to wait for what an earlier one has found.
    found = [one if app.as_json else _shown(one) for one in checks]
    levels = [one.level for one in found]
    if app.as_json:
        output.document(
            {
                "ok": "bad" not in levels,
                "store" if app.url is None else "server": {"url": app.shown_place, **facts},
                "findings": [one._asdict() for one in found],
            }
        )
    else:
        errors, warnings = levels.count("bad"), levels.count("warn")
        summary = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        click.echo(f"\n{counted(len(found), 'check')}: {summary}.")
        if app.place_options and any("oncue " in one.todo for one in found):
            click.echo(_same_place(app.place_options[0], found))
    if "bad" in levels:
        raise click.exceptions.Exit(EXIT_FAILED)


def _same_place(option: str, found: Iterable[DoctorFinding]) -> str:
    """How the commands that were named get to the store or the server of this one."""
    text = f"Give commands that are named here the same {option}"
    if option == "--store" and any("oncue worker" in one.todo for one in found):
        return f"{text}, but not 'oncue worker': the Scheduler in its module names the store."
    return f"{text}."


def _shown(one: DoctorFinding) -> DoctorFinding:
    mark = output.paint(*MARKS[one.level])
    click.echo(f"{mark} {output.paint(one.name, bold=True)}: {one.text}")
    if one.todo:
        click.echo(f"    → {one.todo}")
    return one


def _examine_store(app: App, quota: bool) -> tuple[dict[str, Any], Iterable[DoctorFinding]]:
    """The facts about the store, and what every check finds."""
    from oncue.cli import sqlite_findings

    path = app.file
    try:
        cue = app.scheduler
        facts = dict(cue.store.describe().details)
    except OncueError as error:  # its text has the next step in it
        checks: Checks = {"store": [bad(sentence(error))]}
        if path is not None:
            checks |= {"disk space": findings.disk(path)} if path.exists() else {}
            checks |= {"open file": sqlite_findings.deleted(path)}
        return {}, checked(checks)
    checks = {"store": findings.store(facts)}
    if path is not None:
        checks |= sqlite_findings.checks(cue, facts, path)
    if facts["kind"] == "postgresql":
        from oncue.cli import postgresql_findings

        checks |= postgresql_findings.checks(cue)
    checks |= {"clock": findings.clock(cue.clock), "claims": findings.claims(cue)}
    checks |= _waiting(cue) | {"sinks": findings.sinks(cue)}
    if facts["kind"] == "dynamodb":
        from oncue.cli import dynamodb_findings

        checks |= dynamodb_findings.checks(app, quota=quota)
    if quota and facts["kind"] != "dynamodb":
        checks["quota"] = [ok("does not apply: only a DynamoDB table has one.")]
    return facts if path is None else facts | {"path": str(path.absolute())}, checked(checks)


def _examine_server(app: App) -> tuple[dict[str, Any], Iterable[DoctorFinding]]:
    """The same, from another machine."""
    with server.client(app.settings) as client:
        facts, found = server_findings.examine(client)
        if not any(one.level == "bad" for one in found):
            found += checked({"clock": findings.clock(client.clock)} | _waiting(client))
        return facts, found


def _waiting(cue: Cue) -> Checks:
    """Of work that waits, in a store or at a server."""
    return {
        "nodes": findings.nodes(cue),
        "schedules": findings.schedules(cue),
        "lateness": findings.lateness(cue),
        "paused queues": findings.paused(cue),
    }
