"""Bulk verbs on the terminal: count, show a sample, ask, then change with progress."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import click
import msgspec

from oncue.cli import listing, output
from oncue.cli.app import App, Command, Cue
from oncue.cli.failures import EXIT_INTERRUPTED
from oncue.cli.nouns import confirm, require_terminal
from oncue.cli.progress import ProgressBar, counted
from oncue.core.bulk import FILTERS, BulkOutcome
from oncue.core.errors import ServerError, StoreError
from oncue.wire import jobs as wire
from oncue.wire.converting import written


def filters(command: Command) -> Command:
    """The options that say which jobs."""
    everything = click.option(
        "--all", "everything", is_flag=True, help="Apply to all jobs, without a filter."
    )
    cursor = click.option("--cursor", help="Continue where the last call was interrupted.")
    return listing.filters(everything(cursor(command)))


def is_meant(given: Mapping[str, Any]) -> bool:
    """Whether a filter says which jobs, rather than ids."""
    filtered = given["everything"] or any(given[name] is not None for name in FILTERS)
    if filtered and given.get("job_ids"):
        raise click.UsageError("name jobs by their ids or by a filter, not both.")
    if not filtered and not given.get("job_ids"):
        ids = "by their ids, or " if "job_ids" in given else ""
        by_filter = "by a filter such as --queue; --all means every job there is."
        raise click.UsageError(f"which jobs? Name them {ids}{by_filter}")
    return bool(filtered)


@dataclass(frozen=True, slots=True)
class JobsCommand:
    """A change of jobs as it was typed."""

    verb: str
    would: str
    """What would become of a job that a dry run names: 'be cancelled'."""
    done: str
    """What becomes of the jobs that fit a filter: 'cancelled'."""
    given: Mapping[str, Any]
    """The ids or the filter, `dry_run` and `yes`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of this command alone."""

    @property
    def dry_run(self) -> bool:
        return bool(self.given["dry_run"])

    def change_all(self, cue: Cue, **options: Any) -> BulkOutcome:
        """Call the bulk method of this verb; `options` are further `usecases.bulk.BulkOptions`."""
        wanted = {name: self.given[name] for name in (*FILTERS, "everything", "cursor")}
        method = getattr(cue, f"{self.verb}_all")
        outcome: BulkOutcome = method(**self.options, **wanted, **options)
        return outcome

    def typed(self, app: App, cursor: str | None) -> str:
        """What has to be typed to go on from there."""
        options = {**self.options, **{name: self.given[name] for name in FILTERS}}
        options |= {"all": self.given["everything"], "cursor": cursor, "yes": True}
        words = ["jobs", self.verb]
        for name, value in options.items():
            if value is not None and value is not False:
                words.append(f"--{name.replace('_', '-')}")
                words += [] if value is True else [_typed(value)]
        return app.typed(*words)


def _typed(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def carry_out(app: App, command: JobsCommand) -> None:
    yes = command.given["yes"]
    if not (command.dry_run or yes):
        require_terminal(
            f"there is no terminal to ask on; add --yes to {command.verb} all jobs that fit, or "
            "--dry-run to see which they are."
        )
    if command.dry_run:
        _tell(app, command, _count(app, command))
        return
    total = None
    if not yes or sys.stderr.isatty():  # a person to ask, or to show a bar to
        found = _count(app, command)
        total = found.matched
        if not yes:
            _ask(app, command, found)
    _tell(app, command, _change(app, command, total))


def _count(app: App, command: JobsCommand) -> BulkOutcome:
    with ProgressBar("Counting", None) as bar:
        return command.change_all(
            app.cue,
            dry_run=True,
            progress=lambda so_far: bar.update(so_far.matched, counted(so_far.matched, "job")),
        )


def _ask(app: App, command: JobsCommand, found: BulkOutcome) -> None:
    if not found.matched:
        output.note(listing.NO_SUCH_JOBS)
        raise click.exceptions.Exit(0)
    if not app.as_json:
        _show_sample(app, found)
    confirm(f"{command.verb.capitalize()} {counted(found.matched, 'job')}?")


def _change(app: App, command: JobsCommand, total: int | None) -> BulkOutcome:
    reached = BulkOutcome(next_cursor=command.given["cursor"])

    def progress(so_far: BulkOutcome) -> None:
        reached.changed, reached.next_cursor = so_far.changed, so_far.next_cursor
        bar.update(so_far.matched, counted(so_far.changed, "job"))

    try:
        with ProgressBar(command.verb.capitalize(), total) as bar:
            return command.change_all(app.cue, progress=progress)
    except (KeyboardInterrupt, StoreError, ServerError) as stopped:
        so_far = f"{counted(reached.changed, 'job')} {command.done} so far."
        output.note(f"{so_far} Continue with:\n  {command.typed(app, reached.next_cursor)}")
        if isinstance(stopped, KeyboardInterrupt):
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        raise


def _tell(app: App, command: JobsCommand, outcome: BulkOutcome) -> None:
    if app.as_json:
        fields = msgspec.structs.asdict(written(wire.BulkOutcome, outcome))
        output.document({"dry_run": command.dry_run, **fields})
    elif not outcome.matched:
        output.note(listing.NO_SUCH_JOBS)
    elif command.dry_run:
        _show_sample(app, outcome)
        click.echo(f"{counted(outcome.matched, 'job')} would be {command.done}.")
    else:
        click.echo(f"{counted(outcome.changed, 'job')} {command.done}.")
    if not command.dry_run:
        _tell_of_others(outcome)


def _tell_of_others(outcome: BulkOutcome) -> None:
    left = outcome.matched - outcome.changed - outcome.key_taken
    for number, reason in (
        (outcome.key_taken, "another unfinished job has the key"),
        (left, "as wanted already, or taken meanwhile"),
    ):
        if number:
            output.note(f"{counted(number, 'job')} left alone: {reason}.")


def _show_sample(app: App, outcome: BulkOutcome) -> None:
    listing.draw(app, outcome.sample)
    more = outcome.matched - len(outcome.sample)
    if more > 0:
        click.echo(f"… and {counted(more, 'more job')}")
