"""What answers look like, for `/openapi.json`. The routes write them from `wire`; a live server is
asked whether they agree."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oncue.wire.formats import Cursor


class Task(Struct):
    """A task: what was sent, and how far it is."""

    userId: str
    requestId: str
    dueDate: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    status: Literal["SCHEDULED", "STARTED", "COMPLETED", "FAILED"]
    error: str | UnsetType | None = UNSET


class Tasks(Struct):
    """A page. It may be short or empty and still have a next one."""

    items: list[Task]
    next_cursor: Cursor


class Alive(Struct):
    """The process answers."""

    status: Literal["alive"]
    version: str


class Allowed(Struct):
    """What whoever asks may do."""

    scopes: list[Literal["read", "write", "work", "admin"]]


class Ready(Struct):
    """The store answers."""

    status: Literal["ready"]
    store: str
    schema: Any
