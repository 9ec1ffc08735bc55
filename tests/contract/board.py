"""What the tests of rules say often, said briefly. Times are seconds since the start of 2021."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncue.clock import FakeClock
from oncue.core import stamp
from oncue.core.event import Bounds, Event, EventType, made_id
from oncue.core.firing import Decision
from oncue.core.job import Job, JobFilter
from oncue.core.moment import Moment
from oncue.core.publication import EventFilter, LoggedEvent, Published
from oncue.core.retention import Retention
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import SECOND, Stamp
from oncue.core.standing import Standing, explain
from oncue.ports.store import Store

from .promises import every

START = stamp.parse("2021-01-01T00:00:00Z")
RULE = "r"


def seconds(since_start: float) -> Stamp:
    return START + round(since_start * SECOND)


def file(resource: str, life: int) -> Dependency:
    return Dependency(EventType.FILE, resource, life)


def table(resource: str, life: int) -> Dependency:
    return Dependency(EventType.TABLE, resource, life)


def cron(life: int = 0) -> Dependency:
    return Dependency(EventType.TIME_BASED, "cron", life)


def event(kind: EventType, resource: str, at: float, event_id: str | None = None) -> Event:
    made = made_id(kind, resource, seconds(at))
    return Event(event_id or made, kind, resource, seconds(at))


def file_at(at: float, path: str = "/in/a", **more: Any) -> Event:
    return event(EventType.FILE, path, at, **more)


def table_at(at: float, name: str, **more: Any) -> Event:
    return event(EventType.TABLE, name, at, **more)


def cron_at(at: float, **more: Any) -> Event:
    return event(EventType.TIME_BASED, "cron", at, **more)


def time_based(resource: str, stamp: Stamp) -> Event:
    kind = EventType.TIME_BASED
    return Event(made_id(kind, resource, stamp), kind, resource, stamp)


class Board:
    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self.bounds = Bounds()

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def rule(self, *dependencies: Dependency, name: str = RULE, **fields: Any) -> Rule:
        return self.store.put_rule(Rule(name, dependencies, **fields), self.now)

    def post(self, one: Event) -> Published:
        [answer] = self.store.publish([one], self.now, self.bounds)
        return answer

    def post_all(self, *events: Event) -> list[Published]:
        return [self.post(one) for one in events]

    def jobs(self, queue: str = "rules") -> list[Job]:
        """Every job of the queue, in the order of instants."""
        found = every(partial(self.store.page, JobFilter(queue)), 500)
        return sorted(found, key=lambda job: (job.rule or "", job.instant or job.due_at))

    def instants(self, rule: str = RULE) -> list[float]:
        """When the rule fired, in seconds since the start."""
        return [
            (stamp.from_datetime(job.instant) - START) / SECOND
            for job in self.jobs()
            if job.rule == rule and job.instant is not None
        ]

    def stands(self, at: float, rule: str = RULE) -> Standing:
        found = self.store.sightings(rule, seconds(at))
        assert found is not None
        return explain(found, seconds(at))

    def validities(self, at: float, rule: str = RULE) -> list[str]:
        return [str(one.validity) for one in self.stands(at, rule).dependencies]

    def log(self, limit: int = 2, **wanted: Any) -> list[LoggedEvent]:
        """All events that match, page by page."""
        return every(partial(self.store.events, EventFilter(**wanted)), limit)

    def prune(self, limit: int = 1000) -> None:
        while self.store.prune(Retention({}, self.bounds), self.now, limit).more:
            continue


def decisions(answer: Published | LoggedEvent) -> list[Decision]:
    return [one.decision for one in answer.decisions]
