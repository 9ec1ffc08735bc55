"""What a server says went wrong, as the error that a `Scheduler` would have raised."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from oncue.client.reading import DiagnosticBody, diagnostic
from oncue.core.errors import (
    AccessDenied,
    Conflict,
    EventIdTaken,
    Fenced,
    IdTaken,
    IllegalState,
    InvalidInput,
    KeyTaken,
    NotFound,
    OncueError,
    ServerUnavailable,
    ServerUnusable,
    TooLarge,
)
from oncue.core.lifecycle import State

MEDIA_TYPE = "application/problem+json"
# Members that have another name in Python.
_POINTERS = {"/due_at": "/at"}


class Place(NamedTuple):
    """One thing that is wrong with a request, and where."""

    pointer: str = ""
    detail: str = ""


class Problem(msgspec.Struct):
    """An answer of RFC 9457."""

    type: str = ""
    title: str = ""
    status: int = 500
    detail: str = ""
    errors: list[dict[str, Any]] = []
    reason: str = "unknown"
    state: State | None = None
    diagnostic: DiagnosticBody | None = None
    lasting: bool = False
    """Somebody has to change something at the server before asking again is of use."""

    @property
    def kind(self) -> str:
        return self.type.rpartition("/")[2]

    @property
    def place(self) -> Place:
        """The first thing that is wrong."""
        first = self.errors[0] if self.errors else {}
        pointer = str(first.get("pointer", ""))
        detail = str(first.get("detail") or self.detail or self.title)
        return Place(_POINTERS.get(pointer, pointer), detail)


_decode = msgspec.json.Decoder(Problem).decode


def problem_of(body: bytes) -> Problem | None:
    """The problem that a body tells of; None if it cannot be read."""
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return None


def error_of(problem: Problem, job_id: str = "") -> OncueError:
    """The error that tells of a problem; `job_id` is the job that was asked about."""
    told = problem.detail or problem.title
    if problem.kind == "unauthenticated":  # the server speaks of headers, which are not seen here
        told = "it wants an API token that it knows; 'oncue token create', at its store, makes one."
    if problem.status in (401, 403):
        return AccessDenied(told)
    if problem.status in (408, 429) or problem.status >= 500:
        return ServerUnavailable(f"the server says: {told}")
    if problem.status == 405 or problem.kind == "no-such-route":
        return ServerUnusable(f"the server does not offer this; is it older? It says: {told}")
    if problem.status == 404:
        return NotFound(told)
    if problem.status == 409:
        return _conflict(problem, told, job_id)
    pointer, detail = problem.place
    return TooLarge(detail, pointer) if problem.status == 413 else InvalidInput(detail, pointer)


def _conflict(problem: Problem, told: str, job_id: str) -> Conflict:
    match problem.kind:
        case "fenced" if problem.state is not None:
            why = None if problem.diagnostic is None else diagnostic(problem.diagnostic)
            return Fenced(job_id, problem.reason, problem.state, why)
        case "illegal-state" if problem.state is not None:
            return IllegalState(told, problem.state)
        case "id-taken":
            return IdTaken(told)
        case "key-taken":
            return KeyTaken(told)
        case "event-id-taken":
            return EventIdTaken(told)
    return Conflict(told)
