"""What goes wrong, told as RFC 9457: `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

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
from oncue.wire import members as wire

MEDIA_TYPE = "application/problem+json"
PREFIX = "/problems/"

TITLES = {
    "malformed": "The request cannot be read",
    "unauthenticated": "Who asks?",
    "forbidden": "This is not allowed",
    "refused-origin": "Not from there",
    "not-found": "There is no such thing",
    "no-such-route": "There is no such route",
    "method-not-allowed": "Not with this method",
    "request-timeout": "The request took too long to arrive",
    "conflict": "Not now",
    "illegal-state": "The job's state forbids it",
    "id-taken": "The id is taken",
    "key-taken": "The key is taken",
    "event-id-taken": "The event's id is taken",
    "fenced": "The claim is no longer the current one",
    "too-large": "Too large",
    "unsupported-media-type": "Wrong media type",
    "invalid": "The request is not valid",
    "idempotency-key-reused": "The idempotency key stands for another request",
    "internal": "Something went wrong here",
    "store-unavailable": "The store cannot answer now",
    "stopping": "The server ends",
}
"""Every kind of problem there is, by the last part of its `type`."""


class Problem(Exception):
    """An answer that is no success. `kind` is a key of `TITLES`."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
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

    def members(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "type": PREFIX + self.kind,
            "title": TITLES[self.kind],
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors is not None:
            told["errors"] = self.errors
        return told | self.extra

    def body(self) -> bytes:
        return msgspec.json.encode(self.members())


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
            where = [{"pointer": error.pointer, "detail": error.detail}]
            return Problem(413, "too-large", str(error), errors=where)
        case InvalidInput():
            where = [{"pointer": error.pointer, "detail": error.detail}]
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
                diagnostic=None if diagnostic is None else wire.diagnostic_members(diagnostic),
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
