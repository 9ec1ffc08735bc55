"""`oncue aws template`: the SAM template of a deployment."""

from __future__ import annotations

from typing import get_args

import click

from oncue.aws.package import Runtime
from oncue.aws.template import Authoriser, template
from oncue.cli.app import App, pass_app, refuse_json
from oncue.core.queue import DEFAULT_QUEUE


@click.command("template")
@click.option("--table", metavar="NAME", default="oncue", help="The DynamoDB table.")
@click.option(
    "--queue",
    "queues",
    metavar="NAME",
    multiple=True,
    default=[DEFAULT_QUEUE],
    help="A queue that is delivered to an SQS queue of its own; repeat it for several. The queue "
    "tasks is always there.",
)
@click.option(
    "--authoriser",
    type=click.Choice(get_args(Authoriser)),
    default="none",
    help="Who checks the callers of the HTTP API: none (oncue, by access tokens), or the gateway "
    "(iam, jwt).",
)
@click.option(
    "--stream",
    is_flag=True,
    help="Tasks are only marked as started, and sent by a function on the table's stream.",
)
@click.option(
    "--python",
    metavar="VERSION",
    default=Runtime().python,
    help="The runtime of the functions; the package must be built with the same.",
)
@pass_app
def template_command(
    app: App,
    table: str,
    queues: tuple[str, ...],
    authoriser: Authoriser,
    stream: bool,
    python: str,
) -> None:
    """Print a SAM template of all that is needed on AWS. It has the table, SQS queues with a
    dead-letter queue, the functions with the permissions that they need, the HTTP API and
    alarms. docs/aws.md has the steps from here to a deployed stack.

    $ oncue aws template > template.yaml
    $ oncue aws template --table jobs --queue default --queue mail > template.yaml
    $ oncue aws template --authoriser iam > template.yaml
    """
    refuse_json(app)
    click.echo(
        template(table=table, queues=queues, authoriser=authoriser, stream=stream, python=python),
        nl=False,
    )
