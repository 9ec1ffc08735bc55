"""Schedules as JSON, their coming runs, and what became of past ones."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Raw, field

from oncue.core import moment, runs, schedule
from oncue.core.cron import Mark
from oncue.core.recurrence import Fate
from oncue.wire import formats
from oncue.wire.converting import read, written
from oncue.wire.formats import LONGEST, Answer, Body, Cursor, LongerThan0, Time, schema
from oncue.wire.rules import Kind, Resource

_Cron = Annotated[str, schema(format="oncue-cron", pattern="^\\s*\\S+(\\s+\\S+){4,5}\\s*$")]
_ZONE = "^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
_Zone = Annotated[str, schema(format="oncue-timezone", pattern=_ZONE)]
CatchUp = Literal["once", "all", "skip"]
Overlap = Literal["allow", "skip", "queue"]
Interval = Annotated[float, schema("Seconds.", minimum=1, maximum=LONGEST)] | LongerThan0


class Emission(Body):
    """The event that is published at every occurrence, instead of a job."""

    event_type: Kind = field(name="eventType")
    resource_id: Resource = field(name="eventResourceId")


class ScheduleSettings(Body):
    """All settings of a schedule; those that are left out get their default."""

    cron: _Cron | None = None
    """Minute, hour, day of month, month, day of week; or six fields with the seconds first. At most
    200 characters."""
    every_seconds: Interval | None = None
    """Instead of cron; counted from when it was set."""
    timezone: _Zone = "UTC"
    """The time zone of the cron expression: a name of the IANA database."""
    queue: formats.QueueName = "default"
    """Of its jobs."""
    payload: formats.Json = None
    """Of its jobs."""
    owner: formats.Label | None = None
    """Of its jobs."""
    emits: Emission | None = None
    """Publish this event at every occurrence, and make no job."""
    catch_up: CatchUp = "once"
    """Which of the occurrences that were missed in an outage are made: the last (`once`), each
    (`all`), or none (`skip`)."""
    overlap: Overlap = "allow"
    """What happens while the previous job is unfinished: another job (`allow`), none (`skip`), or
    one when the previous job has ended (`queue`)."""
    paused: bool | None = None
    """Null: unchanged; false for a new schedule."""
    together: ClassVar = {
        **formats.one_of("cron", "every_seconds"),
        "not": {
            "required": ["emits", "overlap"],
            "properties": {"emits": {"type": "object"}, "overlap": {"enum": ["skip", "queue"]}},
        },
    }


# -- answers ---------------------------------------------------------------------------------------


class Schedule(Answer):
    """A schedule as it is now."""

    name: str
    cron: str | None
    every_seconds: float | None
    timezone: str
    queue: str
    payload: Raw
    owner: str | None
    emits: Emission | None
    catch_up: CatchUp
    """Which of the occurrences that were missed in an outage are made: the last (`once`), each
    (`all`), or none (`skip`)."""
    overlap: Overlap
    """What happens while the previous job is unfinished: another job (`allow`), none (`skip`), or
    one when the previous job has ended (`queue`)."""
    paused: bool
    anchor_at: Time | None
    """The moment from which the interval is counted."""
    next_at: Time | None
    """The next occurrence that is not a job yet; jobs are made up to half a minute ahead of time.
    Null: there is none."""
    last_at: Time | None
    """The last occurrence that became a job or an event."""
    last_job_id: str | None
    """The job of that occurrence; null: it was an event, or there was none."""
    created_at: Time
    updated_at: Time

    @classmethod
    def of(cls, one: schedule.Schedule, **more: Any) -> Self:
        """`more` are the fields that a kind of schedule has beyond these."""
        anchor = {} if one.every_seconds is not None else {"anchor_at": None}
        return written(cls, one, one.progress, **anchor, **more)

    def read(self) -> schedule.Schedule:
        """As the server has it; how it is timed inside the store is known there alone."""
        anchor = {} if self.anchor_at is not None else {"anchor_at": moment.EPOCH}
        progress = read(schedule.Progress, self)
        return read(schedule.Schedule, self, progress=progress, **anchor)


class Schedules(Answer):
    """By name. A page may be short although others follow."""

    items: list[Schedule]
    next_cursor: Cursor


class Run(Answer):
    """A coming occurrence."""

    at: Time
    local: Annotated[str, schema(format="date-time")]
    """The same in the schedule's time zone, with its offset."""
    mark: Mark
    """Whether a change of the clocks affects it."""
    note: str | None
    """What the change of the clocks does to it, for people."""

    @classmethod
    def of(cls, run: runs.Run) -> Run:
        local = run.local.isoformat(timespec="milliseconds")
        return written(cls, run, local=local, note=run.note or None)

    def read(self) -> runs.Run:
        return read(runs.Run, self, local=datetime.fromisoformat(self.local), note=self.note or "")


class Runs(Answer):
    """In the order of time; fewer than asked for if there are no more."""

    items: list[Run]
    next_cursor: None


class RunChanges(Answer):
    """Which coming runs other settings would change, as far as both lists of runs reach."""

    removed: list[Run]
    added: list[Run]
    kept: list[Run]


class Outcome(Answer):
    """The outcome of an occurrence, or of several in a row that were left out together."""

    fate: Fate
    at: Time
    until: Time
    """The last of them."""
    count: int | None
    """Null: more than a hundred."""
    job_id: str | None
    decided_at: Time


class Outcomes(Answer):
    """The last hundred, oldest first."""

    items: list[Outcome]
    next_cursor: None


class ScheduleWithOutcomes(Schedule):
    """A schedule, and the outcomes of its last occurrences."""

    outcomes: list[Outcome]
