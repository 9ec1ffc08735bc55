"""From a server's JSON to the rules, events and answers that a `Scheduler` gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated

import msgspec

from oncue.core import stamp as stamps
from oncue.core.event import Event, EventType
from oncue.core.firing import Decision
from oncue.core.publication import Decided, EventPage, Fired, LoggedEvent, Published
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp
from oncue.core.standing import DependencyStanding, Interval, Standing, Validity


class DependencyBody(msgspec.Struct, rename="camel"):
    type: EventType
    resource_id: str
    life_duration: int

    def read(self) -> Dependency:
        return Dependency(self.type, self.resource_id, self.life_duration)


class RuleBody(msgspec.Struct, rename="camel"):
    name: str
    dependencies: list[DependencyBody]
    enabled: bool
    queue: str
    payload: msgspec.Raw
    created_at: datetime
    updated_at: datetime
    last_instant: datetime | None = None
    last_job_id: str | None = None

    def read(self) -> Rule:
        return Rule(
            self.name,
            tuple(one.read() for one in self.dependencies),
            self.enabled,
            self.queue,
            bytes(self.payload),
            self.created_at,
            self.updated_at,
            _stamp(self.last_instant),
            self.last_job_id,
        )


class RulesBody(msgspec.Struct):
    items: list[RuleBody]
    next_cursor: str | None = None


class DecidedBody(msgspec.Struct, rename="camel"):
    rule: str
    dependency: DependencyBody
    decision: Decision
    decided_at: datetime | None = None
    job_id: str | None = None
    suppressed: str | None = None
    times: int = 1

    def read(self) -> Decided:
        return Decided(
            self.rule,
            self.dependency.read(),
            self.decision,
            self.decided_at,
            self.job_id,
            self.suppressed,
            self.times,
        )


class FiredBody(msgspec.Struct, rename="camel"):
    rule: str
    job_id: str
    instant: datetime

    def read(self) -> Fired:
        return Fired(self.rule, self.job_id, stamps.from_datetime(self.instant))


class PublishedBody(msgspec.Struct, rename="camel"):
    event_id: str
    duplicate: bool
    decisions: list[DecidedBody]
    jobs: list[FiredBody]

    def read(self, sent: Event) -> Published:
        return Published(
            replace(sent, id=self.event_id),
            self.duplicate,
            tuple(one.read() for one in self.decisions),
            tuple(one.read() for one in self.jobs),
        )


class PublishedListBody(msgspec.Struct):
    events: list[PublishedBody]


class EventBody(msgspec.Struct, rename="camel"):
    event_id: str
    event_type: EventType
    event_timestamp: datetime
    event_resource_id: str

    def event(self) -> Event:
        at = stamps.from_datetime(self.event_timestamp)
        return Event(self.event_id, self.event_type, self.event_resource_id, at)


class LoggedBody(EventBody, kw_only=True, rename="camel"):
    received_at: datetime
    decisions: list[DecidedBody]

    def read(self) -> LoggedEvent:
        decisions = tuple(one.read() for one in self.decisions)
        return LoggedEvent(self.event(), self.received_at, decisions)


class EventsBody(msgspec.Struct):
    items: list[LoggedBody]
    next_cursor: Annotated[str, msgspec.Meta(pattern="^[0-9]{1,18}$")] | None = None

    def read(self) -> EventPage:
        after = None if self.next_cursor is None else int(self.next_cursor)
        return EventPage([one.read() for one in self.items], after)


class DependencyStandingBody(DependencyBody, kw_only=True, rename="camel"):
    validity: Validity
    event: EventBody | None = None
    valid_until: datetime | None = None
    missed_by_seconds: float | None = None

    def standing(self) -> DependencyStanding:
        return DependencyStanding(
            self.read(),
            self.validity,
            None if self.event is None else self.event.event(),
            _stamp(self.valid_until),
            self.missed_by_seconds,
        )


class StandingBody(msgspec.Struct, rename="camel"):
    at: datetime
    met: bool
    enabled: bool
    sentence: str
    dependencies: list[DependencyStandingBody]
    last_instant: datetime | None = None
    last_job_id: str | None = None
    waits_for: DependencyBody | None = None
    since: datetime | None = msgspec.field(default=None, name="from")
    until: datetime | None = None
    missed_by_seconds: float | None = None

    def read(self, rule: Rule) -> Standing:
        """Of this rule, which may have been changed since it was looked at."""
        waits_for = self.waits_for
        since, until = _stamp(self.since), _stamp(self.until)
        as_explained = replace(
            rule,
            dependencies=tuple(one.read() for one in self.dependencies),
            enabled=self.enabled,
            last_instant=_stamp(self.last_instant),
            last_job_id=self.last_job_id,
        )
        return Standing(
            as_explained,
            stamps.from_datetime(self.at),
            self.met,
            self.sentence,
            tuple(one.standing() for one in self.dependencies),
            None if waits_for is None else waits_for.read(),
            None if since is None or until is None else Interval(since, until),
            self.missed_by_seconds,
        )


def _stamp(when: datetime | None) -> Stamp | None:
    return None if when is None else stamps.from_datetime(when)
