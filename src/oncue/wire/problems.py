"""Problems as JSON: RFC 9457, `application/problem+json`."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import UNSET, UnsetType

from oncue.core import errors
from oncue.wire.formats import Answer, States, schema
from oncue.wire.jobs import Diagnostic

MEDIA_TYPE = "application/problem+json"
PREFIX = "/problems/"


class Meaning(NamedTuple):
    """What a kind of problem stands for: `error` is raised by the library, and by the client when
    a server answers with the problem."""

    status: int
    title: str
    error: type[errors.OncueError] | None = None


KINDS = {
    "malformed": Meaning(400, "The request cannot be read"),
    "unauthenticated": Meaning(401, "Authentication required"),
    "forbidden": Meaning(403, "This is not allowed"),
    "refused-origin": Meaning(403, "Origin refused"),
    "not-found": Meaning(404, "Not found", errors.NotFound),
    "no-such-route": Meaning(404, "There is no such route"),
    "method-not-allowed": Meaning(405, "Method not allowed"),
    "request-timeout": Meaning(408, "The request took too long to arrive"),
    "conflict": Meaning(409, "Conflict", errors.Conflict),
    "illegal-state": Meaning(409, "The job's state forbids it", errors.IllegalState),
    "id-taken": Meaning(409, "The id is taken", errors.IdTaken),
    "key-taken": Meaning(409, "The key is taken", errors.KeyTaken),
    "event-id-taken": Meaning(409, "The event's id is taken", errors.EventIdTaken),
    "fenced": Meaning(409, "The claim is no longer the current one", errors.Fenced),
    "too-large": Meaning(413, "Payload too large", errors.TooLarge),
    "unsupported-media-type": Meaning(415, "Unsupported media type"),
    "invalid": Meaning(422, "The request is not valid", errors.InvalidInput),
    "idempotency-key-reused": Meaning(422, "The idempotency key was used for another request"),
    "internal": Meaning(500, "Internal error", errors.OncueError),
    "not-supported": Meaning(501, "This store cannot do it", errors.NotSupported),
    "store-unavailable": Meaning(503, "The store cannot answer now", errors.StoreError),
    "stopping": Meaning(503, "The server is stopping"),
    "too-many-connections": Meaning(503, "There are too many connections"),
}
"""Every kind of problem there is, by the last part of its `type`."""

TITLES = {kind: meaning.title for kind, meaning in KINDS.items()}
Kind = Annotated[str, schema(enum=[PREFIX + kind for kind in TITLES])]


class FieldProblem(Answer):
    """One place that is wrong: `/field` of the body or `?parameter` of the query."""

    pointer: str = ""
    detail: str = ""


class Problem(Answer):
    """RFC 9457. Some kinds have fields of their own: see `/docs`."""

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
        """A key of `KINDS`, if the server is not newer."""
        return self.type.rpartition("/")[2]


class ProblemKind(Answer):
    """What a problem's type stands for."""

    type: Kind
    title: str
