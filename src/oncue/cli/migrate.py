"""`oncue migrate`: make a store ready for this version of oncue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from oncue import __version__
from oncue.cli import output
from oncue.cli.app import App, store_only
from oncue.cli.nouns import dry_run_option

if TYPE_CHECKING:
    from oncue.stores.migration import Migration


@click.command()
@click.option(
    "--point-in-time-recovery",
    "recovery",
    is_flag=True,
    help="DynamoDB: keep backups of every second of the last 35 days, which AWS charges for.",
)
@dry_run_option("be done")
@store_only
def migrate(app: App, recovery: bool, dry_run: bool) -> None:
    """Make the store ready for this version of oncue. For DynamoDB it creates the table, on demand,
    with its index and its time to live, or adds what a table lacks, and waits until it can be used.
    Nothing that a table has is changed. An SQLite file is created, or its schema migrated; so is a
    schema of PostgreSQL. Every command that opens one of these does so too, unless the URL has
    migrate=no. With --dry-run, the SQL for PostgreSQL goes to standard output. Can be repeated.

    $ oncue migrate --store 'dynamodb://jobs?region=eu-central-1' --point-in-time-recovery
    $ oncue migrate --store sqlite:///jobs.db --dry-run
    $ oncue migrate --store postgresql://oncue@db.example.com/jobs --dry-run > schema.sql
    """
    from oncue.stores.migration import migration

    app.may_create = True
    app.require_store()
    with migration(app.place, recovery=recovery) as found:
        # What a person would do by hand is the answer, and can be piped; words are beside it.
        say = output.note if dry_run and found.in_sql else click.echo
        for step in found.steps:
            if not app.as_json:
                say(f"Would {step.text}." if dry_run else f"Now: {step.text} …")
            if not dry_run:
                step.apply()
        if app.as_json:
            output.document(_document(app, found, dry_run))
        else:
            say(_summary(found, dry_run))
            if dry_run and found.in_sql:
                click.echo(_script(found), nl=False)


def _summary(found: Migration, dry_run: bool) -> str:
    if found.steps and dry_run:
        return "Nothing was changed."
    ready = f"{found.place} has schema {found.schema}."
    if found.known is not None:
        ready += (
            f" This oncue {__version__} knows schema {found.known}, and can use it as it is; to "
            "use what is new in it, upgrade oncue here."
        )
    return ready if found.steps else f"{ready} Nothing was changed."


def _document(app: App, found: Migration, dry_run: bool) -> dict[str, object]:
    return {
        "store": app.shown_place,
        "dry_run": dry_run,
        "schema": found.schema,
        **({} if found.known is None else {"known_schema": found.known}),
        "steps": [step.text for step in found.steps],
        **({"sql": _script(found)} if found.in_sql else {}),
    }


def _script(found: Migration) -> str:
    """SQL for psql that does all or nothing; empty if nothing is to be done."""
    if not found.steps:
        return ""
    parts = [f"-- oncue {__version__}: {step.text}.\n{step.sql}" for step in found.steps]
    return "\n".join(["BEGIN;", *parts, "COMMIT;\n"])
