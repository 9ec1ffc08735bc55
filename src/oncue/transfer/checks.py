"""What a line of a dump may say: what the API would have let happen, and nothing else.

Each error names the place in the line, such as /job/attempts/0/epoch. A dump can come from
anywhere, and what a store has taken in once is not checked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import cache, partial
from typing import Any, NamedTuple, get_args, get_type_hints

from msgspec import Struct, structs

from oncue.core import ids, stamp
from oncue.core import payload as payloads
from oncue.core.checks import printable
from oncue.core.dumped import DumpedJob
from oncue.core.errors import InvalidInput
from oncue.core.job import Job
from oncue.core.lifecycle import FINAL, LIVE, State
from oncue.core.moment import HORIZON_MS, LATEST, Moment, from_datetime
from oncue.core.queue import Queue, check_name, check_queue_name
from oncue.core.text import TEXT_LIMIT
from oncue.usecases import intake
from oncue.wire.converting import read_time
from oncue.wire.dump import EventLine, JobLine, Part, RuleLine, ScheduleLine
from oncue.wire.formats import Instant, Time

LONGEST_TEXT = 4 * TEXT_LIMIT
"""Of any text but names: a diagnostic that quotes an error is longer than what a worker sends."""
LARGEST_NUMBER = 2**53 - 1
LONGEST_SINK = 2_000
LONGEST_TIME = 100  # characters
LONGEST_DIGEST = 64  # bytes
_NO_SETTINGS = ("name", "paused")


def check_part(kind: str, part: Part, now: Moment) -> None:
    """Refuse a part of a dump, of this kind, that the API would not have let happen. What it means
    as a whole is checked when it is read."""
    pointer = f"/{kind}"
    _check_value(part, pointer, min(now + HORIZON_MS, LATEST))
    if isinstance(part, Queue):
        _check_queue(part, pointer)
    elif isinstance(part, ScheduleLine):
        intake.label(part.owner, f"{pointer}/owner")
        payloads.check(bytes(part.payload), f"{pointer}/payload")
    elif isinstance(part, RuleLine):
        payloads.check(bytes(part.payload), f"{pointer}/payload")
    elif isinstance(part, EventLine):
        for place, decided in enumerate(part.decisions):
            intake.label(decided.rule, f"{pointer}/decisions/{place}/rule")
    elif isinstance(part, JobLine):
        _check_job_line(part, pointer)


def _check_queue(queue: Queue, pointer: str) -> None:
    settings = {name: value for name, value in asdict(queue).items() if name not in _NO_SETTINGS}
    _at(pointer, lambda: intake.queue(queue.name, settings))
    if queue.sink is not None:
        printable(queue.sink, LONGEST_SINK, f"{pointer}/sink")


def _check_job_line(line: JobLine, pointer: str) -> None:
    ids.check_id(line.id, f"{pointer}/id")
    check_queue_name(line.queue, f"{pointer}/queue")
    for name in ("owner", "key", "rule", "schedule"):
        intake.label(getattr(line, name), f"{pointer}/{name}")
    _at(pointer, lambda: intake.check_percent(line.percent))
    if line.timeout_seconds is not None:
        _at(pointer, lambda: intake.check_timeout(line.timeout_seconds))
    if line.digest is not None and len(line.digest) > LONGEST_DIGEST:
        raise InvalidInput(f"must be at most {LONGEST_DIGEST} bytes.", f"{pointer}/digest")
    for place, operation in enumerate(line.operations):
        inside = f"{pointer}/operations/{place}"
        check_name(operation.name, "an operation", f"{inside}/name")
        _at(inside, partial(intake.check_percent, operation.percent))
        _check_body(operation.read().result, f"{inside}/result")


def _at(pointer: str, check: Callable[[], object]) -> None:
    """Call a check, whose errors name a place below this one."""
    try:
        check()
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, pointer + problem.pointer) from None


def _check_body(body: bytes | None, pointer: str, most: int = payloads.LIMIT_BYTES) -> None:
    if body is not None:
        payloads.check(body, pointer, most)


class _Member(NamedTuple):
    name: str
    shown: str
    """As the line has it."""
    is_time: bool
    is_instant: bool


@cache
def _members(kind: type) -> list[_Member]:
    hints = get_type_hints(kind, include_extras=True)
    shown = (
        {one.name: one.encode_name for one in structs.fields(kind)}
        if issubclass(kind, Struct)
        else {name: name for name in hints}
    )
    return [
        _Member(name, shown[name], _is_any(hints[name], Time), _is_any(hints[name], Instant))
        for name in shown
    ]


def _is_any(hint: Any, wanted: Any) -> bool:
    return hint == wanted or wanted in get_args(hint)


def _check_value(value: object, pointer: str, latest: Moment) -> None:
    """Refuse what no store can keep, or what is longer than anything that a store writes."""
    if isinstance(value, str):
        _check_text(value, pointer)
    elif isinstance(value, int | float):
        if not 0 <= value <= LARGEST_NUMBER:
            raise InvalidInput(f"must be a number from 0 to {LARGEST_NUMBER:,}.", pointer)
    elif isinstance(value, Struct) or is_dataclass(value):
        kind: type = type(value)
        for member in _members(kind):
            inner = getattr(value, member.name)
            is_when = member.is_time or member.is_instant
            if inner or (is_when and inner == ""):  # what else is empty harms nobody
                _check_member(inner, member, f"{pointer}/{member.shown}", latest)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            _check_value(one, f"{pointer}/{place}", latest)
    elif isinstance(value, dict):
        payloads.encode(value, pointer)


def _check_member(value: object, member: _Member, pointer: str, latest: Moment) -> None:
    if isinstance(value, str) and member.is_time:
        _check_time(value, pointer, latest)
    elif isinstance(value, str) and member.is_instant:
        stamp.parse(value, pointer)
    else:
        _check_value(value, pointer, latest)


def _check_time(text: str, pointer: str, latest: Moment) -> None:
    try:
        is_near = 0 <= from_datetime(read_time(text[:LONGEST_TIME])) <= latest
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, pointer) from None
    if not is_near:
        raise InvalidInput("must lie after 1970, and at most 100 years ahead.", pointer)


def _check_text(text: str, pointer: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(f"must be text of at most {LONGEST_TEXT:,} characters.", pointer)
    if "\0" in text:
        raise InvalidInput("contains the NUL character, which not every store can keep.", pointer)


def check_job(found: DumpedJob) -> DumpedJob:
    """Refuse a job that no store would have let come to be."""
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
    if wrong is not None:
        raise InvalidInput(f"job {job.id!r} {wrong}.")
    _check_bodies(job)
    return found


def _check_bodies(job: Job) -> None:
    # The job of a rule tells of its events, beside the payload of the rule.
    most = payloads.LIMIT_BYTES * (1 if job.rule is None else 2)
    _check_body(job.payload_json, "/job/payload", most)
    _check_body(job.result_json, "/job/result")
