"""What a server says went wrong, as the error that a `Scheduler` would have raised."""

from __future__ import annotations

import msgspec

from oncue.core import errors
from oncue.core.errors import OncueError
from oncue.core.job import Diagnostic
from oncue.core.lifecycle import State
from oncue.wire.converting import read
from oncue.wire.problems import KINDS, FieldProblem, Problem

_decode = msgspec.json.Decoder(Problem).decode


def problem_of(body: bytes) -> Problem | None:
    """The problem that a body tells of; None if it cannot be read."""
    try:
        return _decode(body)
    except msgspec.MsgspecError:
        return None


def error_of(problem: Problem, job_id: str = "") -> OncueError:
    """The error that tells of a problem; `job_id` is the job that was asked about."""
    text, status = _one_line(problem.detail or problem.title), problem.status
    if problem.kind == "unauthenticated":  # the server names headers, which are not seen here
        text = "it needs an access token that it knows: 'oncue token create' makes one."
    if status in (401, 403):
        return errors.AccessDenied(text)
    if problem.kind == "not-supported":
        return errors.NotSupported(text)
    if status in (408, 429) or status >= 500:
        return errors.ServerUnavailable(f"the server says: {text}")
    if status == 405 or problem.kind == "no-such-route":
        return errors.ServerUnusable(
            f"the server does not offer this; is it older? It says: {text}"
        )
    if status == 404:
        return errors.NotFound(text)
    if status == 409:
        return _conflict(problem, text, job_id)
    first = problem.errors[0] if problem.errors else FieldProblem()
    kind = errors.TooLarge if status == 413 else errors.InvalidInput
    return kind(_one_line(first.detail) or text, _one_line(first.pointer))


def _one_line(text: str) -> str:
    """A server whose text has line ends could show lines that look like those of others."""
    return text.replace("\n", "\\n")


def _conflict(problem: Problem, text: str, job_id: str) -> errors.Conflict:
    meaning = KINDS.get(problem.kind)
    kind = errors.Conflict if meaning is None else meaning.error
    if kind is errors.Fenced and problem.state:
        why = read(Diagnostic, problem.diagnostic) if problem.diagnostic else None
        return errors.Fenced(job_id, problem.reason or "unknown", State(problem.state), why)
    if kind is errors.IllegalState and problem.state:
        return errors.IllegalState(text, State(problem.state))
    if kind in (errors.IdTaken, errors.KeyTaken, errors.EventIdTaken):
        return kind(text)
    return errors.Conflict(text)
