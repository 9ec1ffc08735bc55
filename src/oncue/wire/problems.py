"""Problems as JSON: RFC 9457, `application/problem+json`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from oncue.wire.formats import Answer, States
from oncue.wire.jobs import Diagnostic

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

Kind = Annotated[str, Meta(extra_json_schema={"enum": [PREFIX + kind for kind in TITLES]})]


class FieldProblem(Answer):
    """One place that is wrong: `/member` of the body or `?parameter` of the query."""

    pointer: str = ""
    detail: str = ""


class Problem(Answer):
    """RFC 9457. Some kinds have members of their own: see `/docs`."""

    type: Kind = ""
    title: str = ""
    status: int = 500
    detail: str = ""
    errors: list[FieldProblem] | UnsetType = UNSET
    state: States | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    diagnostic: Diagnostic | UnsetType | None = UNSET
    request_id: str | UnsetType = UNSET
    accepted: int | UnsetType = UNSET
    lasting: bool | UnsetType = UNSET

    @property
    def kind(self) -> str:
        """A key of `TITLES`, if the server is not newer."""
        return self.type.rpartition("/")[2]


class ProblemKind(Answer):
    """What a problem's type stands for."""

    type: Kind
    title: str
