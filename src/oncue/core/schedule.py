"""A schedule: a recurring rule that makes a job, or an event, at every occurrence."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from oncue.core import duration, stamp, zone
from oncue.core.checks import choice, flag
from oncue.core.cron import Cron, Occurrence, cron
from oncue.core.errors import InvalidInput
from oncue.core.event import Event, EventType, check_type, event_resource, made_id
from oncue.core.ids import first_epoch
from oncue.core.job import NewJob
from oncue.core.moment import EPOCH, HORIZON_MS, LATEST, Moment, from_datetime, maybe_datetime
from oncue.core.queue import DEFAULT_QUEUE, check_name, check_queue_name

_SHORTEST_SECONDS = 1.0


class CatchUp(StrEnum):
    """What becomes of occurrences that could not be made in time, after an outage say."""

    ONCE = "once"
    ALL = "all"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens at an occurrence while the job of the one before is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Emission:
    """The event that a schedule publishes instead of making a job: type and resource as an event
    may have them, and in the form in which events have them."""

    event_type: str
    resource_id: str

    def __post_init__(self) -> None:
        kind = check_type(self.event_type, "/emits/eventType")
        resource = event_resource(kind, self.resource_id, "/emits/eventResourceId")
        object.__setattr__(self, "event_type", str(kind))
        object.__setattr__(self, "resource_id", resource)

    def as_dict(self) -> dict[str, str]:
        """As people write it."""
        return {"eventType": self.event_type, "eventResourceId": self.resource_id}


class Progress(NamedTuple):
    """How far a schedule has come. It changes with every occurrence, the settings do not."""

    next_at: Moment | None = None
    """The first occurrence of which nothing has been decided; None: there is none."""
    wake_at: Moment | None = None
    """When the recurrer looks at it."""
    last_at: Moment | None = None
    """The last occurrence that became a job or an event."""
    last_job_id: str | None = None


_NOWHERE = Progress()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The settings of a schedule, and how far it has come."""

    name: str
    cron: str | None = None
    every_seconds: float | None = None
    timezone: str = "UTC"
    queue: str = DEFAULT_QUEUE
    payload_json: bytes = b"null"
    owner: str | None = None
    emits: Emission | None = None
    catch_up: CatchUp = CatchUp.ONCE
    overlap: Overlap = Overlap.ALLOW
    paused: bool = False
    anchor_at: datetime = EPOCH
    """From when an interval counts."""
    zone_digest: str = ""
    """Of the rules of the time zone by which `next_at` was found."""
    created_at: datetime = EPOCH
    updated_at: datetime = EPOCH
    revision: int = 0
    """Given by the store, another after every change of the settings, never used again."""
    progress: Progress = _NOWHERE
    unfinished: bool = False
    """Whether the job of the last occurrence is unfinished; told by the store."""

    @property
    def payload(self) -> Any:
        """The payload of its jobs, read from JSON."""
        return json.loads(self.payload_json)

    @property
    def next_at(self) -> datetime | None:
        """The next occurrence that is not a job yet; of a paused one, the first left out."""
        return maybe_datetime(self.progress.next_at)

    @property
    def last_at(self) -> datetime | None:
        """The last occurrence that became a job or an event."""
        return maybe_datetime(self.progress.last_at)

    @property
    def settings(self) -> tuple[object, ...]:
        """What people chose. Of two schedules with the same, one can stand for the other."""
        timing = (self.cron, self.every_seconds, self.timezone)
        job = (self.queue, self.payload_json, self.owner, self.emits)
        return (self.name, *timing, *job, self.catch_up, self.overlap, self.paused)

    def is_set_as(self, other: Schedule) -> bool:
        """Whether both have the same settings and were timed by the same rules of the time zone."""
        return (self.settings, self.zone_digest) == (other.settings, other.zone_digest)

    @property
    def rhythm(self) -> tuple[object, ...]:
        """What decides when it happens, the anchor aside."""
        if self.every_seconds is not None:
            return (self.every_seconds,)
        return self.cron, self.timezone, self.zone_digest

    @property
    def is_ahead_of_time(self) -> bool:
        """Whether its jobs are made before they are due. Events are published at the occurrence
        itself, and whether the job before has ended is only known then."""
        return self.overlap is Overlap.ALLOW and self.emits is None


class Every(NamedTuple):
    """A fixed interval, counted from an anchor."""

    anchor_at: Moment
    every_ms: int

    def after(self, moment: Moment) -> Occurrence | None:
        """The first occurrence strictly after a moment; the anchor itself is none."""
        count = max(1, (moment - self.anchor_at) // self.every_ms + 1)
        at = self.anchor_at + count * self.every_ms
        return Occurrence(at) if at <= LATEST else None


Timing = Cron | Every


def timing(schedule: Schedule) -> Timing:
    """When it happens. `InvalidInput` if its time zone has gone from the database."""
    if schedule.every_seconds is not None:
        return Every(from_datetime(schedule.anchor_at), round(schedule.every_seconds * 1000))
    return cron(schedule.cron, schedule.timezone)


def check_schedule(wanted: Schedule) -> Schedule:
    """The schedule with its settings in their usual form, or what is wrong with them."""
    check_name(wanted.name, "a schedule")
    check_queue_name(wanted.queue)
    if (wanted.cron is None) == (wanted.every_seconds is None):
        raise InvalidInput("give either 'cron' or 'every_seconds'.", "/cron")
    flag(wanted.paused, "/paused")
    catch_up = choice(CatchUp, wanted.catch_up, "/catch_up")
    overlap = choice(Overlap, wanted.overlap, "/overlap")
    checked = replace(wanted, catch_up=catch_up, overlap=overlap)
    if checked.emits is not None and checked.overlap is not Overlap.ALLOW:
        raise InvalidInput("does not apply to events; leave it out with 'emits'.", "/overlap")
    rules = zone.zone(checked.timezone)
    if checked.every_seconds is not None:
        return replace(checked, every_seconds=_interval(checked.every_seconds), zone_digest="")
    expression = cron(checked.cron, rules.key)
    return replace(checked, cron=expression.expression, zone_digest=rules.digest)


def read_emission(value: object) -> Emission | None:
    """From `{"eventType": …, "eventResourceId": …}`."""
    if value is None or isinstance(value, Emission):
        return value
    if not isinstance(value, Mapping) or value.keys() != {"eventType", "eventResourceId"}:
        raise InvalidInput("takes eventType and eventResourceId, and nothing else.", "/emits")
    return Emission(value["eventType"], value["eventResourceId"])


def occurrence_id(name: str, at: Moment) -> str:
    """The id of the job of an occurrence: the same on every node. Later ones sort behind."""
    return f"s{at:012x}{hashlib.blake2b(name.encode(), digest_size=10).hexdigest()}"


def occurrence_job(schedule: Schedule, at: Moment, now: Moment) -> NewJob:
    job_id, payload = occurrence_id(schedule.name, at), schedule.payload_json
    job = NewJob(job_id, schedule.queue, at, payload, 0, now, owner=schedule.owner)
    return job._replace(epoch=first_epoch(now))


def occurrence_event(schedule: Schedule, at: Moment) -> Event:
    """The event of an occurrence, stamped with its moment: the same on every node. Type and
    resource are part of the id, so that another `emits` is another event and not a clash."""
    assert schedule.emits is not None, "the schedule makes jobs"
    kind, resource = EventType(schedule.emits.event_type), schedule.emits.resource_id
    stamped = stamp.of_moment(at)
    fact = made_id(kind, resource, stamped)
    return Event(f"{occurrence_id(schedule.name, at)}{fact[:16]}", kind, resource, stamped)


def _interval(value: object) -> float:
    length = duration.seconds(value, "/every_seconds")
    if not _SHORTEST_SECONDS <= length <= HORIZON_MS / 1000:
        raise InvalidInput("must be at least 1 second and at most 100 years.", "/every_seconds")
    return math.ceil(length * 1000 - 1e-6) / 1000
