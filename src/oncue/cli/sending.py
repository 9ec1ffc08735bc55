"""`oncue events send`: one event from the command line, or many from a file."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import click
import msgspec

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.events import COLOURS, DECISION_HEAD, decision_lines
from oncue.cli.progress import counted
from oncue.cli.times import EVENT_TIME
from oncue.clock import SystemClock
from oncue.core import stamp as stamps
from oncue.core.errors import InvalidInput, ServerError, StoreError
from oncue.core.event import SPELLINGS, read_event
from oncue.core.firing import Decision
from oncue.core.publication import Published
from oncue.core.stamp import Stamp
from oncue.core.text import why_not_json
from oncue.wire import rules as wire

SENT_AT_ONCE = 1000  # as many as a server takes
DETAILED = 20  # events of which every decision is told
JOBS_SHOWN = 20
_ANY_TIME = 1 << 62  # how far ahead is too far is for the store to say
_NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
_POINTER = re.compile(r"/(\d+)(/.*)?", re.DOTALL)


class TypedEvent(NamedTuple):
    place: str
    """Where it was written, for error messages; empty: on the command line."""
    fields: dict[str, Any]


@click.command()
@click.argument("what", metavar="TYPE RESOURCE | FILE", nargs=-1, required=True)
@click.option("--at", type=EVENT_TIME, help="When it happened: RFC 3339, or local.  [default: now]")
@click.option("--id", "event_id", metavar="ID", help="Another name for the event, of your choice.")
@common
def send(app: App, what: tuple[str, ...], at: Stamp | None, event_id: str | None) -> None:
    """Send events to the rules. TYPE is FILE, TABLE, TIME_BASED. A file, or - for standard input,
    has JSON: one event, a list, or one event per line, each with eventType, eventTimestamp,
    eventResourceId and optionally an eventId. All are checked before any is sent, and then applied
    in order.

    May be repeated: an event that the rules have decided on is a duplicate and changes nothing.

    $ oncue events send FILE /in/a.csv
    $ oncue events send TABLE ORDERS --at '2026-12-01 12:30'
    $ oncue events send events.json
    $ zcat events.ndjson.gz | oncue events send -
    """
    app.may_create = True
    if len(what) > 2:
        raise click.UsageError("give TYPE and RESOURCE of one event, or one FILE of many.")
    if len(what) == 2:
        events = [_one(app, what[0], what[1], at, event_id)]
    elif what[0] in SPELLINGS:
        raise click.UsageError(f"which {what[0]}? Give the RESOURCE too.")
    elif at is not None or event_id is not None:
        raise click.UsageError("--at and --id go with TYPE and RESOURCE; a file tells its own.")
    else:
        events = _from_file(what[0])
    _tell(app, _publish(app, events))


def _one(app: App, kind: str, resource: str, at: Stamp | None, event_id: str | None) -> TypedEvent:
    clock = SystemClock() if app.is_missing else app.cue.clock
    stamp = stamps.of_moment(clock.now()) if at is None else at
    fields = {
        "eventType": kind,
        "eventTimestamp": stamps.render(stamp),
        "eventResourceId": resource,
        "eventId": event_id,
    }
    if app.is_missing:  # an event that is refused leaves no empty store behind
        try:
            read_event(fields, _ANY_TIME)
        except InvalidInput as problem:
            raise _named(problem.detail, problem.pointer) from None
    return TypedEvent("", fields)


def _from_file(name: str) -> list[TypedEvent]:
    source = "standard input" if name == "-" else name
    with click.open_file(name, "rb") as file:
        text = file.read().removeprefix(codecs.BOM_UTF8)
    events = _whole(text)
    if events is None:
        events = list(_by_line(text, source))
    if not events:
        raise InvalidInput(f"{source}: holds no event.")
    wrong = []
    for one in events:
        try:
            read_event(one.fields, _ANY_TIME)
        except InvalidInput as problem:
            wrong.append(f"  {one.place}: {problem}")
    if wrong:
        share = f"{len(wrong):,} of {len(events):,} events {'is' if len(wrong) == 1 else 'are'}"
        rest = [f"  … and {len(wrong) - DETAILED:,} more"] if len(wrong) > DETAILED else []
        lines = [f"{source}: {share} wrong; nothing was sent.", *wrong[:DETAILED], *rest]
        raise InvalidInput("\n".join(lines))
    return events


def _whole(text: bytes) -> list[TypedEvent] | None:
    """One event or a list of them; None if it is not one document."""
    try:
        found = msgspec.json.decode(text)
    except _NOT_JSON:
        return None
    if isinstance(found, dict) and "eventType" not in found and "events" in found:
        found = found["events"]
    listed = found if isinstance(found, list) else [found]
    return [TypedEvent(f"event {number}", fields) for number, fields in enumerate(listed, 1)]


def _by_line(text: bytes, source: str) -> Iterator[TypedEvent]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield TypedEvent(f"line {number}", msgspec.json.decode(line))
            except _NOT_JSON as problem:
                why = why_not_json(problem)
                raise InvalidInput(
                    f"{source}: line {number} is not JSON: {why}. Nothing was sent."
                ) from None


def _publish(app: App, events: Sequence[TypedEvent]) -> list[Published]:
    answers: list[Published] = []
    rest = iter(events)
    while some := list(islice(rest, SENT_AT_ONCE)):
        try:
            answers += app.cue.publish([one.fields for one in some])
        except InvalidInput as problem:
            raise _placed(problem, some, len(answers)) from None
        except (KeyboardInterrupt, StoreError, ServerError):
            if answers:
                output.note(f"Stopped after {len(answers):,} events. It may be repeated as it is.")
            raise
    return answers


def _placed(problem: InvalidInput, some: Sequence[TypedEvent], before: int) -> InvalidInput:
    """The refusal, with the place at which the event was written."""
    match = _POINTER.fullmatch(problem.pointer)
    if match is None:
        return problem
    place, pointer = some[int(match[1])].place, match[2] or ""
    if not place:
        return _named(problem.detail, pointer)
    sent = f" {before:,} events before it were sent." if before else " Nothing was sent."
    return InvalidInput(f"{place}: {pointer}: {problem.detail}{sent}")


def _named(detail: str, pointer: str) -> InvalidInput:
    """The refusal of an event that was given by arguments."""
    return InvalidInput(detail, _ARGUMENTS.get(pointer, pointer))


_ARGUMENTS = {
    "/eventType": "TYPE",
    "/eventResourceId": "RESOURCE",
    "/eventTimestamp": "--at",
    "/eventId": "--id",
}


def _tell(app: App, answers: list[Published]) -> None:
    if app.as_json:
        output.document(wire.Published.of(answers))
        return
    if len(answers) <= DETAILED and any(one.decisions for one in answers):
        lines = [line for one in answers for _, line in decision_lines(one)]
        output.table(DECISION_HEAD, lines)
    jobs = [job for answer in answers for job in answer.jobs]
    click.echo(f"{_summary(answers)}, {counted(len(jobs), 'job')} created")
    if len(answers) > DETAILED and jobs:
        lines = [
            [output.clean(job.rule), output.stamp(job.instant), job.job_id]
            for job in jobs[:JOBS_SHOWN]
        ]
        output.table(["rule", "instant", "job"], lines)
        if len(jobs) > JOBS_SHOWN:
            output.note(f"… and {len(jobs) - JOBS_SHOWN:,} more jobs; --json tells of all.")


def _summary(answers: Sequence[Published]) -> str:
    decided = Counter(one.decision for answer in answers for one in answer.decisions)
    duplicates = sum(answer.duplicate for answer in answers)
    idle = sum(not answer.decisions for answer in answers)
    parts = [counted(len(answers), "event")]
    parts += [f"{duplicates:,} known already"] if duplicates else []
    parts += [f"{idle:,} that no rule waits for"] if idle else []
    parts += [
        output.paint(f"{decided[one]:,} {one}", COLOURS[one]) for one in Decision if decided[one]
    ]
    return ", ".join(parts)
