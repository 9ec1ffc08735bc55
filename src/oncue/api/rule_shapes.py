"""What rules and events look like, sent and answered. As in `shapes` and `answers`, and written as
those who send events write them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from oncue.core.event import RESOURCE_LIMIT, SPELLINGS, EventType
from oncue.core.firing import Decision
from oncue.core.rule import LONGEST_LIFE_SECONDS, MOST_DEPENDENCIES
from oncue.rules import PAYLOAD_LIMIT_BYTES
from oncue.wire.formats import Body, Cursor, Json, Label, QueueName, Time, said

MOST_EVENTS = 1000  # in one request
_TIME = "[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?"
_OFFSET = "([Zz]|[+-][0-9]{2}:[0-9]{2})"

Kind = Annotated[
    str, said("FILE, TABLE or TIME_BASED, or another spelling of it.", enum=[*SPELLINGS])
]
Resource = Annotated[
    str,
    said(
        f"At most {RESOURCE_LIMIT:,} bytes without control characters. Of a FILE: its path.",
        format="oncue-resource",
        minLength=1,
        maxLength=RESOURCE_LIMIT,
        pattern="^[^\\u0000-\\u001f\\u007f]+$",
    ),
]
Stamp = Annotated[
    str,
    said(
        "RFC 3339 to the microsecond, such as 2021-01-01T11:59:59.000000Z; or, in UTC, such as "
        "2021-01-01 11:59:59.",
        format="oncue-stamp",
        pattern=f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([Tt ]{_TIME}{_OFFSET}| {_TIME})$",
    ),
]
Life = Annotated[
    Any,
    said(
        "Whole seconds for which an event keeps the dependency valid. Digits in a string will do.",
        anyOf=[
            {"type": "integer", "minimum": 0, "maximum": LONGEST_LIFE_SECONDS},
            {"type": "string", "pattern": "^[0-9]{1,9}$"},
        ],
    ),
]
Instant = Annotated[str, said("Event time: RFC 3339 in UTC with microseconds.", format="date-time")]


# -- sent ------------------------------------------------------------------------------------------


class NewDependency(Body):
    """What a rule waits for: an event of this type on this resource."""

    type: Kind
    resourceId: Annotated[
        Resource,
        Meta(description="Of a FILE: with `/` at its end, everything below; else also itself."),
    ]
    lifeDuration: Life


class NewRule(Body):
    """A rule to be: when all dependencies are valid at one instant, create a job."""

    dependencies: Annotated[
        list[NewDependency],
        said("Each resource once.", minItems=1, maxItems=MOST_DEPENDENCIES),
    ]
    name: Annotated[Label | None, Meta(description="As in the path, if it is given.")] = None
    enabled: Annotated[bool, Meta(description="False: events validate, but nothing fires.")] = True
    queue: Annotated[QueueName | None, Meta(description="Of its jobs; null: `rules`.")] = None
    payload: Annotated[
        Json,
        Meta(description=f"What its jobs carry, at most {PAYLOAD_LIMIT_BYTES:,} bytes as JSON."),
    ] = None


class NewEvent(Body):
    """Something happened to a resource at a time."""

    eventType: Kind
    eventTimestamp: Annotated[
        Stamp, Meta(description="When it happened; at most 7 days ahead of the server's clock.")
    ]
    eventResourceId: Resource
    eventId: Annotated[
        Label | None, Meta(description="Another name for it; null: made from the other members.")
    ] = None


NewEvents = (
    NewEvent
    | Annotated[
        list[NewEvent],
        said("In the order in which they are applied.", minItems=1, maxItems=MOST_EVENTS),
    ]
)


# -- answered --------------------------------------------------------------------------------------


class Dependency(Struct):
    """What a rule waits for. A path is normalised."""

    type: EventType
    resourceId: str
    lifeDuration: Annotated[int, Meta(description="Seconds.")]


class Rule(Struct):
    """A rule as it is now."""

    name: str
    dependencies: list[Dependency]
    enabled: bool
    queue: str
    payload: Any
    createdAt: Time
    updatedAt: Time
    lastInstant: Annotated[Instant | None, Meta(description="Of its last job; null: none yet.")]
    lastJobId: str | None


class Rules(Struct):
    """By name. A page may be short and still have a next one."""

    items: list[Rule]
    next_cursor: Cursor


class Decided(Struct, kw_only=True):
    """What one rule decided on an event, for one dependency that it matches."""

    rule: str
    dependency: Annotated[Dependency, Meta(description="As it was then.")]
    decision: Decision
    jobId: Annotated[str | None, Meta(description="The job that the event fired, now or before.")]
    suppressed: Annotated[
        Literal["disabled"] | UnsetType, Meta(description="Why it fired none although it would.")
    ] = UNSET


class Fired(Struct):
    """A job that was created because of the event."""

    rule: str
    jobId: str
    instant: Instant


class PublishedEvent(Struct):
    """What became of one event."""

    eventId: str
    duplicate: Annotated[bool, Meta(description="It was known, and nothing new was decided.")]
    decisions: list[Decided]
    jobs: Annotated[list[Fired], Meta(description="Those created now.")]


class Published(Struct):
    """In the order in which they were sent."""

    events: list[PublishedEvent]


class Event(Struct):
    """An event as it was understood."""

    eventId: str
    eventType: EventType
    eventTimestamp: Instant
    eventResourceId: str


class LoggedDecision(Decided, kw_only=True):
    """What was decided, when, and how often it was sent again."""

    decidedAt: Time
    times: Annotated[int, Meta(description="How often it was so decided.")]


class LoggedEvent(Event, kw_only=True):
    """An event, and what rules decided on it."""

    receivedAt: Time
    decisions: list[LoggedDecision]


class LoggedEvents(Struct):
    """The last that arrived first. A page may be short or empty and still have a next one."""

    items: list[LoggedEvent]
    next_cursor: Cursor


class DependencyStanding(Dependency, kw_only=True):
    """Whether a dependency is valid, by which event, and until when."""

    validity: Literal["MET", "NEVER_SEEN", "EXPIRED", "ONLY_STALE", "NOT_OVERLAPPING"]
    event: Event | None
    validUntil: Instant | None
    missedBySeconds: float | UnsetType = UNSET


class Standing(Struct):
    """How a rule stands at a time: a sentence for people, the rest for programs."""

    rule: str
    at: Instant
    met: bool
    enabled: bool
    lastInstant: Instant | None
    lastJobId: str | None
    dependencies: list[DependencyStanding]
    waitsFor: Annotated[
        Dependency | None, Meta(description="Of which one event would fire the rule …")
    ]
    since: Annotated[Instant | None, Meta(description="… if it is stamped from here …")] = field(
        name="from"
    )
    until: Annotated[Instant | None, Meta(description="… to here, both included.")]
    missedBySeconds: Annotated[
        float | None, Meta(description="By how much the dependencies miss each other.")
    ]
    sentence: str
