"""What goes wrong, told as RFC 9457: `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from oncue.core.errors import (
    Conflict,
    Fenced,
    IllegalState,
    InvalidInput,
    NotFound,
    OncueError,
    StoreError,
    StoreUnusable,
)
from oncue.wire import problems as wire
from oncue.wire.converting import written
from oncue.wire.jobs import Diagnostic


class Problem(Exception):
    """An answer that is no success. `kind` is a key of `KINDS` and gives the status, unless another
    is given; `extra` are further fields of the problem."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        errors: list[wire.FieldProblem] | UnsetType = UNSET,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status or wire.KINDS[kind].status
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
        "stopping",
        "The server ended before this was done. Whether it was is not known; sending it again to "
        "the next one does no harm if it has an id or an Idempotency-Key.",
        headers={"retry-after": "1"},
    )


def of(error: OncueError) -> Problem:
    """The problem that tells of an error."""
    kind = next(_KIND_OF[one] for one in type(error).__mro__ if one in _KIND_OF)
    match error:
        case InvalidInput():
            return Problem(
                kind, str(error), errors=[wire.FieldProblem(error.pointer, error.detail)]
            )
        case Fenced():
            diagnostic = error.diagnostic and written(Diagnostic, error.diagnostic)
            state = error.state.value
            return Problem(
                kind, str(error), reason=error.reason, state=state, diagnostic=diagnostic
            )
        case IllegalState():
            return Problem(kind, str(error), state=error.state.value)
        case NotFound() | Conflict():
            return Problem(kind, str(error))
        case StoreUnusable():
            text = "The store cannot be used as it is. The log of the server tells what to do."
            return Problem(kind, text, headers={"retry-after": "1"}, lasting=True)
        case StoreError():
            # What the store says may name files of this machine: that is for the log.
            text = "The store cannot answer now; nothing was lost. Try again in a moment."
            return Problem(kind, text, headers={"retry-after": "1"})
    return Problem(kind, "Something went wrong here.")


_KIND_OF: dict[type, str] = {
    meaning.error: kind for kind, meaning in wire.KINDS.items() if meaning.error is not None
}
