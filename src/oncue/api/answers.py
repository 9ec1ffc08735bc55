"""What answers look like, for `/openapi.json`. The routes write them from `wire`; a live server is
asked whether they agree."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class Alive(Struct):
    """The process answers."""

    status: Literal["alive"]
    version: str


class Allowed(Struct):
    """What whoever asks may do."""

    scopes: list[Literal["read", "write", "work", "admin"]]


class Ready(Struct):
    """The store answers."""

    status: Literal["ready"]
    store: str
    schema: Any
