"""`oncue jobs cancel`, `run`, `retry`, `move`, `reprioritise`: by ids; by a filter see `bulk`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from oncue.cli import bulk, output
from oncue.cli.app import EXIT_FAILED, App, common, examples, exit_code
from oncue.cli.place import require_file
from oncue.core.errors import (
    Conflict,
    IllegalState,
    NotFound,
    OncueError,
    ServerError,
    StoreError,
)
from oncue.core.job import Job, JobFilter
from oncue.core.lifecycle import FINAL, LIVE, Verb, allows
from oncue.wire import jobs as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.client import Client
    from oncue.scheduler import Scheduler

Apply = Callable[["Scheduler | Client", str], Job]
Foresee = Callable[["Scheduler | Client", Job], str]
"""What would happen to the job, after `would`; or it raises what the change would raise."""


@dataclass(frozen=True, slots=True)
class Verdict:
    id: str
    job: Job | None
    text: str
    error: OncueError | None = None


_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
_DRY_RUN = click.option(
    "--dry-run", "-n", is_flag=True, help="Say what would happen, change nothing."
)


def _ids_and_consent(command: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        click.pass_obj,
        common,
        _YES,
        _DRY_RUN,
        bulk.filters,
        click.argument("job_ids", metavar="[ID...]", nargs=-1),
    ):
        command = decorate(command)
    return command


@click.command(
    help=examples(
        "oncue jobs cancel ID",
        "oncue jobs cancel --running ID ID ID --yes",
        "oncue jobs cancel --queue mail --owner ada --dry-run",
    )
    + "\n\nEnd scheduled jobs: they will not be delivered. Those named by ID, or all that fit a "
    "filter."
)
@click.option("--running", is_flag=True, help="Ask jobs that are taken to stop.")
@_ids_and_consent
def cancel(
    app: App, job_ids: tuple[str, ...], running: bool, dry_run: bool, yes: bool, **given: Any
) -> None:
    if bulk.is_meant(job_ids, given):
        done = "cancelled or asked to stop" if running else "cancelled"
        how = {"running": running}
        bulk.carry_out(app, bulk.Command("cancel", done, given, dry_run, yes, how))
        return

    def apply(cue: Scheduler | Client, job_id: str) -> Job:
        try:
            return cue.cancel(job_id, running=running)
        except IllegalState as error:
            raise _with_hint(error, running) from None

    def foresee(_: Scheduler | Client, job: Job) -> str:
        if running and job.state in LIVE and job.worker is not None:
            return f"ask worker {output.clean(job.worker)} to stop"
        if not allows(job.state, Verb.CANCEL):
            error = IllegalState(f"cannot cancel job {job.id}: it is {job.state}.", job.state)
            raise _with_hint(error, running)
        return "be cancelled"

    _carry_out(app, "cancel", job_ids, dry_run, yes, apply, foresee)


def _with_hint(error: IllegalState, running: bool) -> IllegalState:
    if error.state not in LIVE:
        return error
    hint = "It is being delivered." if running else "With --running its worker is asked to stop."
    return IllegalState(f"{error} {hint}", error.state)


@click.command(
    help=examples(
        "oncue jobs run ID", "oncue jobs run --dry-run ID ID", "oncue jobs run --queue mail --yes"
    )
    + "\n\nMake scheduled jobs due now: those named by ID, or all that fit a filter. Due ones keep "
    "their place in the line."
)
@_ids_and_consent
def run(app: App, job_ids: tuple[str, ...], dry_run: bool, yes: bool, **given: Any) -> None:
    if bulk.is_meant(job_ids, given):
        bulk.carry_out(app, bulk.Command("run", "made due now", given, dry_run, yes))
        return

    def foresee(_: Scheduler | Client, job: Job) -> str:
        if not allows(job.state, Verb.AMEND):
            raise IllegalState(f"cannot run job {job.id}: it is {job.state}.", job.state)
        return "be due now"

    _carry_out(app, "run", job_ids, dry_run, yes, lambda cue, job_id: cue.run(job_id), foresee)


@click.command(
    help=examples(
        "oncue jobs retry ID",
        "oncue jobs retry ID ID ID --yes",
        "oncue jobs retry --queue mail --state failed",
    )
    + "\n\nMake failed or cancelled jobs due again, now: those named by ID, or all that fit a "
    "filter. Finished operations are kept, and all attempts are allowed anew."
)
@_ids_and_consent
def retry(app: App, job_ids: tuple[str, ...], dry_run: bool, yes: bool, **given: Any) -> None:
    if bulk.is_meant(job_ids, given):
        bulk.carry_out(app, bulk.Command("retry", "made due again", given, dry_run, yes))
        return

    def foresee(cue: Scheduler | Client, job: Job) -> str:
        if not allows(job.state, Verb.REVIVE):
            raise IllegalState(f"cannot retry job {job.id}: it is {job.state}.", job.state)
        holder = _holder_of_key(cue, job)
        if holder is not None:
            raise Conflict(f"cannot retry job {job.id}: job {holder} has its key {job.key!r}.")
        return "be due again now"

    _carry_out(app, "retry", job_ids, dry_run, yes, lambda cue, job_id: cue.retry(job_id), foresee)


@click.command(
    help=examples("oncue jobs move --queue mail --owner ada --to letters --dry-run")
    + "\n\nGive all scheduled jobs that fit a filter to another queue, whose settings then hold "
    "for them. A job whose key is taken there stays."
)
@click.option("--to", metavar="QUEUE", required=True, help="Where they go.")
@bulk.filters
@_DRY_RUN
@_YES
@common
@click.pass_obj
def move(app: App, /, to: str, dry_run: bool, yes: bool, **given: Any) -> None:
    bulk.require_filter(given)
    bulk.carry_out(app, bulk.Command("move", f"moved to {to}", given, dry_run, yes, {"to": to}))


@click.command(
    help=examples(
        "oncue jobs reprioritise --priority 9 ID",
        "oncue jobs reprioritise --priority 0 --queue mail --owner ada",
    )
    + "\n\nGive scheduled jobs another priority: those named by ID, or all that fit a filter."
)
@click.option("--priority", type=int, metavar="0-9", required=True, help="Higher goes first.")
@_ids_and_consent
def reprioritise(
    app: App, job_ids: tuple[str, ...], priority: int, dry_run: bool, yes: bool, **given: Any
) -> None:
    if bulk.is_meant(job_ids, given):
        done, how = f"given priority {priority}", {"priority": priority}
        bulk.carry_out(app, bulk.Command("reprioritise", done, given, dry_run, yes, how))
        return

    def apply(cue: Scheduler | Client, job_id: str) -> Job:
        return cue.reschedule(job_id, priority=priority)

    def foresee(_: Scheduler | Client, job: Job) -> str:
        if not allows(job.state, Verb.AMEND):
            raise IllegalState(f"cannot reprioritise job {job.id}: it is {job.state}.", job.state)
        return f"have priority {priority}"

    _carry_out(app, "reprioritise", job_ids, dry_run, yes, apply, foresee)


def _holder_of_key(cue: Scheduler | Client, job: Job) -> str | None:
    if job.key is None:
        return None
    page = cue.page(JobFilter(queue=job.queue, key=job.key), None, 500)
    return next((other.id for other in page.items if other.state not in FINAL), None)


def _carry_out(
    app: App,
    verb: str,
    job_ids: Sequence[str],
    dry_run: bool,
    yes: bool,
    apply: Apply,
    foresee: Foresee,
) -> None:
    if len(job_ids) > 1 and not dry_run and not yes:
        _ask(verb, len(job_ids))
    require_file(app)
    if dry_run:
        verdicts = [_foreseen(app.cue, job_id, foresee) for job_id in job_ids]
    else:
        verdicts = [_applied(app.cue, job_id, apply) for job_id in job_ids]
    _tell(app, verdicts, dry_run)
    failed = next((v.error for v in verdicts if v.error is not None), None)
    if failed is not None:
        raise click.exceptions.Exit(exit_code(failed))


def _ask(verb: str, number: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{number} jobs are named and there is no terminal to ask on; add --yes to {verb} them "
            "all, or --dry-run to see what would happen."
        )
    if not click.confirm(f"{verb.capitalize()} {number} jobs?", err=True):
        output.note("Nothing was changed.")
        raise click.exceptions.Exit(EXIT_FAILED)


def _applied(cue: Scheduler | Client, job_id: str, apply: Apply) -> Verdict:
    try:
        job = apply(cue, job_id)
    except (StoreError, ServerError):
        raise
    except OncueError as error:
        return Verdict(job_id, None, "", error)
    return Verdict(job_id, job, "asked to stop" if job.cancel_requested else "")


def _foreseen(cue: Scheduler | Client, job_id: str, foresee: Foresee) -> Verdict:
    try:
        job = cue.job(job_id)
        return Verdict(job_id, job, f"would {foresee(cue, job)}")
    except (Conflict, NotFound) as error:
        return Verdict(job_id, None, "", error)


def _tell(app: App, verdicts: Sequence[Verdict], dry_run: bool) -> None:
    refused = [v for v in verdicts if v.error is not None]
    if app.as_json:
        output.document(
            {
                "dry_run": dry_run,
                "items": [written(wire.Job, v.job) for v in verdicts if v.job is not None],
                "refused": [{"id": v.id, "detail": str(v.error)} for v in refused],
            }
        )
    for verdict in verdicts:
        if verdict.error is not None:
            output.note(f"Error: {verdict.error}")
        elif verdict.job is not None and not app.as_json:
            job, now = verdict.job, app.cue.clock.now()
            due = "" if job.state in FINAL else f", due {output.relative(job.due_at, now)}"
            told = f"  {verdict.text}" if verdict.text else ""
            click.echo(f"{job.id}  {output.state(job.state)}{due}{told}")
