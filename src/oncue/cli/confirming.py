"""Questions at the terminal before something is changed, and what is said after a deletion."""

from __future__ import annotations

import sys

import click

from oncue.cli import output
from oncue.cli.app import EXIT_FAILED, App


def require_terminal(otherwise: str) -> None:
    """Where nobody can be asked, end the command with this advice."""
    if not sys.stdin.isatty():
        raise click.UsageError(otherwise)


def confirm(question: str) -> None:
    """Ask on the terminal, and end the command unless the answer is yes."""
    if not click.confirm(question, err=True):
        output.note("Nothing was changed.")
        raise click.exceptions.Exit(EXIT_FAILED)


def confirm_deletion(noun: str, question: str) -> None:
    require_terminal(f"there is no terminal to ask on; add --yes to delete the {noun}.")
    confirm(question)


def tell_deleted(app: App, name: str, text: str) -> None:
    if app.as_json:
        output.document({"name": name, "deleted": True})
    else:
        click.echo(text)
