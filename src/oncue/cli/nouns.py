"""What commands about queues, rules and schedules share: the name they take, the nearest one if it
is unknown, the question before a deletion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import click

from oncue.cli import output
from oncue.cli.app import App, Command, Cue, Decorator, common
from oncue.cli.failures import EXIT_FAILED
from oncue.core.errors import NotFound
from oncue.core.text import quoted, suggestion

NAMES_COMPARED = 10_000
WOULD_CHANGE = "Nothing was changed. These would be the changes:"
T = TypeVar("T")

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def dry_run_option(verb: str, *names: str) -> Decorator:
    """`--dry-run`, where `verb` is what the command makes jobs or settings do."""
    help_text = f"Say what would {verb}, change nothing."
    return click.option("--dry-run", "-n", *names, is_flag=True, help=help_text)


def named(command: Command) -> Command:
    """A command that takes NAME, and what `common` gives."""
    return click.argument("name")(common(command))


def ask_about(app: App, noun: str, name: str, ask: Callable[[Cue], T]) -> T:
    """Call `ask`; suggest the nearest name if there is none such."""
    try:
        return ask(app.cue)
    except NotFound:
        every = getattr(app.cue, f"{noun}s")()
        names = [one.name for one in islice(every, NAMES_COMPARED)]
        hint = suggestion(name, names) or f" 'oncue {noun}s list' lists them."
        raise NotFound(f"there is no {noun} {quoted(name)}.{hint}") from None


def delete(app: App, noun: str, name: str, yes: bool, question: str, done: str) -> None:
    """Delete it and say so; ask first, unless `yes`."""
    if not yes:
        require_terminal(f"there is no terminal to ask on; add --yes to delete the {noun}.")
        confirm(question)
    getattr(app.cue, f"delete_{noun}")(name)
    answer(app, {"name": name, "deleted": True}, done)


def answer(app: App, document: Any, text: str) -> None:
    """The document with `--json`, else the text."""
    if app.as_json:
        output.document(document)
    else:
        click.echo(text)


def answer_list(
    app: App,
    document: Any,
    head: output.Cells,
    lines: Sequence[output.Cells],
    nothing: str,
    right: Iterable[int] = (),
    after: object = None,
) -> None:
    """The document with `--json`, else a table; `nothing` says that there is none. `after` is the
    cursor with which the list goes on."""
    if app.as_json:
        output.document(document)
        return
    if lines:
        output.table(head, lines, right=right)
    else:
        output.note(nothing)
    note_more(after)


def note_more(after: object) -> None:
    """Say how the list goes on, if it does."""
    if after is not None:
        output.note(f"There are more; continue with --cursor {output.clean(str(after))}")


def require_terminal(otherwise: str) -> None:
    """Without a terminal, end the command with this advice."""
    if not sys.stdin.isatty():
        raise click.UsageError(otherwise)


def confirm(question: str) -> None:
    """Ask on the terminal, and end the command unless the answer is yes."""
    if not click.confirm(question, err=True):
        output.note("Nothing was changed.")
        raise click.exceptions.Exit(EXIT_FAILED)
