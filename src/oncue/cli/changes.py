"""`oncue jobs cancel`, `run`, `retry`, `move`, `reprioritise`: by ids; by a filter see `bulk`."""

from __future__ import annotations

from typing import Any

import click

from oncue.cli import bulk, output
from oncue.cli.app import App, Command, Cue, common
from oncue.cli.bulk import JobsCommand
from oncue.cli.failures import exit_code
from oncue.cli.nouns import confirm, dry_run_option, require_terminal, yes_option
from oncue.core.bulk import BulkChange, BulkVerb
from oncue.core.errors import Conflict, IllegalState, OncueError, ServerError, StoreError
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import FINAL, LIVE
from oncue.core.moment import LATEST
from oncue.usecases.jobs import illegal
from oncue.wire import jobs as wire
from oncue.wire.converting import written


def _by_filter(command: Command) -> Command:
    return bulk.filters(dry_run_option("happen")(yes_option(common(command))))


def _ids_or_filter(command: Command) -> Command:
    return click.argument("job_ids", metavar="[ID...]", nargs=-1)(_by_filter(command))


@click.command()
@click.option("--running", is_flag=True, help="Ask the workers of claimed jobs to stop.")
@_ids_or_filter
def cancel(app: App, /, running: bool, **given: Any) -> None:
    """End scheduled jobs: they will not be delivered. Those named by ID, or all that match a
    filter.

    $ oncue jobs cancel ID
    $ oncue jobs cancel --running ID ID ID --yes
    $ oncue jobs cancel --queue mail --owner ada --dry-run
    """
    done = "cancelled or asked to stop" if running else "cancelled"
    _carry_out(app, JobsCommand("cancel", "be cancelled", done, given, {"running": running}))


@click.command()
@_ids_or_filter
def run(app: App, /, **given: Any) -> None:
    """Make scheduled jobs due now: those named by ID, or all that match a filter. Jobs that are due
    already keep their place.

    $ oncue jobs run ID
    $ oncue jobs run --dry-run ID ID
    $ oncue jobs run --queue mail --yes
    """
    _carry_out(app, JobsCommand("run", "be due now", "made due now", given))


@click.command()
@_ids_or_filter
def retry(app: App, /, **given: Any) -> None:
    """Make failed or cancelled jobs due again, now: those named by ID, or all that match a filter.
    Finished operations are kept, and all attempts are available again.

    $ oncue jobs retry ID
    $ oncue jobs retry ID ID ID --yes
    $ oncue jobs retry --queue mail --state failed
    """
    _carry_out(app, JobsCommand("retry", "be due again now", "made due again", given))


@click.command()
@click.option("--to", metavar="QUEUE", required=True, help="Where they go.")
@_by_filter
def move(app: App, /, to: str, **given: Any) -> None:
    """Give all scheduled jobs that match a filter to another queue, whose settings then apply to
    them. A job whose key is taken there is not moved.

    $ oncue jobs move --queue mail --owner ada --to letters --dry-run
    """
    _carry_out(app, JobsCommand("move", "be moved", f"moved to {to}", given, {"to": to}))


@click.command()
@click.option("--priority", type=int, metavar="0-9", required=True, help="Higher runs first.")
@_ids_or_filter
def reprioritise(app: App, /, priority: int, **given: Any) -> None:
    """Give scheduled jobs another priority: those named by ID, or all that match a filter.

    $ oncue jobs reprioritise --priority 9 ID
    $ oncue jobs reprioritise --priority 0 --queue mail --owner ada
    """
    would, done = f"have priority {priority}", f"given priority {priority}"
    _carry_out(app, JobsCommand("reprioritise", would, done, given, {"priority": priority}))


def _carry_out(app: App, command: JobsCommand) -> None:
    if bulk.is_meant(command.given):
        bulk.carry_out(app, command)
        return
    job_ids = command.given["job_ids"]
    if len(job_ids) > 1 and not command.dry_run and not command.given["yes"]:
        require_terminal(
            f"{len(job_ids)} jobs are named and there is no terminal to ask on; add --yes to "
            f"{command.verb} them all, or --dry-run to see what would happen."
        )
        confirm(f"{command.verb.capitalize()} {len(job_ids)} jobs?")
    _change_each(app, command, job_ids)


def _change_each(app: App, command: JobsCommand, job_ids: tuple[str, ...]) -> None:
    """A job that is refused does not stop the others."""
    jobs: list[Job] = []
    refused: dict[str, OncueError] = {}
    for job_id in job_ids:
        try:
            job, note = (_foresee if command.dry_run else _change)(app.cue, command, job_id)
        except (StoreError, ServerError):
            raise
        except OncueError as error:
            refused[job_id] = _with_hint(command, error)
            output.note(f"Error: {refused[job_id]}")
            continue
        jobs.append(job)
        if not app.as_json:
            now = app.cue.clock.now()
            due = "" if job.state in FINAL else f", due {output.relative(job.due_at, now)}"
            click.echo(f"{job.id}  {output.state(job.state)}{due}{note}")
    if app.as_json:
        output.document(
            {
                "dry_run": command.dry_run,
                "items": [written(wire.Job, job) for job in jobs],
                "refused": [{"id": key, "detail": str(why)} for key, why in refused.items()],
            }
        )
    if refused:
        raise click.exceptions.Exit(exit_code(next(iter(refused.values()))))


def _change(cue: Cue, command: JobsCommand, job_id: str) -> tuple[Job, str]:
    """The job as it is then, and a note on it."""
    method = "reschedule" if command.verb == "reprioritise" else command.verb
    job: Job = getattr(cue, method)(job_id, **command.options)
    return job, "  asked to stop" if job.cancel_requested else ""


def _foresee(cue: Cue, command: JobsCommand, job_id: str) -> tuple[Job, str]:
    """The job as it is, and what the change would do; or it raises what the change would raise."""
    job = cue.job(job_id)
    if command.options.get("running") and job.state in LIVE and job.worker is not None:
        return job, f"  would ask worker {output.clean(job.worker)} to stop"
    if job.state not in BulkChange(BulkVerb(command.verb), LATEST).states:
        raise illegal(command.verb, job)
    if command.verb == "retry" and job.key is not None:
        page = cue.page(JobFilter(queue=job.queue, key=job.key), None, 500)
        holder = next((other.id for other in page.items if other.state not in FINAL), None)
        if holder is not None:
            raise Conflict(f"cannot retry job {job.id}: job {holder} has its key {job.key!r}.")
    return job, f"  would {command.would}"


def _with_hint(command: JobsCommand, error: OncueError) -> OncueError:
    if command.verb != "cancel" or not isinstance(error, IllegalState) or error.state not in LIVE:
        return error
    ask = "With --running its worker is asked to stop."
    hint = "It is being delivered." if command.options["running"] else ask
    return IllegalState(f"{error} {hint}", error.state)
