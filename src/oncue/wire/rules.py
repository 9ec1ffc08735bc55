"""Rules and events as JSON. The names of the fields are those that senders of events use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, UnsetType, field

from oncue.core import publication, standing
from oncue.core import stamp as stamps
from oncue.core.event import RESOURCE_LIMIT, SPELLINGS, EventType
from oncue.core.event import Event as CoreEvent
from oncue.core.firing import Decision
from oncue.core.rule import LONGEST_LIFE_SECONDS, MOST_DEPENDENCIES, PAYLOAD_LIMIT_BYTES
from oncue.core.rule import Dependency as CoreDependency
from oncue.core.rule import Rule as CoreRule
from oncue.wire.converting import read, written
from oncue.wire.formats import Answer, Body, Cursor, Instant, Json, Label, QueueName, Time, schema

MOST_EVENTS = 1000  # in one request
_TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?"
_OFFSET = "([Zz]|[+-][0-9]{2}:[0-9]{2})"

Kind = Annotated[
    str, schema("FILE, TABLE or TIME_BASED, or another spelling of it.", enum=[*SPELLINGS])
]
Resource = Annotated[
    str,
    schema(
        f"At most {RESOURCE_LIMIT:,} bytes without control characters. Of a FILE: its path.",
        format="oncue-resource",
        minLength=1,
        maxLength=RESOURCE_LIMIT,
        pattern="^[^\\u0000-\\u001f\\u007f]+$",
    ),
]
Stamp = Annotated[
    str,
    schema(
        "RFC 3339 to the microsecond, such as 2021-01-01T11:59:59.000000Z; or, in UTC, such as "
        "2021-01-01 11:59:59.",
        format="oncue-stamp",
        pattern=f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([Tt ]{_TIME}{_OFFSET}| {_TIME})$",
    ),
]
Life = Annotated[
    Any,
    schema(
        "Whole seconds for which an event keeps the dependency valid. Digits in a string will do.",
        anyOf=[
            {"type": "integer", "minimum": 0, "maximum": LONGEST_LIFE_SECONDS},
            {"type": "string", "pattern": "^[0-9]{1,9}$"},
        ],
    ),
]


# -- requests --------------------------------------------------------------------------------------


class NewDependency(Body):
    """What a rule waits for: an event of this type on this resource."""

    type: Kind
    resourceId: Resource
    """Of a FILE: a path that ends with `/` matches everything below it; without `/` also itself."""
    lifeDuration: Life


class RuleFields(Body):
    """What can be said of a rule, beside its name."""

    dependencies: Annotated[list[NewDependency], schema(minItems=1, maxItems=MOST_DEPENDENCIES)]
    """No two with the same type and resource."""
    enabled: bool = True
    """False: events validate dependencies, but the rule does not fire."""
    queue: QueueName | None = None
    """The queue of its jobs; null: `rules`."""
    payload: Annotated[
        Json,
        Meta(description=f"What its jobs carry, at most {PAYLOAD_LIMIT_BYTES:,} bytes as JSON."),
    ] = None


class NewRule(RuleFields):
    """A rule to store: when all dependencies are valid at one instant, it creates a job."""

    name: Label | None = None
    """If given, the same as in the path."""


class NamedRule(RuleFields, kw_only=True):
    """The same, with its name."""

    name: Label


class NewEvent(Body):
    """Something happened to a resource at a time."""

    eventType: Kind
    eventTimestamp: Stamp
    """When it happened; at most 7 days ahead of the server's clock."""
    eventResourceId: Resource
    eventId: Label | None = None
    """Another name for the event; null: made from the other fields."""


NewEvents = (
    NewEvent
    | Annotated[
        list[NewEvent],
        schema("In the order in which they are applied.", minItems=1, maxItems=MOST_EVENTS),
    ]
)


# -- answers ---------------------------------------------------------------------------------------


class Dependency(Answer):
    """What a rule waits for. A path is normalised."""

    type: EventType
    resource: str = field(name="resourceId")
    life_seconds: int = field(name="lifeDuration")
    """Seconds."""


class Rule(Answer, rename="camel"):
    """A rule as it is now."""

    name: str
    dependencies: list[Dependency]
    enabled: bool
    queue: str
    payload: Raw
    created_at: Time
    updated_at: Time
    last_instant: Instant | None
    """The instant of its last job; null: it has not fired."""
    last_job_id: str | None


class Rules(Answer):
    """By name. A page may be short although others follow."""

    items: list[Rule]
    next_cursor: Cursor


class Decided(Answer, rename="camel"):
    """What one rule decided on an event, for one dependency that it matches."""

    rule: str
    dependency: Dependency
    """As it was when the rule decided."""
    decision: Decision
    job_id: str | None
    """The job that the event fired, now or before."""
    suppressed: Literal["disabled"] | UnsetType = UNSET
    """Why it fired no job although the rule was met."""


class Fired(Answer, rename="camel"):
    """A job that was created because of the event."""

    rule: str
    job_id: str
    instant: Instant


class PublishedEvent(Answer, rename="camel"):
    """The decisions on one event, and the jobs it created."""

    event_id: str
    duplicate: bool
    """The event was known, and no rule decided anew."""
    decisions: list[Decided]
    jobs: list[Fired]
    """The jobs created by this request."""


class Published(Answer):
    """In the order in which they were sent."""

    events: list[PublishedEvent]

    @classmethod
    def of(cls, published: Sequence[publication.Published]) -> Published:
        return cls(
            events=[written(PublishedEvent, one, event_id=one.event.id) for one in published]
        )

    def read(self, sent: Sequence[CoreEvent]) -> list[publication.Published]:
        return [
            read(publication.Published, body, event=replace(event, id=body.event_id))
            for event, body in zip(sent, self.events, strict=True)
        ]


class Event(Answer):
    """An event as it was understood."""

    id: str = field(name="eventId")
    type: EventType = field(name="eventType")
    stamp: Instant = field(name="eventTimestamp")
    resource: str = field(name="eventResourceId")


class LoggedDecision(Decided, kw_only=True, rename="camel"):
    """What was decided, when, and how often it was sent again."""

    decided_at: Time
    times: int
    """How often this was the decision."""


class LoggedEvent(Event, rename="camel"):
    """An event, and what rules decided on it."""

    received_at: Time
    decisions: list[LoggedDecision]

    @classmethod
    def of(cls, logged: publication.LoggedEvent) -> LoggedEvent:
        return written(cls, logged, logged.event)

    def read(self) -> publication.LoggedEvent:
        return read(publication.LoggedEvent, self, event=read(CoreEvent, self))


class LoggedEvents(Answer):
    """The latest arrival first. A page may be short or empty although others follow."""

    items: list[LoggedEvent]
    next_cursor: Cursor

    @classmethod
    def of(cls, page: publication.EventPage) -> LoggedEvents:
        return cls(items=[LoggedEvent.of(one) for one in page.items], next_cursor=page.next)

    def read(self) -> publication.EventPage:
        return publication.EventPage([one.read() for one in self.items], self.next_cursor)


class DependencyStanding(Dependency, kw_only=True, rename="camel"):
    """Whether a dependency is valid, by which event, and until when."""

    validity: Literal["MET", "NEVER_SEEN", "EXPIRED", "ONLY_STALE", "NOT_OVERLAPPING"]
    event: Event | None
    valid_until: Instant | None
    missed_by_seconds: float | UnsetType = UNSET

    @classmethod
    def of(cls, stands: standing.DependencyStanding) -> DependencyStanding:
        return written(cls, stands, stands.dependency)

    def read(self) -> standing.DependencyStanding:
        return read(standing.DependencyStanding, self, dependency=read(CoreDependency, self))


class Standing(Answer, kw_only=True, rename="camel"):
    """The state of a rule at a time: a sentence for people, the rest for programs."""

    rule: str
    at: Instant
    met: bool
    enabled: bool
    last_instant: Instant | None
    last_job_id: str | None
    dependencies: list[DependencyStanding]
    waits_for: Dependency | None
    """An event of this dependency, stamped between `from` and `until`, would fire the rule."""
    start: Instant | None = field(default=None, name="from")
    """The earliest timestamp with which it fires."""
    end: Instant | None = field(default=None, name="until")
    """The latest one, included."""
    missed_by_seconds: float | None
    """The distance between the lives of the dependencies, which do not overlap."""
    stale: Event | None = None
    """The last event that is not later than the last job's instant and so fired nothing, of the
    hundred that arrived last."""
    too_late: Event | None = None
    """The last one, of these, from a time of which the rule keeps no events any more."""
    sentence: str

    @classmethod
    def of(cls, stands: standing.Standing) -> Standing:
        return written(cls, stands.rule, stands, stands.window, rule=stands.rule.name)

    def read(self, known: CoreRule) -> standing.Standing:
        """Of this rule, which may have been changed since it was looked at."""
        rule = replace(
            known,
            dependencies=tuple(read(CoreDependency, one) for one in self.dependencies),
            enabled=self.enabled,
            last_instant=None if self.last_instant is None else stamps.parse(self.last_instant),
            last_job_id=self.last_job_id,
        )
        window = None if self.start is None else read(standing.Interval, self)
        return read(standing.Standing, self, rule=rule, window=window)
