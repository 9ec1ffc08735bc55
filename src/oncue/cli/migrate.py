"""`oncue migrate`: make a store ready for this version of oncue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
    Nothing that a table has is changed. An SQLite file is created, or its schema migrated; every
    command that opens the file does so too. Can be repeated.

    $ oncue migrate --store 'dynamodb://jobs?region=eu-central-1' --point-in-time-recovery
    $ oncue migrate --store sqlite:///jobs.db --dry-run
    """
    from oncue.stores.migration import migration

    app.may_create = True
    app.require_store()
    with migration(app.place, recovery=recovery) as found:
        for step in found.steps:
            if not app.as_json:
                click.echo(f"Would {step.text}." if dry_run else f"Now: {step.text} …")
            if not dry_run:
                step.apply()
        if app.as_json:
            output.document(_document(app, found, dry_run))
        else:
            click.echo(_summary(found, dry_run))


def _summary(found: Migration, dry_run: bool) -> str:
    if found.steps and dry_run:
        return "Nothing was changed."
    ready = f"{found.place} has schema {found.schema}, and all it needs."
    return ready if found.steps else f"{ready} Nothing was changed."


def _document(app: App, found: Migration, dry_run: bool) -> dict[str, object]:
    return {
        "store": app.shown_place,
        "dry_run": dry_run,
        "schema": found.schema,
        "steps": [step.text for step in found.steps],
    }
