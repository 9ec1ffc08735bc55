"""Bulk verbs on the terminal: count, show a sample, ask, then change with progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from oncue.cli import listing, output
from oncue.cli.app import EXIT_INTERRUPTED, App, Cue
from oncue.cli.nouns import confirm, require_terminal
from oncue.cli.progress import ProgressBar, counted
from oncue.cli.times import read_moment
from oncue.core.bulk import FILTERS, BulkOutcome
from oncue.core.errors import ServerError, StoreError
from oncue.wire import jobs as wire
from oncue.wire.converting import written


def filters(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which jobs; they come as one mapping, `given`."""
    everything = click.option(
        "--all", "everything", is_flag=True, help="All jobs, if no filter is meant."
    )
    cursor = click.option("--cursor", help="Go on where the last one was interrupted.")
    return listing.filters(everything(cursor(command)))


def is_meant(job_ids: tuple[str, ...], given: Mapping[str, Any]) -> bool:
    """Whether a filter says which jobs, rather than ids."""
    filtered = _says_which(given)
    if filtered and job_ids:
        raise click.UsageError("name jobs by their ids or by a filter, not both.")
    if not filtered and not job_ids:
        raise click.UsageError(f"which jobs? Name them by their ids, or {_BY_FILTER}")
    return filtered


def require_filter(given: Mapping[str, Any]) -> None:
    if not _says_which(given):
        raise click.UsageError(f"which jobs? Name them {_BY_FILTER}")


_BY_FILTER = "by a filter such as --queue; --all means every job there is."


def _says_which(given: Mapping[str, Any]) -> bool:
    return given["everything"] or any(given[name] is not None for name in FILTERS)


@dataclass(frozen=True, slots=True)
class Command:
    """A bulk verb as it was typed."""

    verb: str
    done: str
    """What becomes of the jobs: 'cancelled'."""
    given: Mapping[str, Any]
    """The filter, `dry_run` and `yes`."""
    how: Mapping[str, Any] = field(default_factory=dict)
    """The options of this verb alone."""

    @property
    def dry_run(self) -> bool:
        return bool(self.given["dry_run"])

    def ask(self, cue: Cue, options: Mapping[str, Any]) -> BulkOutcome:
        """Call the method of that name with `oncue.bulk.BulkOptions`."""
        outcome: BulkOutcome = getattr(cue, f"{self.verb}_all")(**self.how, **options)
        return outcome

    def options(self) -> dict[str, Any]:
        given = self.given
        moments = {
            name: read_moment(given[name], f"--{name.replace('_', '-')}")
            for name in ("due_after", "due_before")
        }
        own = {name: given[name] for name in ("queue", "state", "owner", "key", "everything")}
        return {**own, **moments, "cursor": given["cursor"]}

    def typed(self, app: App, cursor: str | None) -> str:
        """What has to be typed to go on from there."""
        said = {**self.how, **{name: self.given[name] for name in FILTERS}}
        said |= {"all": self.given["everything"], "cursor": cursor, "yes": True}
        words = ["oncue", *app.place_options, "jobs", self.verb]
        for name, value in said.items():
            if value is not None and value is not False:
                words.append(f"--{name.replace('_', '-')}")
                words += [] if value is True else [str(value)]
        return shlex.join(words)


def carry_out(app: App, command: Command) -> None:
    options = command.options()
    yes = command.given["yes"]
    if not (command.dry_run or yes):
        require_terminal(
            f"there is no terminal to ask on; add --yes to {command.verb} all jobs that fit, or "
            "--dry-run to see which they are."
        )
    if command.dry_run:
        _tell(app, command, _count(app, command, options))
        return
    total = None
    if not yes or sys.stderr.isatty():  # somebody to ask, or to show a bar to
        found = _count(app, command, options)
        total = found.matched
        if not yes:
            _ask(app, command, found)
    _tell(app, command, _change(app, command, options, total))


def _count(app: App, command: Command, options: dict[str, Any]) -> BulkOutcome:
    bar = ProgressBar("Counting", None)

    def progress(so_far: BulkOutcome) -> None:
        bar.update(so_far.matched, counted(so_far.matched, "job"))

    try:
        return command.ask(app.cue, {**options, "dry_run": True, "progress": progress})
    finally:
        bar.clear()


def _ask(app: App, command: Command, found: BulkOutcome) -> None:
    if not found.matched:
        output.note("There are no such jobs.")
        raise click.exceptions.Exit(0)
    if not app.as_json:
        _show_sample(app, found)
    confirm(f"{command.verb.capitalize()} {counted(found.matched, 'job')}?")


def _change(app: App, command: Command, options: dict[str, Any], total: int | None) -> BulkOutcome:
    bar = ProgressBar(command.verb.capitalize(), total)
    reached = BulkOutcome(next_cursor=options["cursor"])

    def progress(so_far: BulkOutcome) -> None:
        reached.changed, reached.next_cursor = so_far.changed, so_far.next_cursor
        bar.update(so_far.matched, counted(so_far.changed, "job"))

    try:
        return command.ask(app.cue, {**options, "progress": progress})
    except (KeyboardInterrupt, StoreError, ServerError) as stopped:
        bar.clear()
        said = f"{counted(reached.changed, 'job')} {command.done} so far. Go on with:"
        output.note(f"{said}\n  {command.typed(app, reached.next_cursor)}")
        if isinstance(stopped, KeyboardInterrupt):
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        raise
    finally:
        bar.clear()


def _tell(app: App, command: Command, outcome: BulkOutcome) -> None:
    if app.as_json:
        told = msgspec.structs.asdict(written(wire.BulkOutcome, outcome))
        output.document({"dry_run": command.dry_run, **told})
    elif not outcome.matched:
        output.note("There are no such jobs.")
    elif command.dry_run:
        _show_sample(app, outcome)
        click.echo(f"{counted(outcome.matched, 'job')} would be {command.done}.")
    else:
        click.echo(f"{counted(outcome.changed, 'job')} {command.done}.")
    if not command.dry_run:
        _tell_of_others(outcome)


def _tell_of_others(outcome: BulkOutcome) -> None:
    left = outcome.matched - outcome.changed - outcome.key_taken
    if outcome.key_taken:
        jobs = counted(outcome.key_taken, "job")
        output.note(f"{jobs} left alone: another unfinished job has the key.")
    if left:
        jobs = counted(left, "job")
        output.note(f"{jobs} left alone: as wanted already, or taken meanwhile.")


def _show_sample(app: App, outcome: BulkOutcome) -> None:
    listing.draw(app, outcome.sample)
    more = outcome.matched - len(outcome.sample)
    if more > 0:
        click.echo(f"… and {counted(more, 'more job')}")
