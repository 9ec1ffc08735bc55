"""What a server says of itself, as JSON."""

from __future__ import annotations

from typing import Any, Literal

from oncue.core.access import Scope
from oncue.wire.formats import Answer


class Alive(Answer, kw_only=True):
    """The process answers."""

    status: Literal["alive"] = "alive"
    version: str


class Allowed(Answer):
    """What the caller may do."""

    scopes: list[Scope]


class Readiness(Answer, kw_only=True):
    """The store answers."""

    status: Literal["ready"] = "ready"
    store: str
    schema: Any
