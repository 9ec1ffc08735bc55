"""`oncue events send`: one event from the command line, or many from a file."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import click
import msgspec

from oncue.cli import output
from oncue.cli.app import App, common
from oncue.cli.events import COLOURS, DECISION_HEAD, decision_lines
from oncue.cli.times import EVENT_TIME
from oncue.core import stamp as stamps
from oncue.core.errors import InvalidInput, ServerError, StoreError
from oncue.core.event import SPELLINGS, read_event
from oncue.core.firing import Decision
from oncue.core.publication import Published
from oncue.core.stamp import Stamp
from oncue.wire import rules as wire

SENT_AT_ONCE = 1000  # as many as a server takes
DETAILED = 20  # events of which every decision is told
JOBS_SHOWN = 20
_ANY_TIME = 1 << 62  # how far ahead is too far is for the store to say
_POINTER = re.compile(r"/(\d+)(/.*)?", re.DOTALL)


class Sent(NamedTuple):
    place: str
    """Where it was written, for whoever has to correct it."""
    fields: dict[str, Any]


@click.command()
@click.argument("what", metavar="TYPE RESOURCE | FILE", nargs=-1, required=True)
@click.option("--at", type=EVENT_TIME, help="When it happened: RFC 3339, or local.  [default: now]")
@click.option("--id", "event_id", metavar="ID", help="Another name for it, of your own.")
@common
def send(app: App, what: tuple[str, ...], at: Stamp | None, event_id: str | None) -> None:
    """Let the rules decide on events. TYPE is FILE, TABLE, TIME_BASED. A file, or - for standard
    input, has JSON: one event, a list, or an event a line, each with eventType, eventTimestamp,
    eventResourceId and perhaps an eventId. All are checked before any is sent, and then applied in
    order.

    May be repeated: what the rules have decided on before is a duplicate and changes nothing.

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


def _one(app: App, kind: str, resource: str, at: Stamp | None, event_id: str | None) -> Sent:
    stamp = stamps.of_moment(app.cue.clock.now()) if at is None else at
    fields = {
        "eventType": kind,
        "eventTimestamp": stamps.render(stamp),
        "eventResourceId": resource,
    }
    if event_id is not None:
        fields["eventId"] = event_id
    return Sent("", fields)


def _from_file(name: str) -> list[Sent]:
    source = "standard input" if name == "-" else name
    with click.open_file(name, "rb") as file:
        text = file.read().removeprefix(codecs.BOM_UTF8)
    events = _whole(text, source) or _by_line(text, source)
    wrong = []
    for one in events:
        try:
            read_event(one.fields, _ANY_TIME)
        except InvalidInput as problem:
            wrong.append(f"  {one.place}: {problem}")
    if wrong:
        share = f"{len(wrong):,} of {len(events):,} events {'is' if len(wrong) == 1 else 'are'}"
        rest = [f"  … and {len(wrong) - DETAILED:,} more"] if len(wrong) > DETAILED else []
        told = [f"{source}: {share} wrong; nothing was sent.", *wrong[:DETAILED], *rest]
        raise InvalidInput("\n".join(told))
    return events


def _whole(text: bytes, source: str) -> list[Sent]:
    """One event or a list of them; nothing if it is not one document."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    if isinstance(found, dict) and "eventType" not in found and "events" in found:
        found = found["events"]
    listed = found if isinstance(found, list) else [found]
    if not listed:
        raise InvalidInput(f"{source}: holds no event.")
    return [Sent(f"event {number}", fields) for number, fields in enumerate(listed, 1)]


def _by_line(text: bytes, source: str) -> list[Sent]:
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            events.append(Sent(f"line {number}", msgspec.json.decode(line)))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
            said = str(problem).rstrip(".")
            raise InvalidInput(
                f"{source}: line {number} is not JSON: {said}. Nothing was sent."
            ) from None
    if not events:
        raise InvalidInput(f"{source}: holds no event.")
    return events


def _publish(app: App, events: Sequence[Sent]) -> list[Published]:
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


def _placed(problem: InvalidInput, some: Sequence[Sent], before: int) -> InvalidInput:
    """The refusal, in the words of whoever wrote the event."""
    match = _POINTER.fullmatch(problem.pointer)
    if match is None:
        return problem
    place, pointer = some[int(match[1])].place, match[2] or ""
    if not place:
        return InvalidInput(problem.detail, _ARGUMENTS.get(pointer, pointer))
    sent = f" {before:,} events before it were sent." if before else " Nothing was sent."
    return InvalidInput(f"{place}: {pointer}: {problem.detail}{sent}")


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
    click.echo(_summary(answers))
    if len(answers) > DETAILED:
        _tell_jobs(answers)


def _summary(answers: Sequence[Published]) -> str:
    decided = Counter(one.decision for answer in answers for one in answer.decisions)
    jobs = sum(len(answer.jobs) for answer in answers)
    known = sum(answer.duplicate for answer in answers)
    idle = sum(not answer.decisions for answer in answers)
    told = [_counted(len(answers), "event")]
    told += [f"{known:,} known already"] if known else []
    told += [f"{idle:,} that no rule waits for"] if idle else []
    told += [
        output.paint(f"{decided[one]:,} {one}", COLOURS[one]) for one in Decision if decided[one]
    ]
    return ", ".join([*told, f"{_counted(jobs, 'job')} created"])


def _tell_jobs(answers: Sequence[Published]) -> None:
    jobs = [job for answer in answers for job in answer.jobs]
    lines = [
        [output.clean(job.rule), output.stamp(job.instant), job.job_id] for job in jobs[:JOBS_SHOWN]
    ]
    if lines:
        output.table(["rule", "instant", "job"], lines)
    if len(jobs) > JOBS_SHOWN:
        output.note(f"… and {len(jobs) - JOBS_SHOWN:,} more jobs; --json tells of all.")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
