"""What goes wrong, told as RFC 9457: `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from oncue.core.errors import (
    Conflict,
    EventIdTaken,
    Fenced,
    IdTaken,
    IllegalState,
    InvalidInput,
    KeyTaken,
    NotFound,
    OncueError,
    StoreError,
    StoreUnusable,
    TooLarge,
)
from oncue.wire import problems as wire
from oncue.wire.converting import written
from oncue.wire.jobs import Diagnostic


class Problem(Exception):
    """An answer that is no success. `kind` is a key of `TITLES`, `extra` are further fields of the
    problem."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: list[wire.FieldProblem] | UnsetType = UNSET,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}
        self.extra = extra

    def written(self) -> wire.Problem:
        """As it is sent."""
        return wire.Problem(
            wire.PREFIX + self.kind,
            wire.TITLES[self.kind],
            self.status,
            self.detail,
            self.errors,
            **self.extra,
        )

    def body(self) -> bytes:
        return msgspec.json.encode(self.written())


def invalid(detail: str, pointer: str = "") -> Problem:
    return of(InvalidInput(detail, pointer))


def stopping() -> Problem:
    return Problem(
        503,
        "stopping",
        "The server ended before this was done. Whether it was is not known; sending it again to "
        "the next one does no harm if it has an id or an Idempotency-Key.",
        headers={"retry-after": "1"},
    )


def of(error: OncueError) -> Problem:
    """The problem that tells of an error."""
    match error:
        case TooLarge():
            where = [wire.FieldProblem(error.pointer, error.detail)]
            return Problem(413, "too-large", str(error), errors=where)
        case InvalidInput():
            where = [wire.FieldProblem(error.pointer, error.detail)]
            return Problem(422, "invalid", str(error), errors=where)
        case NotFound():
            return Problem(404, "not-found", str(error))
        case Conflict():
            return _conflict(error)
        case StoreUnusable():
            told = "The store cannot be used as it is. The log of the server tells what to do."
            headers = {"retry-after": "1"}
            return Problem(503, "store-unavailable", told, headers=headers, lasting=True)
        case StoreError():
            # What the store says may name files of this machine: that is for the log.
            return Problem(
                503,
                "store-unavailable",
                "The store cannot answer now; nothing was lost. Try again in a moment.",
                headers={"retry-after": "1"},
            )
    return Problem(500, "internal", "Something went wrong here.")


def _conflict(error: Conflict) -> Problem:
    match error:
        case Fenced():
            diagnostic = error.diagnostic
            return Problem(
                409,
                "fenced",
                str(error),
                reason=error.reason,
                state=error.state.value,
                diagnostic=None if diagnostic is None else written(Diagnostic, diagnostic),
            )
        case IllegalState():
            return Problem(409, "illegal-state", str(error), state=error.state.value)
        case IdTaken():
            return Problem(409, "id-taken", str(error))
        case KeyTaken():
            return Problem(409, "key-taken", str(error))
        case EventIdTaken():
            return Problem(409, "event-id-taken", str(error))
    return Problem(409, "conflict", str(error))
