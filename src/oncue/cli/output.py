"""What a person sees: tables, bars, colours on a terminal; plain text elsewhere; or JSON.

Text that comes out of jobs (messages, errors, names of workers) goes through `clean`: it may hold
line ends, and escape sequences, which a terminal would carry out. `terminal.py` makes sure that
none gets there, whatever a command forgets.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from oncue.cli.terminal import PLAIN, in_line, ours
from oncue.cli.terminal import clean as clean
from oncue.core import moment as moments
from oncue.core import stamp as stamps
from oncue.core.duration import spoken
from oncue.core.lifecycle import State

BARS = " ▏▎▍▌▋▊▉█"
SPARKS = " ▁▂▃▄▅▆▇█"
LEAST_ROOM = 20  # columns of a terminal for what stands last in a line
COLOURS = {
    State.SCHEDULED: "cyan",
    State.DISPATCHED: "yellow",
    State.EXECUTING: "yellow",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.CANCELLED: "bright_black",
}
Cells = Sequence[str]
"""One line of a table."""


def colourful() -> bool:
    """Whether standard output is a terminal whose user has not declined colours."""
    declined = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not declined


def paint(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    if not colourful():
        return text
    before, after = click.style("|", fg=colour, bold=bold or None).split("|")
    return ours(before) + text + ours(after)


def state(value: State) -> str:
    return paint(str(value), COLOURS[value])


def document(value: Any) -> None:
    """The one JSON document of `--json`: UTF-8 whatever the locale."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def note(text: str) -> None:
    """Something beside the answer."""
    click.echo(text, err=True)


def table(head: Cells, lines: Iterable[Cells], *, right: Iterable[int] = ()) -> None:
    """Print columns; on a terminal the last one is cut where the line ends."""
    # Not in one write: then a reader that has closed the pipe is noticed only at the end.
    for line in columned(head, lines, right=right, width=table_width()):
        click.echo(line)


def columned(
    head: Cells, lines: Iterable[Cells], *, right: Iterable[int] = (), width: int | None = None
) -> list[str]:
    """Columns as wide as their widest cell, under bold heads. With a `width`, the last column takes
    what the others leave, though never less than its head."""
    body = [[in_line(cell) for cell in line] for line in lines]
    widths = [max(breadth(cell) for cell in column) for column in zip(head, *body, strict=True)]
    if width is not None:
        others = sum(widths[:-1]) + 2 * len(widths[:-1])
        widths[-1] = min(widths[-1], max(breadth(head[-1]), width - others))
        body = [[*cells[:-1], fit(cells[-1], widths[-1])] for cells in body]
    flush_right = set(right)

    def line(cells: Cells) -> str:
        padded = []
        for place, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
            gap = " " * (wide - breadth(cell))
            padded.append(gap + cell if place in flush_right else cell + gap)
        return "  ".join(padded).rstrip()

    return [paint(line(head), bold=True), *map(line, body)]


def wrapped(head: Cells, lines: Sequence[Cells]) -> list[Cells]:
    """The lines of a table; where the terminal is too narrow for the last cell of one, it goes on
    in lines below."""
    width = table_width()
    if width is None:
        return list(lines)
    others = columned(head[:-1], [line[:-1] for line in lines])
    room = max(LEAST_ROOM, width - 2 - max(breadth(line) for line in others))
    blank = [""] * (len(head) - 1)
    return [
        [*(blank if place else line[:-1]), part]
        for line in lines
        for place, part in enumerate(textwrap.wrap(line[-1], room, break_on_hyphens=False))
    ]


def has_room(
    head: Cells, lines: Sequence[Cells], *, least: int = LEAST_ROOM, width: int | None = None
) -> bool:
    """Whether the terminal leaves the last column at least so much."""
    width = width or table_width()
    if width is None:
        return True
    others = columned(head[:-1], [line[:-1] for line in lines])
    return max(breadth(line) for line in others) + 2 + least <= width


def pairs(*lines: tuple[str, str]) -> None:
    """Names and values, one pair a line; those without a value are left out."""
    shown = [(name, value) for name, value in lines if value]
    width = max(breadth(name) for name, _ in shown)
    for name, value in shown:
        click.echo(f"{paint(name.ljust(width), bold=True)}  {in_line(value)}".rstrip())


def table_width() -> int | None:
    """How wide a line may be; None: there is no terminal, and nothing is cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def breadth(text: str) -> int:
    """How many columns it takes on a terminal."""
    plain = click.unstyle(text)
    return len(plain) if plain.isascii() else sum(map(_character_breadth, plain))


def _character_breadth(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


_STYLE = re.compile(r"(\x1b\[[\d;]*m)")


def fit(text: str, width: int) -> str:
    """The text, cut to so many columns; colours do not count and are closed."""
    if breadth(text) <= width:
        return text
    room, kept = width - 1, ""
    for piece in _STYLE.split(text):
        if piece.startswith("\x1b"):
            kept += piece
            continue
        for character in piece:
            room -= _character_breadth(character)
            if room < 0:
                return kept + "…" + (PLAIN if "\x1b" in kept else "")
            kept += character
    return kept


def bar(share: float, width: int = 20) -> str:
    """A horizontal bar for a share between 0 and 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (BARS[part] if part else "")).ljust(width)


def spark(values: Sequence[float]) -> str:
    """A small histogram, one character each."""
    top = max(values, default=0)
    return "".join(SPARKS[max(1, round(v / top * 8)) if v else 0] for v in values)


def moment(value: datetime | None) -> str:
    """Local time, with the zone."""
    return "–" if value is None else _with_zone(value.astimezone(), "milliseconds")


def stamp(value: stamps.Stamp | None) -> str:
    """Event time as local time, with the zone; as fine as it needs to be."""
    if value is None:
        return "–"
    fine = (
        "microseconds" if value % 1000 else "milliseconds" if value % stamps.SECOND else "seconds"
    )
    try:
        return _with_zone(stamps.to_datetime(value).astimezone(), fine)
    except OverflowError:  # the first or the last day there is, in a zone that has another
        return stamps.render(value)


def _with_zone(local: datetime, fine: str) -> str:
    text = local.replace(tzinfo=None).isoformat(" ", fine)
    return f"{text} {local.tzname() or local.strftime('%z')}"


def time_of(when: datetime, asked: datetime) -> str:
    """Local time of the day; with the date where that is another one than the day asked about."""
    local = when.astimezone()
    clock = "%H:%M:%S" if local.second or local.microsecond else "%H:%M"
    same_day = local.date() == asked.astimezone().date()
    return local.strftime(clock if same_day else f"%Y-%m-%d {clock}")


_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(\d{3}){1,2}Z", re.ASCII)


def localised(text: str) -> str:
    """The text with our own UTC moments and stamps in it told in local time."""

    def local(match: re.Match[str]) -> str:
        if len(match[0]) == len("2021-01-01T11:59:59.000000Z"):
            return stamp(stamps.parse(match[0]))
        return moment(moments.to_datetime(moments.parse(match[0])))

    return _RFC3339.sub(local, text)


def clock_time(now: moments.Moment) -> str:
    return f"{moments.to_datetime(now).astimezone():%H:%M:%S}"


def relative(value: datetime, now: moments.Moment) -> str:
    """How far away a moment is: in 2 h, 3 min ago."""
    ahead = moments.from_datetime(value) - now
    return f"in {spoken(ahead / 1000)}" if ahead > 0 else f"{spoken(-ahead / 1000)} ago"


length = spoken
