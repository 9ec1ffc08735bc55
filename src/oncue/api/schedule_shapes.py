"""What schedules look like, sent and answered. As in `shapes` and `answers`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from oncue.core.cron import Mark
from oncue.core.event import RESOURCE_LIMIT, SPELLINGS
from oncue.core.recurrence import Fate
from oncue.wire.formats import (
    LONGEST,
    Body,
    Cursor,
    Json,
    Label,
    MoreThanNothing,
    QueueName,
    Time,
    one_of,
    said,
)

CatchUp = Annotated[
    Literal["once", "all", "skip"],
    Meta(
        description="What becomes of occurrences that were missed in an outage: the last of them "
        "is made, each, or none."
    ),
]
Overlap = Annotated[
    Literal["allow", "skip", "queue"],
    Meta(
        description="What happens while the job before is unfinished: another job, none, or one "
        "when that has ended."
    ),
]
Interval = Annotated[float, said("Seconds.", minimum=1, maximum=LONGEST)] | MoreThanNothing


class Emission(Body):
    """The event that is published at every occurrence, instead of a job."""

    eventType: Annotated[
        str, said("FILE, TABLE or TIME_BASED, or another spelling of it.", enum=[*SPELLINGS])
    ]
    eventResourceId: Annotated[
        str,
        said(
            f"At most {RESOURCE_LIMIT:,} bytes without control characters. Of a FILE: its path.",
            format="oncue-resource",
            minLength=1,
            maxLength=RESOURCE_LIMIT,
            pattern="^[^\\u0000-\\u001f\\u007f]+$",
        ),
    ]


class ScheduleSettings(Body):
    """All settings of a schedule; what is left out has its default."""

    cron: (
        Annotated[
            str,
            said(
                "Minute, hour, day of month, month, day of week; or six fields with the seconds "
                "first. At most 200 characters.",
                format="oncue-cron",
                pattern="^\\s*\\S+(\\s+\\S+){4,5}\\s*$",
            ),
        ]
        | None
    ) = None
    every_seconds: Annotated[
        Interval | None, Meta(description="Instead of cron; counted from when it was set.")
    ] = None
    timezone: Annotated[
        str,
        said(
            "In which the cron expression is meant: a name of the IANA database.",
            format="oncue-timezone",
            pattern="^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$",
        ),
    ] = "UTC"
    queue: Annotated[QueueName, Meta(description="Of its jobs.")] = "default"
    payload: Annotated[Json, Meta(description="Of its jobs.")] = None
    owner: Annotated[Label | None, Meta(description="Of its jobs.")] = None
    emits: Annotated[
        Emission | None, Meta(description="An event at every occurrence, and no job.")
    ] = None
    catch_up: CatchUp = "once"
    overlap: Overlap = "allow"
    paused: Annotated[
        bool | None, Meta(description="Null: as it was; of a new schedule, false.")
    ] = None


RULES: dict[type[Struct], dict[str, Any]] = {
    ScheduleSettings: {
        **one_of("cron", "every_seconds"),
        "not": {
            "required": ["emits", "overlap"],
            "properties": {
                "emits": {"type": "object"},
                "overlap": {"enum": ["skip", "queue"]},
            },
        },
    },
}
"""What members must be together, in words of JSON Schema."""


# -- answered --------------------------------------------------------------------------------------


class Schedule(Struct):
    """A schedule as it is now."""

    name: str
    cron: str | None
    every_seconds: float | None
    timezone: str
    queue: str
    payload: Any
    owner: str | None
    emits: Emission | None
    catch_up: CatchUp
    overlap: Overlap
    paused: bool
    anchor_at: Annotated[Time | None, Meta(description="From when an interval counts.")]
    next_at: Annotated[
        Time | None,
        Meta(
            description="The next occurrence that is not a job yet; jobs are made up to half a "
            "minute ahead of time. Null: there is none."
        ),
    ]
    last_at: Annotated[
        Time | None, Meta(description="The last occurrence that became a job or an event …")
    ]
    last_job_id: Annotated[str | None, Meta(description="… and its job.")]
    created_at: Time
    updated_at: Time


class Schedules(Struct):
    """By name. A page may be short and still have a next one."""

    items: list[Schedule]
    next_cursor: Cursor


class Run(Struct):
    """An occurrence to come."""

    at: Time
    local: Annotated[
        str, said("The same in the schedule's time zone, with its offset.", format="date-time")
    ]
    mark: Annotated[Mark, Meta(description="What the clocks do around it.")]
    note: Annotated[str | None, Meta(description="What that means here, for people.")]


class Runs(Struct):
    """In the order of time; fewer than asked for if there are no more."""

    items: list[Run]
    next_cursor: None


class RunChanges(Struct):
    """What other settings would change about the coming runs, as far as both were looked at."""

    removed: list[Run]
    added: list[Run]
    kept: list[Run]


class Outcome(Struct):
    """What became of an occurrence, or of several in a row that were left out together."""

    fate: Fate
    at: Time
    until: Annotated[Time, Meta(description="The last of them.")]
    count: Annotated[int | None, Meta(description="Null: more than a hundred.")]
    job_id: str | None
    decided_at: Time


class Outcomes(Struct):
    """The last hundred, oldest first."""

    items: list[Outcome]
    next_cursor: None
