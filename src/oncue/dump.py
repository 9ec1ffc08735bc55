"""The dump: a whole store as JSON lines that any store can take in.

    {"header": {"format": "oncue-dump", "version": 1, …}}
    {"queue": {"name": "mail", "sink": null, …}}        one for each queue
    {"schedule": {"name": …, "outcomes": […], …}}       one for each schedule
    {"rule": {"name": …, "lastInstant": …, …}}          one for each rule
    {"event": {"eventId": …, "decisions": […], …}}      one for each event, as they arrived
    {"job": {"id": …, "payload": {…}, …}}               one for each job, with its history
    {"mark": {"after": …, "jobs": 1000, "queues": 1}}   after each page: a dump can go on from here
    {"end": {"jobs": 1234, "queues": 1}}                without it the dump is torn

Payloads and results stand in the line as they are stored, byte for byte; what is not JSON on one
line travels as base64 instead. Moments are RFC 3339 in UTC, to the millisecond; instants to the
microsecond. Members at their default are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from oncue import intake
from oncue.core import ids, moment, stamp
from oncue.core.dossier import Dossier, EventDossier
from oncue.core.errors import InvalidInput
from oncue.core.event import read_event
from oncue.core.job import Attempt, Diagnostic, History, Job, Operation
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.queue import Queue, check_queue_name
from oncue.core.recurrence import Outcome
from oncue.core.rule import Rule, read_rule
from oncue.core.schedule import Schedule, check_schedule
from oncue.core.standing import Sighting, Sightings
from oncue.wire import rules as wire_rules
from oncue.wire import schedules as wire_schedules
from oncue.wire.converting import instant_text, read, time_text, written
from oncue.wire.formats import Instant, Time
from oncue.wire.schedules import ScheduleWithOutcomes

FORMAT = "oncue-dump"
VERSION = 1
_ANY_TIME: stamp.Stamp = 2**63 - 1

Natural = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]
T = TypeVar("T")


class Strict(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a line: nothing in it that this version does not know."""


class Header(Strict):
    format: str
    version: int
    oncue: str
    created_at: str
    store: dict[str, str]
    queue: str | None = None
    """The only queue in it; None: all of them."""


class Counts(Strict):
    jobs: Natural
    queues: Natural
    schedules: Natural = 0
    rules: Natural = 0
    events: Natural = 0


class Mark(Counts, kw_only=True):
    after: str
    """The id of the last job; empty: none was written."""
    event: Natural | None = None
    """The number of the last event, while events are written."""


class OperationLine(Strict):
    name: str
    state: str
    updated_at: str
    percent: float | None = None
    message: str | None = None
    result: Raw | UnsetType = UNSET
    result_base64: bytes | None = None


class DiagnosticLine(Strict):
    at: str
    code: str
    detail: str
    attempt: int
    epoch: int
    facts: dict[str, Any] = {}


class AttemptLine(Strict):
    attempt: int
    epoch: int
    claimed_at: str
    worker: str | None = None
    outcome: str | None = None
    ended_at: str | None = None


class JobLine(Strict):
    id: Name
    queue: str
    state: State
    due_at: str
    created_at: str
    updated_at: str
    payload: Raw | UnsetType = UNSET
    payload_base64: bytes | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    attempt: Natural = 0
    owner: str | None = None
    key: str | None = None
    expires_at: str | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=20)] | None = None
    timeout_seconds: float | None = None
    finished_at: str | None = None
    result: Raw | UnsetType = UNSET
    result_base64: bytes | None = None
    error: str | None = None
    message: str | None = None
    percent: float | None = None
    cancel_requested: bool = False
    epoch: Natural = 0
    worker: str | None = None
    lease_until: str | None = None
    attempt_base: Natural = 0
    operations: list[OperationLine] = []
    diagnostics: list[DiagnosticLine] = []
    attempts: list[AttemptLine] = []
    digest: bytes | None = None
    overlong_at: str | None = None
    strikes: Natural = 0
    ahead: bool = False
    hidden: bool = False
    rule: str | None = None
    instant: str | None = None
    schedule: str | None = None
    not_before: str | None = None
    refusals: Natural = 0


class Known(Strict):
    """What a rule knows of one of its dependencies."""

    newest: Instant | None = None
    """The stamp of the newest event that was ever accepted."""
    stale: bool = False


class RuleLine(wire_rules.Rule, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    known: list[Known]
    """In the order of the dependencies."""


class EventLine(
    wire_rules.LoggedEvent, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    accepted: list[Natural] = field(default_factory=list)
    """Positions of the decisions whose dependency still has the event among its accepted ones."""


class ScheduleLine(
    ScheduleWithOutcomes, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    zone_digest: str = ""
    wake_at: Time | None = None


class Line(Strict):
    """Exactly one of these."""

    header: Header | None = None
    queue: Queue | None = None
    schedule: ScheduleLine | None = None
    rule: RuleLine | None = None
    event: EventLine | None = None
    job: JobLine | None = None
    mark: Mark | None = None
    end: Counts | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)
_valid = msgspec.json.Decoder(Raw).decode


def encode(line: Line) -> bytes:
    return _encoder.encode(line) + b"\n"


def decode(line_text: bytes) -> Line:
    """What a line says; `InvalidInput` if it is none."""
    try:
        line = _decoder.decode(line_text)
    except RecursionError:
        raise InvalidInput("is not a line of a dump: it is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = str(error)  # may quote the line, and a terminal obeys what is not printable
        why = text if text.isprintable() else ascii(text)
        raise InvalidInput(f"is not a line of a dump: {why}.") from None
    fields = msgspec.structs.asdict(line)
    if sum(one is not None for one in fields.values()) != 1:
        raise InvalidInput(f"must be one of {', '.join(fields)}.")
    return line


def check_header(text: bytes) -> Header:
    """The first line, if this version of oncue can read what follows it."""
    try:
        header = msgspec.json.decode(text)["header"]
        known = header["format"] == FORMAT
        version = int(header["version"])
    except (msgspec.DecodeError, RecursionError, LookupError, TypeError, ValueError):
        known, version = False, 0
    if not known:
        raise InvalidInput("is not a dump of oncue; those begin with a header.")
    if version > VERSION:
        raise InvalidInput(
            f"the dump is of format {version}, but this oncue reads only up to {VERSION}. "
            f"Upgrade oncue to at least {header.get('oncue', 'the version that wrote it')}."
        )
    line = decode(text)
    assert line.header is not None
    return line.header


def job_line(dossier: Dossier) -> Line:
    """A job with everything that belongs to it."""
    job, history = dossier.job, dossier.history
    payload, payload_base64 = _embedded(job.payload_json)
    result, result_base64 = _embedded(job.result_json)
    line = JobLine(
        id=job.id,
        queue=job.queue,
        state=job.state,
        due_at=_text(job.due_at),
        created_at=_text(job.created_at),
        updated_at=_text(job.updated_at),
        payload=payload,
        payload_base64=payload_base64,
        priority=job.priority,
        attempt=job.attempt,
        owner=job.owner,
        key=job.key,
        expires_at=_maybe_text(job.expires_at),
        max_attempts=job.max_attempts,
        timeout_seconds=job.timeout_seconds,
        finished_at=_maybe_text(job.finished_at),
        result=result,
        result_base64=result_base64,
        error=job.error,
        message=job.message,
        percent=job.percent,
        cancel_requested=job.cancel_requested,
        epoch=job.epoch,
        worker=job.worker,
        lease_until=_maybe_text(job.lease_until),
        attempt_base=job.attempt_base,
        operations=[_operation_line(one) for one in history.operations],
        diagnostics=[_diagnostic_line(one) for one in history.diagnostics],
        attempts=[_attempt_line(one) for one in history.attempts],
        digest=dossier.digest,
        overlong_at=_maybe_text(dossier.overlong_at),
        strikes=dossier.strikes,
        ahead=dossier.ahead,
        hidden=dossier.hidden,
        rule=job.rule,
        instant=None if job.instant is None else stamp.render(stamp.from_datetime(job.instant)),
        schedule=job.schedule,
        not_before=_maybe_text(job.not_before),
        refusals=job.refusals,
    )
    return Line(job=line)


def dossier(line: JobLine) -> Dossier:
    """The job as it was; `InvalidInput` if it cannot have been so."""
    payload = _body(line.payload, line.payload_base64)
    if payload is None:
        raise InvalidInput(f"job {line.id!r} has no payload.")
    job = Job(
        id=line.id,
        queue=check_queue_name(line.queue, f"job {line.id!r}"),
        state=line.state,
        due_at=_moment(line.due_at),
        payload_json=payload,
        priority=line.priority,
        attempt=line.attempt,
        created_at=_moment(line.created_at),
        updated_at=_moment(line.updated_at),
        owner=line.owner,
        key=line.key,
        expires_at=_maybe_moment(line.expires_at),
        max_attempts=line.max_attempts,
        timeout_seconds=line.timeout_seconds,
        finished_at=_maybe_moment(line.finished_at),
        result_json=_body(line.result, line.result_base64),
        error=line.error,
        message=line.message,
        percent=line.percent,
        cancel_requested=line.cancel_requested,
        epoch=line.epoch,
        worker=line.worker,
        lease_until=_maybe_moment(line.lease_until),
        attempt_base=line.attempt_base,
        rule=line.rule,
        instant=_maybe_moment(line.instant),
        schedule=line.schedule,
        not_before=_maybe_moment(line.not_before),
        refusals=line.refusals,
    )
    found = Dossier(
        job,
        History(
            tuple(_operation(one) for one in line.operations),
            tuple(_diagnostic(one) for one in line.diagnostics),
            tuple(_attempt(one) for one in line.attempts),
        ),
        line.digest,
        _maybe_moment(line.overlong_at),
        line.strikes,
        line.ahead,
        line.hidden,
    )
    _check(found)
    return found


def rule_line(seen: Sightings) -> Line:
    known = [Known(instant_text(one.newest_stamp), one.stale) for one in seen.of]
    return Line(rule=written(RuleLine, seen.rule, known=known))


def seen_rule(line: RuleLine) -> Sightings:
    """The rule as it was; `InvalidInput` if it cannot have been so."""
    found = read(Rule, line)
    read_rule(found.name, found.dependencies, found.enabled, found.queue)
    if len(line.known) != len(found.dependencies):
        raise InvalidInput(f"rule {found.name!r} does not say what it knows of each dependency.")
    if (found.last_instant is None) != (found.last_job_id is None):
        raise InvalidInput(f"rule {found.name!r} has one of lastInstant and lastJobId, not both.")
    stamps = [None if one.newest is None else stamp.parse(one.newest) for one in line.known]
    seen = zip(stamps, line.known, strict=True)
    return Sightings(found, tuple(Sighting(None, newest, one.stale) for newest, one in seen))


def event_line(dossier: EventDossier) -> Line:
    event = msgspec.structs.asdict(written(wire_rules.Event, dossier.logged.event))
    accepted = list(dossier.accepted)
    return Line(event=written(EventLine, dossier.logged, accepted=accepted, **event))


def event_dossier(line: EventLine) -> EventDossier:
    """The event as it was; `InvalidInput` if it cannot have been so."""
    logged = line.read()
    read_event(logged.event.as_dict(), _ANY_TIME)
    if any(place >= len(logged.decisions) for place in line.accepted):
        raise InvalidInput(f"event {logged.event.id!r} counts a decision that it does not have.")
    return EventDossier(logged, tuple(line.accepted))


def schedule_line(schedule: Schedule, outcomes: Sequence[Outcome]) -> Line:
    return Line(
        schedule=written(
            ScheduleLine,
            schedule,
            last_job_id=schedule.progress.last_job_id,
            wake_at=time_text(schedule.progress.wake_at),
            outcomes=[written(wire_schedules.Outcome, one) for one in outcomes],
        )
    )


def schedule(line: ScheduleLine) -> tuple[Schedule, Sequence[Outcome]]:
    """The schedule as it was, and its outcomes; `InvalidInput` if it cannot have been so."""
    found = line.read()
    check_schedule(found)
    wake_at = None if line.wake_at is None else moment.parse(line.wake_at)
    if (wake_at is None) != (found.progress.next_at is None):
        raise InvalidInput(f"schedule {found.name!r} has one of next_at and wake_at, not both.")
    progress = found.progress._replace(wake_at=wake_at)
    return replace(found, progress=progress), [read(Outcome, one) for one in line.outcomes]


def _check(found: Dossier) -> None:
    """Refuse what no store would have let happen."""
    job, attempts = found.job, found.history.attempts
    held = bool(attempts) and attempts[-1].outcome is None
    wrong = None
    if (job.state in FINAL) != (job.finished_at is not None):
        wrong = f"is {job.state} " + ("with" if job.finished_at else "without") + " finished_at"
    elif (job.state in LIVE) != held:
        wrong = f"is {job.state}, but its last attempt " + ("goes on" if held else "is over")
    elif job.state is State.SCHEDULED and job.cancel_requested:
        wrong = "is scheduled, but a cancel was requested"
    elif job.state is not State.SCHEDULED and job.not_before is not None:
        wrong = f"is {job.state}, but put off"
    elif job.attempt < job.attempt_base:
        wrong = "has an attempt below its attempt_base"
    elif not _readable(job.payload_json) or not _readable(job.result_json):
        wrong = "has a payload or a result that is not JSON"
    if wrong is not None:
        raise InvalidInput(f"job {job.id!r} {wrong}.")
    ids.check_id(job.id, f"job {job.id!r}")
    intake.label(job.owner, f"job {job.id!r}: owner")
    intake.label(job.key, f"job {job.id!r}: key")


def _readable(body: bytes | None) -> bool:
    try:
        return body is None or json.loads(body) is not Ellipsis
    except (ValueError, RecursionError):
        return False


def _embedded(body: bytes | None) -> tuple[Raw | UnsetType, bytes | None]:
    """JSON as a part of the line, or base64 where it would not come out as it went in."""
    if body is None:
        return UNSET, None
    try:
        body.decode()
        alike = b"\n" not in body and b"\r" not in body and bytes(_valid(body)) == body
    except (msgspec.DecodeError, UnicodeDecodeError):
        alike = False
    return (Raw(body), None) if alike else (UNSET, body)


def _body(embedded: Raw | UnsetType, base64: bytes | None) -> bytes | None:
    if base64 is not None:
        return base64
    return bytes(embedded) if isinstance(embedded, Raw) else None


def _operation_line(one: Operation) -> OperationLine:
    result, base64 = _embedded(one.result)
    told = (one.percent, one.message)
    return OperationLine(one.name, one.state, _text(one.updated_at), *told, result, base64)


def _operation(line: OperationLine) -> Operation:
    result = _body(line.result, line.result_base64)
    told = (line.percent, line.message)
    return Operation(line.name, line.state, _moment(line.updated_at), *told, result)


def _diagnostic_line(one: Diagnostic) -> DiagnosticLine:
    return DiagnosticLine(
        _text(one.at), one.code, one.detail, one.attempt, one.epoch, dict(one.facts)
    )


def _diagnostic(line: DiagnosticLine) -> Diagnostic:
    at = _moment(line.at)
    return Diagnostic(at, line.code, line.detail, line.attempt, line.epoch, line.facts)


def _attempt_line(one: Attempt) -> AttemptLine:
    claimed_at, ended_at = _text(one.claimed_at), _maybe_text(one.ended_at)
    return AttemptLine(one.attempt, one.epoch, claimed_at, one.worker, one.outcome, ended_at)


def _attempt(line: AttemptLine) -> Attempt:
    claimed_at, ended_at = _moment(line.claimed_at), _maybe_moment(line.ended_at)
    return Attempt(line.attempt, line.epoch, claimed_at, line.worker, line.outcome, ended_at)


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")[:-6] + "Z"


def _maybe_text(at: datetime | None) -> str | None:
    return None if at is None else _text(at)


def _moment(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise InvalidInput(f"{text!r} is not an RFC 3339 time with an offset.")
    return at.astimezone(UTC)


def _maybe_moment(text: str | None) -> datetime | None:
    return None if text is None else _moment(text)
