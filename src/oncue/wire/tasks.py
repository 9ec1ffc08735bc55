"""Tasks as JSON, for the description: a task has any fields besides these."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from oncue.wire.formats import JSON_REF, NO_NUL, Answer, Cursor, Label, one_of, schema

_Date = Annotated[str, schema(format="date", pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]


class NewTask(Struct):
    """A task to create: for which user, and when. All other fields are its content."""

    userId: Label | int
    """The user of the task. A number becomes text."""
    dueDate: _Date | None = None
    """The day on which it is due, from 00:00 UTC. A day in the past means now."""
    afterDays: Annotated[int, schema(minimum=0, maximum=36_500)] | None = None
    """Days from today in UTC."""
    together: ClassVar = {
        **one_of("dueDate", "afterDays"),
        "properties": dict.fromkeys(("requestId", "status", "error"), False),
        "propertyNames": NO_NUL,
        "additionalProperties": JSON_REF,
    }


class Task(Answer):
    """A task: the fields that were sent, and its status."""

    userId: str
    requestId: str
    dueDate: Annotated[str, schema(format="date")]
    status: Literal["SCHEDULED", "STARTED", "COMPLETED", "FAILED"]
    error: str | UnsetType | None = UNSET


class Tasks(Answer):
    """A page. It may be short or empty although others follow."""

    items: list[Task]
    next_cursor: Cursor
