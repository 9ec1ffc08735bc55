"""`oncue jobs list`: one page of jobs, or a view that stays up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import click

from oncue.cli import output
from oncue.cli.app import App, Command, common
from oncue.cli.nouns import note_more
from oncue.cli.times import TIME
from oncue.core.cursor import MOST_ITEMS, Cursor, Page
from oncue.core.job import Job
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import Moment, from_datetime
from oncue.core.queue import default_queue
from oncue.usecases import intake

T = TypeVar("T")
WATCH_SECONDS = 1.0
LIMIT = 50
MOST = 10_000
NO_SUCH_JOBS = "There are no such jobs."


def filters(command: Command) -> Command:
    """The options that say which jobs; a command gets them by name."""
    states = click.Choice([str(state) for state in State])
    for decorate in (
        click.option("--due-before", type=TIME, help="Due before then."),
        click.option("--due-after", type=TIME, help="Due then or later: RFC 3339, or local."),
        click.option("--key", metavar="TEXT", help="Only with this key."),
        click.option("--owner", metavar="TEXT", help="Only of this owner."),
        click.option("--state", type=states, help="Only in this state."),
        click.option("--queue", help="Only of this queue."),
    ):
        command = decorate(command)
    return command


def paged(command: Command) -> Command:
    """The options that say which part of a list."""
    cursor = click.option("--cursor", help="Continue where the last list ended.")
    return click.option("--limit", type=click.IntRange(1, MOST), default=LIMIT)(cursor(command))


@click.command("list")
@filters
@paged
@click.option("--watch", is_flag=True, help="Redraw every second until q or Ctrl-C.")
@common
def list_(app: App, /, limit: int, cursor: str | None, watch: bool, **given: Any) -> None:
    """List jobs in the order of their due time.

    $ oncue jobs list --queue mail --state scheduled
    $ oncue jobs list --owner ada --json | jq -r '.items[].id'
    $ oncue jobs list --due-before '2026-12-01 00:00' --watch
    """
    read = partial(gathered, partial(app.cue.page, intake.job_filter(given)), cursor)
    if watch:
        _watch(app, read, limit)
        return
    items, after = read(limit)
    if app.as_json:
        _write(items, after)
        return
    if items:
        draw(app, items)
    else:
        is_filtered = cursor is not None or any(value is not None for value in given.values())
        output.note(NO_SUCH_JOBS if is_filtered else "There are no jobs.")
    note_more(after)


def _write(items: list[Job], after: Cursor | None) -> None:
    from oncue.wire import jobs as wire
    from oncue.wire.converting import written

    output.document(wire.Jobs([written(wire.StandingJob, job) for job in items], after))


def gathered(
    page: Callable[[Cursor | None, int], Page[T]], after: Cursor | None, limit: int
) -> tuple[list[T], Cursor | None]:
    """As many items as wanted, however short the pages are, and where the next list begins."""
    items: list[T] = []
    while True:
        found = page(after, min(limit - len(items), MOST_ITEMS))
        items += found.items
        if found.next is None or len(items) >= limit:
            return items, found.next
        after = found.next


def draw(app: App, items: list[Job]) -> None:
    """Jobs as a table."""
    output.table(*_table(app, items, output.table_width()))


def _watch(app: App, read: Callable[[int], tuple[list[Job], str | None]], limit: int) -> None:
    from oncue.cli import live

    if app.as_json:
        raise click.UsageError("--watch draws on a terminal; leave out --json, or --watch.")
    if not live.possible():
        raise click.UsageError("--watch needs a terminal; without one, leave it out.")

    def frame(columns: int, lines: int) -> list[str]:
        room = max(1, lines - 5)  # title, gap, heads, the line below, the cursor's own
        items, after = read(min(limit, room))
        table = output.columned(*_table(app, items, columns), width=columns)
        shown = table if items else [NO_SUCH_JOBS]
        title = f"{output.clock_time(app.cue.clock.now())}   {len(items)} jobs   q quits"
        return [title, "", *shown, *([] if after is None else ["more below"])]

    live.show(frame, WATCH_SECONDS)


def _table(app: App, items: list[Job], width: int | None) -> tuple[list[str], list[list[str]]]:
    """Heads and lines. Columns that would be empty are left out, and on a narrow terminal the
    absolute time, which the relative one stands for."""
    head = ["id", "queue", "state", "due", "at", "attempt", "owner", "key", "note"]
    allowed = {queue.name: queue.max_attempts for queue in app.cue.queues()}
    now = app.cue.clock.now()
    lines = [_line(allowed, job, now) for job in items]
    kept = [place for place in range(len(head)) if place < 6 or any(line[place] for line in lines)]
    if width is not None:
        widths = [max(output.breadth(line[p]) for line in [head, *lines]) + 2 for p in kept]
        if sum(widths) - (widths[-1] if kept[-1] == 8 else 0) > width:
            kept.remove(head.index("at"))
    return [head[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _line(allowed: Mapping[str, int], job: Job, now: Moment) -> list[str]:
    most = job.max_attempts or allowed.get(job.queue) or default_queue(job.queue).max_attempts
    return [
        job.id,
        job.queue,
        output.state(job.state) + (" (cancelling)" if job.cancel_requested else ""),
        output.relative(job.due_at, now),
        output.moment(job.due_at)[:19],
        f"{job.attempt - job.attempt_base}/{most}",
        output.clean(job.owner),
        output.clean(job.key),
        _note(job, now),
    ]


def _note(job: Job, now: Moment) -> str:
    """What the job last said: how far it is and its message, or the error of what failed. Of a job
    that is put off also when it is offered to its sink again."""
    percent = "" if job.percent is None else f"{job.percent:.0f} %"
    text = output.clean(job.message if job.state in LIVE else job.error or job.message)
    if job.not_before is not None and from_datetime(job.not_before) > now:
        text = f"put off, again {output.relative(job.not_before, now)}: {text}"
    return " ".join(part for part in (percent, text) if part)
