"""`oncue jobs cancel`, `run`, `retry`, `move`, `reprioritise`: by ids; by a filter see `bulk`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from oncue.cli import bulk, output
from oncue.cli.app import App, Cue, common, exit_code
from oncue.cli.nouns import confirm, require_terminal, yes_option
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


@dataclass(frozen=True, slots=True)
class Change:
    """What a command does to jobs, named by their ids or found by a filter."""

    name: str
    verb: Verb
    apply: Callable[[Cue, str], Job]
    """By id."""
    would: str
    """What would become of a job that a dry run names."""
    done: str
    """What became of the jobs that fit a filter."""
    how: Mapping[str, Any] = field(default_factory=dict)
    """The options of this command alone."""

    @property
    def asks_workers(self) -> bool:
        return bool(self.how.get("running"))


@dataclass(frozen=True, slots=True)
class Verdict:
    id: str
    job: Job | None
    text: str
    error: OncueError | None = None


_DRY_RUN = click.option(
    "--dry-run", "-n", is_flag=True, help="Say what would happen, change nothing."
)


def _ids_or_filter(command: Callable[..., None]) -> Callable[..., None]:
    for decorate in (
        common,
        yes_option,
        _DRY_RUN,
        bulk.filters,
        click.argument("job_ids", metavar="[ID...]", nargs=-1),
    ):
        command = decorate(command)
    return command


@click.command()
@click.option("--running", is_flag=True, help="Ask the workers of claimed jobs to stop.")
@_ids_or_filter
def cancel(app: App, /, running: bool, **given: Any) -> None:
    """End scheduled jobs: they will not be delivered. Those named by ID, or all that fit a filter.

    $ oncue jobs cancel ID
    $ oncue jobs cancel --running ID ID ID --yes
    $ oncue jobs cancel --queue mail --owner ada --dry-run
    """

    def by_id(cue: Cue, job_id: str) -> Job:
        return cue.cancel(job_id, running=running)

    done = "cancelled or asked to stop" if running else "cancelled"
    how = {"running": running}
    _carry_out(app, Change("cancel", Verb.CANCEL, by_id, "be cancelled", done, how), given)


@click.command()
@_ids_or_filter
def run(app: App, /, **given: Any) -> None:
    """Make scheduled jobs due now: those named by ID, or all that fit a filter. Due ones keep their
    place in the line.

    $ oncue jobs run ID
    $ oncue jobs run --dry-run ID ID
    $ oncue jobs run --queue mail --yes
    """

    def by_id(cue: Cue, job_id: str) -> Job:
        return cue.run(job_id)

    _carry_out(app, Change("run", Verb.AMEND, by_id, "be due now", "made due now"), given)


@click.command()
@_ids_or_filter
def retry(app: App, /, **given: Any) -> None:
    """Make failed or cancelled jobs due again, now: those named by ID, or all that fit a filter.
    Finished operations are kept, and all attempts are allowed anew.

    $ oncue jobs retry ID
    $ oncue jobs retry ID ID ID --yes
    $ oncue jobs retry --queue mail --state failed
    """

    def by_id(cue: Cue, job_id: str) -> Job:
        return cue.retry(job_id)

    change = Change("retry", Verb.REVIVE, by_id, "be due again now", "made due again")
    _carry_out(app, change, given)


@click.command()
@click.option("--to", metavar="QUEUE", required=True, help="Where they go.")
@bulk.filters
@_DRY_RUN
@yes_option
@common
def move(app: App, /, to: str, **given: Any) -> None:
    """Give all scheduled jobs that fit a filter to another queue, whose settings then hold for
    them. A job whose key is taken there stays.

    $ oncue jobs move --queue mail --owner ada --to letters --dry-run
    """
    bulk.require_filter(given)
    bulk.carry_out(app, bulk.Command("move", f"moved to {to}", given, {"to": to}))


@click.command()
@click.option("--priority", type=int, metavar="0-9", required=True, help="Higher runs first.")
@_ids_or_filter
def reprioritise(app: App, /, priority: int, **given: Any) -> None:
    """Give scheduled jobs another priority: those named by ID, or all that fit a filter.

    $ oncue jobs reprioritise --priority 9 ID
    $ oncue jobs reprioritise --priority 0 --queue mail --owner ada
    """

    def by_id(cue: Cue, job_id: str) -> Job:
        return cue.reschedule(job_id, priority=priority)

    would, done = f"have priority {priority}", f"given priority {priority}"
    how = {"priority": priority}
    _carry_out(app, Change("reprioritise", Verb.AMEND, by_id, would, done, how), given)


def _carry_out(app: App, change: Change, given: Mapping[str, Any]) -> None:
    job_ids, dry_run = given["job_ids"], given["dry_run"]
    if bulk.is_meant(job_ids, given):
        bulk.carry_out(app, bulk.Command(change.name, change.done, given, change.how))
        return
    if len(job_ids) > 1 and not dry_run and not given["yes"]:
        require_terminal(
            f"{len(job_ids)} jobs are named and there is no terminal to ask on; add --yes to "
            f"{change.name} them all, or --dry-run to see what would happen."
        )
        confirm(f"{change.name.capitalize()} {len(job_ids)} jobs?")
    decide = _foreseen if dry_run else _applied
    verdicts = [decide(app.cue, change, job_id) for job_id in job_ids]
    _tell(app, verdicts, dry_run)
    failed = next((v.error for v in verdicts if v.error is not None), None)
    if failed is not None:
        raise click.exceptions.Exit(exit_code(failed))


def _applied(cue: Cue, change: Change, job_id: str) -> Verdict:
    try:
        job = change.apply(cue, job_id)
    except (StoreError, ServerError):
        raise
    except OncueError as error:
        return Verdict(job_id, None, "", _with_hint(change, error))
    return Verdict(job_id, job, "asked to stop" if job.cancel_requested else "")


def _foreseen(cue: Cue, change: Change, job_id: str) -> Verdict:
    try:
        job = cue.job(job_id)
        return Verdict(job_id, job, f"would {_effect(cue, change, job)}")
    except (Conflict, NotFound) as error:
        return Verdict(job_id, None, "", _with_hint(change, error))


def _effect(cue: Cue, change: Change, job: Job) -> str:
    """What would happen to the job; or it raises what the change would raise."""
    if change.asks_workers and job.state in LIVE and job.worker is not None:
        return f"ask worker {output.clean(job.worker)} to stop"
    if not allows(job.state, change.verb):
        raise IllegalState(f"cannot {change.name} job {job.id}: it is {job.state}.", job.state)
    if change.verb is Verb.REVIVE and job.key is not None:
        page = cue.page(JobFilter(queue=job.queue, key=job.key), None, 500)
        holder = next((other.id for other in page.items if other.state not in FINAL), None)
        if holder is not None:
            raise Conflict(f"cannot retry job {job.id}: job {holder} has its key {job.key!r}.")
    return change.would


def _with_hint(change: Change, error: OncueError) -> OncueError:
    if change.verb is not Verb.CANCEL or not isinstance(error, IllegalState):
        return error
    if error.state not in LIVE:
        return error
    ask = "With --running its worker is asked to stop."
    hint = "It is being delivered." if change.asks_workers else ask
    return IllegalState(f"{error} {hint}", error.state)


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
