"""`oncue events`: list here; send in `sending`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from oncue.cli import output
from oncue.cli.app import App, Group, common
from oncue.cli.listing import gathered, paged
from oncue.cli.nouns import answer_list
from oncue.core.firing import Decision
from oncue.core.publication import Decided, EventFilter, EventPage, LoggedEvent, Published
from oncue.wire.rules import LoggedEvents

DECISION_HEAD = ["event time", "event", "decision", "rule", "job"]
JOB_ID = 28  # columns
COLOURS = {
    Decision.ACCEPTED: "green",
    Decision.DUPLICATE: "bright_black",
    Decision.STALE: "yellow",
    Decision.TOO_LATE: "yellow",
}


@click.group(cls=Group, places={"send": "oncue.cli.sending:send"})
def events() -> None:
    """Events, and what the rules decided on them.

    $ oncue events send FILE /in/a.csv
    $ oncue events list
    $ oncue events list --rule 'hourly load' --decision STALE
    """


@events.command("list")
@click.option("--rule", metavar="NAME", help="Only events on which this rule decided.")
@click.option(
    "--decision",
    type=click.Choice([str(one) for one in Decision], case_sensitive=False),
    help="Only events with this decision.",
)
@paged
@common
def list_(app: App, rule: str | None, decision: str | None, limit: int, cursor: str | None) -> None:
    """List events, the newest arrival first, and what the rules decided on them.

    $ oncue events list
    $ oncue events list --decision STALE
    $ oncue events list --rule 'hourly load' --json | jq '.items[].decisions'
    """
    wanted = EventFilter(
        None if rule is None else app.cue.rule(rule).name,
        None if decision is None else Decision(decision),
    )
    items, after = gathered(partial(app.cue.event_page, wanted), cursor, limit)
    now = app.cue.clock.now()
    head = ["received", *DECISION_HEAD]
    lines = [
        [output.relative(one.received_at, now) if first else "", *line]
        for one in items
        for first, line in decision_lines(one)
    ]
    if not output.has_room(head, lines, least=JOB_ID):
        head, lines = head[1:], [line[1:] for line in lines]
    nothing = "There are no events." if wanted == EventFilter() else "There are no such events."
    document = LoggedEvents.of(EventPage(items, after))
    answer_list(app, document, head, lines, nothing, after=after)


def decision_lines(one: LoggedEvent | Published) -> Iterator[tuple[bool, list[str]]]:
    """A line for each decision on an event, and whether it is the first: what the event is need not
    be told again."""
    name, width = output.clean(f"{one.event.type} {one.event.resource}"), output.table_width()
    event = [
        output.stamp(one.event.stamp),
        name if width is None else output.fit(name, max(16, width // 4)),
    ]
    if not one.decisions:
        yield True, [*event, "–", "", ""]
    for number, decided in enumerate(one.decisions):
        yield not number, [*(["", ""] if number else event), *_cells(decided)]


def _cells(decided: Decided) -> list[str]:
    times = f" × {decided.times}" if decided.times > 1 else ""
    job = decided.job_id or (f"none: {decided.suppressed}" if decided.suppressed else "")
    return [
        output.paint(str(decided.decision), COLOURS[decided.decision]) + times,
        output.clean(decided.rule),
        job,
    ]
