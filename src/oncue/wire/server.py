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

    scopes: list[Annotated[str, schema(enum=[str(scope) for scope in Scope])]]
    """Read as any text: a newer server may have more of them."""


class Readiness(Answer, kw_only=True):
    """The store answers."""

    status: Literal["ready"] = "ready"
    store: str
    schema: Any
