"""Tasks as JSON, for the description: a task has any fields besides these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncue.wire.formats import NO_NUL, Answer, Cursor, Label, one_of, said


class NewTask(Struct):
    """A task to be: whose, and when. All other fields are its content."""

    userId: Annotated[Label | int, said("Whose task it is. A number becomes text.")]
    dueDate: (
        Annotated[
            str,
            said(
                "The day on which it is due, from 00:00 UTC. The past means at once.",
                format="date",
                pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            ),
        ]
        | None
    ) = None
    afterDays: Annotated[int, said("Days from today in UTC.", minimum=0, maximum=36_500)] | None = (
        None
    )


class Task(Answer):
    """A task: what was sent, and how far it is."""

    userId: str
    requestId: str
    dueDate: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    status: Literal["SCHEDULED", "STARTED", "COMPLETED", "FAILED"]
    error: str | UnsetType | None = UNSET


class Tasks(Answer):
    """A page. It may be short or empty and still have a next one."""

    items: list[Task]
    next_cursor: Cursor


RULES: dict[type[Struct], dict[str, Any]] = {
    NewTask: {
        **one_of("dueDate", "afterDays"),
        "properties": dict.fromkeys(("requestId", "status", "error"), False),
        "propertyNames": NO_NUL,
        "additionalProperties": {"$ref": "#/components/schemas/Json"},
    },
}
"""What fields must be together, in words of JSON Schema."""
