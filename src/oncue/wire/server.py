"""What a server says of itself, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from oncue.core.access import Scope
from oncue.wire.formats import Answer, schema


class Alive(Answer, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str


class Allowed(Answer):
    """What the caller may do."""

    # Not `list[Scope]`: a newer server may have a scope that this version does not know.
    scopes: list[Annotated[str, schema(enum=[str(scope) for scope in Scope])]]


class Readiness(Answer, kw_only=True):
    """The store answers."""

    status: Literal["ready"] = "ready"
    store: str
    schema: Any
