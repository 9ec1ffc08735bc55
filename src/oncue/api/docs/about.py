"""The words in which an operation is described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from oncue.api.request import JSON_TYPE

NONE: Any = object()
"""Instead of an example, which may well be null."""


class Content(NamedTuple):
    """A body in one media type."""

    shape: Any
    example: Any


class Sent(NamedTuple):
    """A request's body, by media type."""

    contents: Mapping[str, Content]
    required: bool = False


class Answered(NamedTuple):
    """One way in which an operation succeeds."""

    text: str
    shape: Any = None
    """None: no body, or one that is not JSON."""
    example: Any = NONE
    media_type: str = JSON_TYPE
    headers: tuple[str, ...] = ()
    """Names of `HEADERS` in `openapi`, beside those that every answer has."""


class Parameter(NamedTuple):
    """Something in the query or in a header; what is in the path is in `PATH`."""

    name: str
    text: str
    shape: Any
    example: Any
    place: str = "query"


def json(shape: Any, example: Any, *, required: bool = False) -> Sent:
    return Sent({JSON_TYPE: Content(shape, example)}, required)
