"""What a server says went wrong, as the error that a `Scheduler` would have raised."""

from __future__ import annotations

import msgspec

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
from oncue.core.job import Diagnostic
from oncue.core.lifecycle import State
from oncue.wire.converting import read
from oncue.wire.problems import FieldProblem, Problem

# Fields that have another name in Python.
_POINTERS = {"/due_at": "/at"}


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
    pointer, detail = _place(problem)
    return TooLarge(detail, pointer) if problem.status == 413 else InvalidInput(detail, pointer)


def _place(problem: Problem) -> tuple[str, str]:
    """The first thing that is wrong with a request: where, and what."""
    first = problem.errors[0] if problem.errors else FieldProblem()
    detail = first.detail or problem.detail or problem.title
    return _POINTERS.get(first.pointer, first.pointer), detail


def _conflict(problem: Problem, told: str, job_id: str) -> Conflict:
    match problem.kind:
        case "fenced" if problem.state:
            why = read(Diagnostic, problem.diagnostic) if problem.diagnostic else None
            return Fenced(job_id, problem.reason or "unknown", State(problem.state), why)
        case "illegal-state" if problem.state:
            return IllegalState(told, State(problem.state))
    plain: dict[str, type[Conflict]] = {
        "id-taken": IdTaken,
        "key-taken": KeyTaken,
        "event-id-taken": EventIdTaken,
    }
    return plain.get(problem.kind, Conflict)(told)
