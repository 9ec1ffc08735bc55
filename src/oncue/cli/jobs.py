"""`oncue jobs`: where its commands are."""

from __future__ import annotations

import click

from oncue.cli.app import Group


@click.group(
    cls=Group,
    places={
        "add": "oncue.cli.one_job:add",
        "reschedule": "oncue.cli.one_job:reschedule",
        "show": "oncue.cli.one_job:show",
        "explain": "oncue.cli.one_job:explain",
        "list": "oncue.cli.listing:list_",
        "cancel": "oncue.cli.changes:cancel",
        "run": "oncue.cli.changes:run",
        "retry": "oncue.cli.changes:retry",
        "move": "oncue.cli.changes:move",
        "reprioritise": "oncue.cli.changes:reprioritise",
        "load": "oncue.cli.load:load",
    },
)
def jobs() -> None:
    """Look at jobs and change them.

    $ oncue jobs add --queue mail --delay 2h '{"to": "ada"}'
    $ oncue jobs list --queue mail --state failed
    $ oncue jobs explain ID
    """
