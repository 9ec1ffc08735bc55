"""`oncue aws`: what is deployed, and trying it out on this machine."""

from __future__ import annotations

import click

from oncue.cli.group import Group

COMMANDS = {
    "invoke": "oncue.cli.aws_invoke:invoke",
    "simulate": "oncue.cli.aws_simulate:simulate",
    "template": "oncue.cli.aws_template:template_command",
}


@click.group(cls=Group, places=COMMANDS)
def aws() -> None:
    """Lambda functions on DynamoDB and SQS.

    $ oncue aws template > template.yaml
    $ oncue aws invoke dispatch --store 'dynamodb://oncue?region=eu-central-1'
    $ oncue aws simulate --endpoint http://127.0.0.1:4566
    """
