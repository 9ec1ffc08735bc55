"""`oncue adopt`: jobs that wait in a table of another system become jobs of oncue."""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from oncue.cli import output
from oncue.cli.app import App, Command, Decorator, Group, store_only
from oncue.cli.failures import EXIT_FAILED
from oncue.cli.nouns import dry_run_option
from oncue.cli.progress import ProgressBar, counted

if TYPE_CHECKING:
    from oncue.aws.adoption import AdoptReport, OthersLayout
    from oncue.scheduler import Scheduler

SHOWN = 20  # malformed items that are named without --json


@click.group(cls=Group)
def adopt() -> None:
    """Take over jobs that wait in a DynamoDB table of another system.

    $ oncue adopt shoryuken-waiter mailers --dry-run
    $ oncue adopt task-scheduler TaskTable --region eu-central-1
    """


def _options(command: Command) -> Command:
    """What both commands take."""
    wanted: list[Decorator] = [
        click.argument("table"),
        click.option("--region", metavar="NAME", help="Of the table. [default: as boto3 finds it]"),
        click.option("--endpoint", metavar="URL", help="Of an emulator of DynamoDB."),
        click.option(
            "--stopped",
            is_flag=True,
            help="The other system does not run any more: take also what it would be working on.",
        ),
        dry_run_option("be taken over"),
    ]
    command = store_only(command)
    for option in reversed(wanted):
        command = option(command)
    return command


@adopt.command("shoryuken-waiter")
@_options
@click.option("--sqs-endpoint", metavar="URL", help="The emulator of SQS, if it is another one.")
def shoryuken_waiter(
    app: App,
    table: str,
    region: str | None,
    endpoint: str | None,
    stopped: bool,
    dry_run: bool,
    sqs_endpoint: str | None,
) -> None:
    """Take over the SQS messages that wait in a table of shoryuken-waiter. Each becomes a job of
    the queue that it names, and is sent to SQS when it is due, as it was. Safe while
    shoryuken-waiter runs: what is due in the next 20 minutes is left to it, unless --stopped. Run
    it again after an interruption, and as often as you like. Malformed items stay, and are named;
    the exit code is then 1.

    $ oncue adopt shoryuken-waiter mailers --region eu-central-1 --dry-run
    $ oncue adopt shoryuken-waiter mailers --region eu-central-1
    $ oncue adopt shoryuken-waiter mailers --stopped --json
    """
    from oncue.aws.waiter_table import WaiterLayout

    layout = WaiterLayout(region, sqs_endpoint or endpoint)
    _adopt(app, layout, table, (region, endpoint), stopped=stopped, dry_run=dry_run)


@adopt.command("task-scheduler")
@_options
def task_scheduler(
    app: App, table: str, region: str | None, endpoint: str | None, stopped: bool, dry_run: bool
) -> None:
    """Take over the SCHEDULED tasks of users in a table of the task scheduler, whose keys are
    userId and requestId. Each becomes a task of the queue 'tasks', with its user, its request id
    and its date; started and completed ones stay. Safe while the other system runs: from 10 minutes
    before midnight UTC until 05:30, tasks of that date are left to it, unless --stopped. Run it
    again after an interruption, and as often as you like. Malformed items stay, and are named; the
    exit code is then 1.

    $ oncue adopt task-scheduler TaskTable --region eu-central-1 --dry-run
    $ oncue adopt task-scheduler TaskTable --region eu-central-1
    """
    from oncue.aws.task_table import TaskLayout

    _adopt(app, TaskLayout(), table, (region, endpoint), stopped=stopped, dry_run=dry_run)


def _adopt(
    app: App,
    layout: OthersLayout,
    name: str,
    place: tuple[str | None, str | None],
    *,
    stopped: bool,
    dry_run: bool,
) -> None:
    from oncue.aws.adoption import Adoption
    from oncue.aws.others_table import OthersTable, connect

    table = OthersTable(connect(name, *place), layout.keys)
    click.get_current_context().call_on_close(table.close)
    logging.getLogger("oncue.engine").setLevel(logging.ERROR)
    table.check_keys(layout.system)  # before a store is made
    adoption = Adoption(_scheduler(app, dry_run), table, layout, stopped)
    with ProgressBar("Reading", None) as bar:
        report = adoption.survey(lambda now: bar.update(now.seen, counted(now.seen, "item")))
    if not dry_run:
        with ProgressBar("Adopting", report.adopted) as bar:
            report = adoption.run(
                set(report.queues), lambda now: bar.update(now.adopted, counted(now.adopted, "job"))
            )
    _tell(app, layout.system, report, dry_run)
    if report.malformed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _scheduler(app: App, dry_run: bool) -> Scheduler:
    """A dry run makes no store: one that does not exist is empty."""
    from oncue.scheduler import Scheduler

    if app.place.startswith("memory:") and not dry_run:
        raise click.UsageError("memory: is forgotten when this command ends; name a lasting store.")
    app.may_create = True
    app.require_store()
    return Scheduler("memory:") if dry_run and app.is_missing else app.scheduler


def _tell(app: App, system: str, report: AdoptReport, dry_run: bool) -> None:
    if app.as_json:
        problems = [{"item": item, "problem": problem} for item, problem in report.problems]
        output.document({"dry_run": dry_run, **asdict(report), "problems": problems})
        return
    for item, problem in report.problems[:SHOWN]:
        output.note(f"Left in the table: {output.clean(item)}: {output.clean(problem)}")
    if report.malformed > SHOWN:
        output.note(f"… and {report.malformed - SHOWN:,} more; --json names up to 1,000.")
    if report.left:
        output.note(
            f"Left to {system}, which may be working on them just now: "
            f"{counted(report.left, 'item')}. If it does not run any more, add --stopped."
        )
    click.echo(_summary(report, dry_run))


def _summary(report: AdoptReport, dry_run: bool) -> str:
    would = "would be adopted" if dry_run else "adopted"
    parts = [f"{counted(report.seen, 'item')} found", f"{report.adopted:,} {would}"]
    if report.finished:
        parts[-1] += f" ({report.finished:,} of a run that was interrupted)"
    if report.lost:
        parts.append(f"{report.lost:,} taken or changed by the other system meanwhile")
    if report.left:
        parts.append(f"{report.left:,} left to it")
    if report.malformed:
        parts.append(f"{report.malformed:,} malformed")
    queues = ", ".join(f"{name} {count:,}" for name, count in sorted(report.queues.items()))
    return f"{', '.join(parts)}." + (f" By queue: {queues}." if queues else "")
