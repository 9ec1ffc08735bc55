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
microsecond. Fields at their default are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field, structs

from oncue.core import stamp
from oncue.core.cursor import Cursor
from oncue.core.dumped import DumpedEvent, DumpedJob
from oncue.core.errors import InvalidInput
from oncue.core.event import read_event
from oncue.core.job import Job, Operation
from oncue.core.payload import unkeepable
from oncue.core.queue import Queue
from oncue.core.recurrence import Outcome
from oncue.core.rule import Rule, read_rule
from oncue.core.schedule import Schedule, check_schedule
from oncue.core.standing import Sighting, Sightings
from oncue.wire import jobs
from oncue.wire import rules as wire_rules
from oncue.wire import schedules as wire_schedules
from oncue.wire.converting import read, written
from oncue.wire.formats import Instant, Time

FORMAT = "oncue-dump"
VERSION = 1
QUOTED = 200  # characters of a line that an error shows
_ANY_TIME: stamp.Stamp = 2**63 - 1

Natural = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1)]


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


class DumpCounts(Strict):
    jobs: Natural
    queues: Natural
    schedules: Natural = 0
    rules: Natural = 0
    events: Natural = 0

    def add(self, part: Part) -> None:
        """Count a line, if it is one of these nouns."""
        name = f"{KINDS[type(part)]}s"
        if name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + 1)

    def __str__(self) -> str:
        """12 jobs and 1 queue; other nouns only if there are some."""
        first, *others, last = [
            f"{count:,} {name.removesuffix('s') if count == 1 else name}"
            for name, count in structs.asdict(self).items()
            if count or name in ("jobs", "queues")
        ]
        return f"{', '.join([first, *others])} and {last}"


class PageMark(DumpCounts, kw_only=True):
    """Where the dump goes on."""

    after: Cursor
    """Of the jobs; empty: none was written."""
    event: Cursor | Natural | None = None
    """Of the events, while they are written. Earlier versions wrote it as a number."""


class OperationLine(jobs.JobOperation, Strict):
    # Here and below, fields of an answer get a type that is not its subtype: a line is never used
    # as an answer.
    result: Raw | UnsetType = UNSET  # type: ignore[assignment]
    result_base64: bytes | None = None

    @classmethod
    def of(cls, one: Operation) -> OperationLine:
        return written(cls, one, **_exact("result", one.result))

    def read(self) -> Operation:
        return read(Operation, self, result=_body(self.result, self.result_base64))


class DiagnosticLine(jobs.Diagnostic, forbid_unknown_fields=True):
    pass


class AttemptLine(jobs.Attempt, forbid_unknown_fields=True, kw_only=True):
    """Not `Strict`: restores of this format ask for the epoch, which is 0 if a sink had the job."""

    worker: str | None = None
    outcome: str | None = None


class JobLine(jobs.JobWithHistory, Strict, kw_only=True):
    """A job as HTTP shows it, and everything else that a store knows of it."""

    id: Name
    payload: Raw | UnsetType = UNSET  # type: ignore[assignment]
    payload_base64: bytes | None = None
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    attempt: Natural = 0
    max_attempts: Annotated[int, Meta(ge=1, le=20)] | None = None
    result: Raw | UnsetType = UNSET  # type: ignore[assignment]
    result_base64: bytes | None = None
    epoch: Natural = 0
    attempt_base: Natural = 0
    operations: list[OperationLine] = field(default_factory=list)  # type: ignore[assignment]
    diagnostics: list[DiagnosticLine] = field(default_factory=list)  # type: ignore[assignment]
    attempts: list[AttemptLine] = field(default_factory=list)  # type: ignore[assignment]
    digest: bytes | None = None
    overlong_at: Time | None = None
    strikes: Natural = 0
    ahead: bool = False
    hidden: bool = False
    not_before: Time | None = None
    refusals: Natural = 0

    @classmethod
    def of_dumped(cls, dumped: DumpedJob) -> JobLine:
        job = dumped.job
        bodies = _exact("payload", job.payload_json) | _exact("result", job.result_json)
        return written(cls, job, dumped.history, dumped, **bodies)

    def dumped(self) -> DumpedJob:
        payload = _body(self.payload, self.payload_base64)
        if payload is None:
            raise InvalidInput(f"job {self.id!r} has no payload.")
        result = _body(self.result, self.result_base64)
        job = read(Job, self, payload_json=payload, result_json=result)
        return read(DumpedJob, self, job=job, history=self.history())


class Known(Strict):
    """What a rule knows of one of its dependencies."""

    newest_stamp: Instant | None = field(default=None, name="newest")
    """Of the newest event that was ever accepted."""
    stale: bool = False


class RuleLine(wire_rules.Rule, Strict, kw_only=True):
    known: list[Known]
    """In the order of the dependencies."""

    @classmethod
    def of_dumped(cls, seen: Sightings) -> RuleLine:
        return written(cls, seen.rule, known=[written(Known, one) for one in seen.of])

    def dumped(self) -> Sightings:
        """The rule as it was; `InvalidInput` if it cannot have been so."""
        rule = read(Rule, self)
        read_rule(rule.name, rule.dependencies, rule.enabled, rule.queue)
        if len(self.known) != len(rule.dependencies):
            raise InvalidInput(f"rule {rule.name!r} does not say what it knows of each dependency.")
        if (rule.last_instant is None) != (rule.last_job_id is None):
            raise InvalidInput(
                f"rule {rule.name!r} has one of lastInstant and lastJobId, not both."
            )
        return Sightings(rule, tuple(read(Sighting, one, newest=None) for one in self.known))


class EventLine(wire_rules.LoggedEvent, Strict, kw_only=True):
    accepted: Sequence[Natural] = ()
    """Positions of the decisions whose dependency still has the event among its accepted ones."""
    other_ids: Sequence[str] = ()
    """Under which the same fact came again."""

    @classmethod
    def of_dumped(cls, dumped: DumpedEvent) -> EventLine:
        return written(cls, dumped, dumped.logged, dumped.logged.event)

    def dumped(self) -> DumpedEvent:
        """The event as it was; `InvalidInput` if it cannot have been so."""
        logged = self.read()
        dumped = DumpedEvent(logged, tuple(self.accepted), tuple(self.other_ids))
        for event in dumped.under_each_id:
            read_event(event.as_dict(), _ANY_TIME)
        if any(place >= len(logged.decisions) for place in self.accepted):
            raise InvalidInput(f"event {logged.event.id!r} has no such decision.", "/accepted")
        return dumped


class ScheduleLine(wire_schedules.ScheduleWithOutcomes, Strict, kw_only=True):
    zone_digest: str = ""
    wake_at: Time | None = None

    @classmethod
    def of_dumped(cls, schedule: Schedule, outcomes: Sequence[Outcome]) -> ScheduleLine:
        past = [written(wire_schedules.Outcome, one) for one in outcomes]
        return written(cls, schedule, schedule.progress, outcomes=past)

    def dumped(self) -> tuple[Schedule, list[Outcome]]:
        """The schedule as it was; `InvalidInput` if it cannot have been so."""
        found = self.read()
        check_schedule(found)
        if (self.wake_at is None) != (self.next_at is None):
            raise InvalidInput(f"schedule {found.name!r} has one of next_at and wake_at, not both.")
        if (found.cron is None) != (found.zone_digest == ""):
            raise InvalidInput("goes with 'cron', and only with that.", "/zone_digest")
        last_at, next_at = found.progress.last_at, found.progress.next_at
        if last_at is not None and next_at is not None and next_at <= last_at:
            raise InvalidInput("must lie after last_at.", "/next_at")
        outcomes = [read(Outcome, one) for one in self.outcomes]
        for place, one in enumerate(outcomes):
            if one.until < one.at or one.count == 0:
                raise InvalidInput("has an end before its beginning.", f"/outcomes/{place}")
        return found, outcomes


class _Line(Strict):
    """Exactly one of these."""

    header: Header | None = None
    queue: Queue | None = None
    schedule: ScheduleLine | None = None
    rule: RuleLine | None = None
    event: EventLine | None = None
    job: JobLine | None = None
    mark: PageMark | None = None
    end: DumpCounts | None = None


Part = Header | Queue | ScheduleLine | RuleLine | EventLine | JobLine | PageMark | DumpCounts
KINDS: dict[type, str] = dict(zip(get_args(Part), _Line.__struct_fields__, strict=True))

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)
_valid = msgspec.json.Decoder(Raw).decode


def encode(part: Part) -> bytes:
    return _encoder.encode({KINDS[type(part)]: part}) + b"\n"


def decode(line: bytes) -> Part:
    """What a line says; `InvalidInput` if it is none."""
    try:
        fields = structs.asdict(_decoder.decode(line))
    except RecursionError:
        raise InvalidInput("is not a line of a dump: it is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (found := _unkeepable(line)) is not None:
            raise found from None
        raise InvalidInput(f"is not a line of a dump: {_quoted(str(error))}.") from None
    parts: list[Part] = [part for part in fields.values() if part is not None]
    if len(parts) != 1:
        raise InvalidInput(f"must be one of {', '.join(fields)}.")
    return parts[0]


def _unkeepable(line: bytes) -> InvalidInput | None:
    """Where a line that cannot be read has half a character, or a number beyond all bounds."""
    try:
        return unkeepable(json.loads(line), "")
    except (ValueError, RecursionError):
        return None


def _quoted(text: str) -> str:
    """Text of a line, which may be long, and hold escape sequences for a terminal."""
    if len(text) > QUOTED:  # the place is at its end
        text = f"{text[: QUOTED // 2]}…{text[-QUOTED // 2 :]}"
    return text if text.isprintable() else ascii(text)


class _Header(Struct):
    """What the headers of all versions have."""

    format: str
    version: int
    oncue: str = "the version that wrote it"


def check_header(text: bytes) -> Header:
    """The first line, if this version of oncue can read what follows it."""
    try:
        header = msgspec.json.decode(text, type=dict[str, _Header])["header"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError):
        header = None
    if header is None or header.format != FORMAT:
        raise InvalidInput("is not a dump of oncue; those begin with a header.")
    if header.version > VERSION:
        raise InvalidInput(
            f"the dump is of format {header.version}, but this oncue reads only up to {VERSION}. "
            f"Upgrade oncue to at least {_quoted(header.oncue)}."
        )
    found = decode(text)
    assert isinstance(found, Header)
    return found


def _exact(name: str, body: bytes | None) -> dict[str, Any]:
    """The fields of a body: JSON as a part of the line, or base64 where it would not come out as it
    went in."""
    if body is not None and _fits(body):
        return {name: Raw(body), f"{name}_base64": None}
    return {name: UNSET, f"{name}_base64": body}


def _fits(body: bytes) -> bool:
    try:
        body.decode()
        return b"\n" not in body and b"\r" not in body and bytes(_valid(body)) == body
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _body(embedded: Raw | UnsetType, base64: bytes | None) -> bytes | None:
    if base64 is not None:
        return base64
    return bytes(embedded) if isinstance(embedded, Raw) else None
