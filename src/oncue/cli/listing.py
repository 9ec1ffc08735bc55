"""`oncue jobs list`: one page of jobs, or a view that stays up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from oncue.cli import live, output
from oncue.cli.app import App, Cue, common
from oncue.cli.times import read_point
from oncue.core.errors import InvalidInput
from oncue.core.job import Job, JobFilter, Position
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import Moment, from_datetime
from oncue.core.queue import default_queue
from oncue.wire import jobs as wire
from oncue.wire.converting import written

WATCH_SECONDS = 1.0
LIMIT = 50
MOST = 10_000
LONGEST_PAGE = 500  # of a server


def filters(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which jobs; a command gets them by name."""
    states = click.Choice([str(state) for state in State])
    for decorate in (
        click.option("--due-before", metavar="TIME", help="Due before then."),
        click.option("--due-after", metavar="TIME", help="Due then or later: RFC 3339, or local."),
        click.option("--key", metavar="TEXT", help="Only with this key."),
        click.option("--owner", metavar="TEXT", help="Only of this owner."),
        click.option("--state", type=states, help="Only in this state."),
        click.option("--queue", help="Only of this queue."),
    ):
        command = decorate(command)
    return command


@click.command("list")
@filters
@click.option("--limit", type=click.IntRange(1, MOST), default=LIMIT, show_default=True)
@click.option("--cursor", help="Go on where the last list ended.")
@click.option("--watch", is_flag=True, help="Redraw every second until q or Ctrl-C.")
@common
def list_(app: App, /, limit: int, cursor: str | None, watch: bool, **given: Any) -> None:
    """List jobs in the order of their due time.

    $ oncue jobs list --queue mail --state scheduled
    $ oncue jobs list --owner ada --json | jq -r '.items[].id'
    $ oncue jobs list --due-before '2026-12-01 00:00' --watch
    """
    for name in ("due_after", "due_before"):
        given[name] = read_point(given[name], f"--{name.replace('_', '-')}")
    given["state"] = None if given["state"] is None else State(given["state"])
    view = View(JobFilter(**given), cursor, limit)
    if watch:
        _watch(app, view)
    elif app.as_json:
        page = view.read(app.cue)
        items = [written(wire.StandingJob, job) for job in page.items]
        output.document(wire.Jobs(items, page.next))
    else:
        _print(app, view)


@dataclass(frozen=True, slots=True)
class View:
    wanted: JobFilter
    after: str | None
    limit: int

    def read(self, cue: Cue, limit: int | None = None) -> Listed:
        """As many jobs as wanted, however short the pages are."""
        most = limit or self.limit
        items: list[Job] = []
        after = self.after
        while True:
            page = _page(cue, self.wanted, after, most - len(items))
            items += page.items
            if page.next is None or len(items) >= most:
                return Listed(items, page.next)
            after = page.next


class Listed(NamedTuple):
    items: list[Job]
    next: str | None
    """The cursor of the next page."""


def _page(cue: Cue, wanted: JobFilter, after: str | None, limit: int) -> Listed:
    """One page; a server's cursors are its own, and it has a longest page."""
    from oncue.scheduler import Scheduler

    if isinstance(cue, Scheduler):
        page = cue.page(wanted, None if after is None else _position(after), limit)
        return Listed(page.items, _cursor(page.next))
    remote = cue.page(wanted, after, min(limit, LONGEST_PAGE))
    return Listed(remote.items, remote.next)


def _print(app: App, view: View) -> None:
    page = view.read(app.cue)
    if not page.items:
        output.note("There are no such jobs." if view != _EVERYTHING else "There are no jobs.")
    else:
        draw(app, page.items)
    if page.next is not None:
        output.note(f"There are more; go on with --cursor {page.next}")


def draw(app: App, items: list[Job]) -> None:
    """Jobs as a table."""
    now = app.cue.clock.now()
    output.table(*_table(_attempts(app.cue), items, now, output.table_width()))


_EVERYTHING = View(JobFilter(), None, LIMIT)


def _watch(app: App, view: View) -> None:
    if app.as_json:
        raise click.UsageError("--watch draws on a terminal; leave out --json, or --watch.")
    if not live.possible():
        raise click.UsageError("--watch needs a terminal; without one, leave it out.")

    def frame(columns: int, lines: int) -> list[str]:
        room = max(1, lines - 5)  # title, gap, heads, the line below, the cursor's own
        page = view.read(app.cue, min(view.limit, room))
        now = app.cue.clock.now()
        table = _table(_attempts(app.cue), page.items, now, columns)
        shown = output.columned(*table, width=columns)
        more = ["more below"] if page.next is not None else []
        title = f"{output.clock_time(now)}   {len(page.items)} jobs   q quits"
        return [title, "", *(shown if page.items else ["There are no such jobs."]), *more]

    live.show(frame, WATCH_SECONDS)


def _attempts(cue: Cue) -> Mapping[str, int]:
    """How many attempts each queue allows."""
    return {queue.name: queue.max_attempts for queue in cue.queues()}


def _table(
    allowed: Mapping[str, int], items: list[Job], now: Moment, width: int | None
) -> tuple[list[str], list[list[str]]]:
    """Heads and lines. Columns that would be empty are left out, and on a narrow terminal the
    absolute time, which the relative one stands for."""
    head = ["id", "queue", "state", "due", "at", "attempt", "owner", "key", "note"]
    lines = [_line(allowed, job, now) for job in items]
    kept = [place for place in range(len(head)) if place < 6 or any(line[place] for line in lines)]
    at = head.index("at")
    if width is not None:
        widths = [max(output.breadth(line[p]) for line in [head, *lines]) + 2 for p in kept]
        if sum(widths) - (widths[-1] if kept[-1] == 8 else 0) > width:
            kept.remove(at)
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
        job.owner or "",
        job.key or "",
        _note(job, now),
    ]


def _note(job: Job, now: Moment) -> str:
    """What the job last said: how far it is and its message, or the error of what failed. Of a job
    that is put off also when it is offered to its sink again."""
    percent = "" if job.percent is None else f"{job.percent:.0f} %"
    said = output.clean(job.message if job.state in LIVE else job.error or job.message)
    if job.not_before is not None and from_datetime(job.not_before) > now:
        said = f"put off, again {output.relative(job.not_before, now)}: {said}"
    return " ".join(part for part in (percent, said) if part)


def _cursor(position: Position | None) -> str | None:
    return None if position is None else f"{position.due_at}.{position.id}"


def _position(cursor: str) -> Position:
    due_at, dot, job_id = cursor.partition(".")
    if not (dot and due_at.isascii() and due_at.isdigit() and len(due_at) <= 15):
        raise InvalidInput(
            f"{cursor!r} is not a cursor; take the one that the last list ended with.", "--cursor"
        )
    return Position(int(due_at), job_id)
