"""Checks of input from callers: fields become a `NewJob`, a queue or a filter, or are refused."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

import msgspec

from oncue.core import duration, ids, moment
from oncue.core import payload as payloads
from oncue.core.checks import choice, is_number, whole
from oncue.core.duration import Duration
from oncue.core.errors import InvalidInput
from oncue.core.job import RARE, Job, JobFilter, NewJob
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import (
    DEFAULT_QUEUE,
    LARGEST_FACTOR,
    Queue,
    RetryPolicy,
    check_max_attempts,
    check_queue_name,
)
from oncue.core.text import TEXT_LIMIT, escaped, is_printable, legible


class JobFields(TypedDict, total=False):
    """What can be said of a new job, beside its payload. None says the same as leaving it out."""

    queue: str | None
    """Where it waits; "default" if not given."""
    due_at: datetime | str | None
    """From when on it may be handed over: an aware datetime, or RFC 3339. The past means now."""
    at: datetime | str | None
    """Another name for `due_at`."""
    delay: Duration | None
    """The same, counted from now: seconds, a timedelta, or ISO 8601 such as "PT15M"."""
    expires_at: datetime | str | None
    """When it is cancelled if it was not taken by then."""
    owner: str | None
    priority: int | None
    """From 0 to 9. Among due jobs, higher priority runs first."""
    key: str | None
    """At most one unfinished job of a queue has it."""
    if_exists: str | None
    """What happens to the unfinished job that has the key: "keep" or "replace"."""
    max_attempts: int | None
    timeout_seconds: Duration | None
    """How long an attempt may take."""
    id: str | None


class FilterFields(TypedDict, total=False):
    """Which jobs: those that fit all of it. None means any."""

    queue: str | None
    state: State | str | None
    owner: str | None
    key: str | None
    due_after: datetime | None
    """Due then or later."""
    due_before: datetime | None


ALLOWED = frozenset({"payload", *JobFields.__annotations__})
FIELDS = ["payload", *(name for name in JobFields.__annotations__ if name != "at")]
# A job with only these fields takes the short way.
_USUAL = frozenset({"payload", "queue", "due_at", "at", "delay", "priority"})
_NO_MORE = tuple(NewJob._field_defaults.values())
_UNTOUCHED = tuple(Job._field_defaults.values())
_SCHEDULED = State.SCHEDULED  # looked up once: an enumeration takes its time for it
_DEFAULTS = {"queue": DEFAULT_QUEUE, "priority": 0, "if_exists": "keep"}
_LABEL_LIMIT = 200
_WHOLE_FLOAT = re.compile(rb"[0-9](\.0(?![0-9])|e[0-9])")  # where a number may be one
LONGEST_SECONDS = moment.HORIZON_MS / 1000
_PLAIN_DELAY = 10**9  # seconds; below the horizon whatever the time is
MOMENTS = frozenset({"due_at", "at", "expires_at"})


def new_job(fields: Mapping[str, Any], now: Moment) -> NewJob:
    """The job that these fields describe; a delay counts from `now`."""
    is_usual = fields.keys() <= _USUAL
    if not is_usual:
        fields = {name: value for name, value in fields.items() if value is not None}
        if unknown := fields.keys() - ALLOWED:
            raise unknown_field(unknown)
    queue = fields.get("queue")
    if queue is None:
        queue = DEFAULT_QUEUE
    elif queue.__class__ is not str or queue not in _checked_queues:
        _remember_queue(check_queue_name(queue))
    priority, delay = fields.get("priority"), fields.get("delay")
    priority = 0 if priority is None else check_priority(priority)
    has_moment = "due_at" in fields or "at" in fields
    if not has_moment and delay.__class__ is int and 0 <= delay <= _PLAIN_DELAY:
        due_at = now + 1000 * delay  # by far the most common: the checks of `due` are not needed
    else:
        due_at = due(fields, now)
    body = payloads.encode(fields.get("payload"))
    chosen = None if is_usual else fields.get("id")
    if chosen is None:
        job_id = ids.mint(now, due_at, queue, priority)
        if is_usual:
            # As `NewJob(…)`, which takes twice the time.
            return tuple.__new__(NewJob, (job_id, queue, due_at, body, priority, now, *_NO_MORE))
    elif minted := ids.read(job_id := ids.check_id(chosen)):
        due_at = _due_as_said(minted, fields, now)
        ids.check_true(minted, queue, priority, due_at)
    rare = {name: check(fields[name]) for name, check in _CHECKS.items() if name in fields}
    if "expires_at" in fields:
        rare["expires_at"] = _ahead(fields["expires_at"], now, "/expires_at")
    if chosen is not None:
        rare |= {**digests(fields)._asdict(), "epoch": ids.first_epoch(now)}
    rare["replace"] = _replace(fields.get("if_exists", "keep"))
    return NewJob(job_id, queue, due_at, body, priority, now, **rare)


def due(fields: Mapping[str, Any], now: Moment) -> Moment:
    """The due time that `due_at`, `at` or `delay` gives; without any, now."""
    at, due_at, delay = fields.get("at"), fields.get("due_at"), fields.get("delay")
    if at is not None and due_at is not None:
        raise at_twice()
    if delay is None:
        if at is None and due_at is None:
            return now
        when, pointer = (at, "/at") if due_at is None else (due_at, "/due_at")
        return _ahead(when, now, pointer)
    if at is not None or due_at is not None:
        raise InvalidInput("give either due_at or delay, not both.", "/delay")
    return after(duration.seconds(delay, "/delay"), now, "/delay")


def _due_as_said(minted: ids.Minted, fields: Mapping[str, Any], now: Moment) -> Moment:
    """The due time of a job whose id says when it was minted: counted from then, so that the same
    fields may be sent again, however late."""
    due_at = due(fields, minted.created_at)
    moment.ahead(due_at, now, "/id")
    return due_at


def after(seconds: float, now: Moment, pointer: str) -> Moment:
    """The moment so long after `now`, rounded up; beyond a century is refused."""
    seconds = min(seconds, 2 * LONGEST_SECONDS)  # a number that is larger may have no milliseconds
    return moment.ahead(now + math.ceil(seconds * 1000), now, pointer)


def check_priority(value: object) -> int:
    return whole(value, 0, 9, "/priority")


def queue(name: str, settings: Mapping[str, Any]) -> Queue:
    """The queue that these settings describe; `retry` may be a mapping."""
    allowed = {f.name for f in fields(Queue)} - {"name", "paused"}
    for unknown in sorted(settings.keys() - allowed):
        raise InvalidInput(
            f"there is no such setting; the settings of a queue are {', '.join(sorted(allowed))}.",
            f"/{unknown}",
        )
    values = dict(settings)
    if not isinstance(values.get("sink"), str | None):
        raise InvalidInput("must be text such as 'log:', or None for a pulled queue.", "/sink")
    if "retry" in values:
        values["retry"] = _retry(values["retry"])
    for setting in ("lease_seconds", "timeout_seconds", "retention_seconds"):
        _refuse_endless(values.get(setting), f"/{setting}")
    return Queue(name, **values)


def check_lease(value: object, pointer: str = "/lease_seconds") -> float | None:
    """A lease: more than 0 seconds, at most a century; None means as the queue says."""
    if value is None:
        return None
    length = duration.seconds(value, pointer)
    if length < 0.001:
        raise InvalidInput("must be at least 0.001.", pointer)
    _refuse_endless(length, pointer)
    return length


def check_percent(value: object) -> float | None:
    """How much is done: a number from 0 to 100, or None for unknown."""
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= 100:
        raise InvalidInput("must be a number from 0 to 100.", "/percent")
    return value


def check_message(value: object, pointer: str = "/message") -> str | None:
    """A line for people, or None."""
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise InvalidInput(f"must be text of at most {TEXT_LIMIT} characters.", pointer)
    if value != legible(value):
        raise InvalidInput("contains NUL or half a character; send plain text.", pointer)
    return value


def label(value: object, pointer: str) -> str | None:
    """An owner or a key: printable text of 1 to 200 characters."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or len(value) > _LABEL_LIMIT:
        raise InvalidInput(f"must be text of 1 to {_LABEL_LIMIT} characters.", pointer)
    if not is_printable(value):
        raise InvalidInput("must be printable: no control characters.", pointer)
    return value


def job_filter(fields: Mapping[str, Any]) -> JobFilter:
    """Which jobs a listing shows; None means any."""
    for unknown in sorted(fields.keys() - FilterFields.__annotations__.keys()):
        raise unknown_filter(unknown)
    queue, state = fields.get("queue"), fields.get("state")
    after, before = fields.get("due_after"), fields.get("due_before")
    return JobFilter(
        None if queue is None else check_queue_name(queue),
        None if state is None else choice(State, state, "/state"),
        label(fields.get("owner"), "/owner"),
        label(fields.get("key"), "/key"),
        None if after is None else moment.from_datetime(after, "/due_after"),
        None if before is None else moment.from_datetime(before, "/due_before"),
    )


def unknown_filter(name: str) -> InvalidInput:
    known = ", ".join(FilterFields.__annotations__)
    return InvalidInput(f"there is no such option; the filters are {known}.", f"/{name}")


class Digests(NamedTuple):
    """See the fields of the same names of `NewJob`."""

    digest: bytes | None
    former_digest: bytes | None = None


def digests(fields: Mapping[str, Any]) -> Digests:
    """Of the fields as they were sent, in any order, and numbers by their value: 60 is 60.0. Fields
    with their default value are left out, so that it makes no difference whether they were sent."""
    sent = {
        "at" if name == "due_at" else name: value  # as in the digests that earlier versions stored
        for name, value in fields.items()
        if value is not None and (name not in _DEFAULTS or value != _DEFAULTS[name])
    }
    text = _in_order(sent)
    if not _WHOLE_FLOAT.search(text):
        return Digests(_hashed(text))
    by_value = _hashed(_in_order(_by_value(msgspec.json.decode(text))))
    former = _hashed(text)
    return Digests(by_value, None if former == by_value else former)


def _in_order(fields: object) -> bytes:
    return msgspec.json.encode(fields, order="deterministic")


def _hashed(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _by_value(value: Any) -> Any:
    """The same JSON, with whole numbers written as such."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _by_value(inner) for name, inner in value.items()}
    return [_by_value(inner) for inner in value] if isinstance(value, list) else value


def as_stored(new: NewJob) -> Job:
    """The job as the store has it right after creation."""
    due, created = moment.to_datetime(new.due_at), moment.to_datetime(new.created_at)
    usual = (new.id, new.queue, _SCHEDULED, due, new.payload, new.priority, 0, created, created)
    if new[RARE.start :] == _NO_MORE:
        # As `Job(…)`, which takes twice the time.
        return tuple.__new__(Job, usual + _UNTOUCHED)
    expires_at = moment.maybe_datetime(new.expires_at)
    rare = (new.owner, new.key, expires_at, new.max_attempts, new.timeout_seconds)
    return Job(*usual, *rare, epoch=new.epoch)


_checked_queues: set[str] = {DEFAULT_QUEUE}


def _remember_queue(name: str) -> None:
    if len(_checked_queues) < 10_000:
        _checked_queues.add(name)


def _ahead(value: object, now: Moment, pointer: str) -> Moment:
    if isinstance(value, datetime):
        return moment.ahead(moment.from_datetime(value, pointer), now, pointer)
    if isinstance(value, str):
        return moment.ahead(moment.parse(value, pointer), now, pointer)
    raise InvalidInput("give an aware datetime or an RFC 3339 text.", pointer)


def check_timeout(value: object) -> float:
    length = duration.seconds(value, "/timeout_seconds")
    if length <= 0:
        raise InvalidInput("must be more than 0.", "/timeout_seconds")
    _refuse_endless(length, "/timeout_seconds")
    return length


def _refuse_endless(length: object, pointer: str) -> None:
    """Ends of leases and timeouts are moments, and there is no moment after the last."""
    if isinstance(length, int | float) and length > LONGEST_SECONDS:
        raise InvalidInput("more than 100 years; choose a shorter time.", pointer)


def _retry(value: object) -> RetryPolicy:
    if isinstance(value, Mapping):
        try:
            value = RetryPolicy(**value)
        except TypeError:
            value = None
    if not isinstance(value, RetryPolicy):
        raise InvalidInput("takes initial_seconds, factor and max_seconds.", "/retry")
    if value.factor > LARGEST_FACTOR:
        raise InvalidInput(f"must be at most {LARGEST_FACTOR}.", "/retry/factor")
    _refuse_endless(value.initial_seconds, "/retry/initial_seconds")
    _refuse_endless(value.max_seconds, "/retry/max_seconds")
    return value


def _replace(value: object) -> bool:
    if value not in ("keep", "replace"):
        raise InvalidInput("must be 'keep' or 'replace'.", "/if_exists")
    return value == "replace"


def at_twice() -> InvalidInput:
    return InvalidInput("give either 'at' or 'due_at', not both.", "/due_at")


def unknown_field(names: Iterable[str]) -> InvalidInput:
    known = ", ".join(FIELDS)
    return InvalidInput(
        f"there is no such field; the fields of a job are {known}.",
        f"/{escaped(min(map(str, names)))}",
    )


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "owner": lambda value: label(value, "/owner"),
    "key": lambda value: label(value, "/key"),
    "max_attempts": check_max_attempts,
    "timeout_seconds": check_timeout,
}
