"""A line on a terminal that is written anew in place; nothing elsewhere."""

from __future__ import annotations

import logging
import shutil
import sys
from typing import Self

import click

from oncue.cli import output, terminal

_CLEAR = terminal.CLEAR_LINE


def counted(number: int, noun: str) -> str:
    """1 job, 1,234 jobs."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


class StatusLine:
    """On standard error, so that standard output stays what was asked for. Use it in a `with`:
    then log records make room for themselves, and it is cleared at the end."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self._there = False

    def show(self, text: str) -> None:
        if self.shown:
            room = shutil.get_terminal_size().columns - 1
            click.echo(_CLEAR + text[:room], err=True, nl=False)
            self._there = True

    def clear(self) -> None:
        """Make room for something else."""
        if self._there:
            click.echo(_CLEAR, err=True, nl=False)
            self._there = False

    def __enter__(self) -> Self:
        for handler in logging.getLogger().handlers:
            handler.addFilter(self._make_room)
        return self

    def __exit__(self, *raised: object) -> None:
        for handler in logging.getLogger().handlers:
            handler.removeFilter(self._make_room)
        self.clear()

    def _make_room(self, record: logging.LogRecord) -> bool:
        """As a filter of a log handler: lets everything through, on a line of its own."""
        self.clear()
        return True


class ProgressBar(StatusLine):
    def __init__(self, what: str, total: int | None) -> None:
        """`total` None: how much there is to do is not known."""
        super().__init__()
        self._what = what
        self.total = total

    def update(self, done: int, tail: str) -> None:
        if self.total:
            share = min(1.0, done / self.total)
            self.show(f"{self._what} {output.bar(share)} {share:4.0%}  {tail}")
        else:
            self.show(f"{self._what} {tail}")
