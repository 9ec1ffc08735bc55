"""Query parameters that several routes read: pages, numbers and moments."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from oncue.api.problems import invalid
from oncue.core import ids, moment
from oncue.core.errors import InvalidInput
from oncue.core.job import Position
from oncue.core.queue import check_queue_name

T = TypeVar("T")
PAGE = ("limit", "cursor")
LIMIT, MOST = 50, 500


def moment_of(query: dict[str, str], name: str) -> moment.Moment | None:
    """The moment that a query parameter names, if it was sent."""
    # A plus sign in a query means a space; most clients forget to encode it.
    return moment.parse(query[name].replace(" ", "+"), f"?{name}") if name in query else None


def paging(query: dict[str, str]) -> tuple[int, Position | None]:
    """How many, and after what."""
    return limit_of(query), after(query, _position)


def limit_of(query: dict[str, str]) -> int:
    return number_of(query, "limit", LIMIT, MOST)


def name_after(query: dict[str, str]) -> str | None:
    """The cursor of a listing by name: the last name of the page before."""
    name = query.get("cursor")
    return None if name is None else check_queue_name(name, "?cursor")


def number_of(query: dict[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most`."""
    with suppress(ValueError):
        number = digits(query.get(name, str(default)), 9)
        if 1 <= number <= most:
            return number
    raise invalid(f"must be a whole number from 1 to {most:,}.", f"?{name}")


def cursor(position: Position | None) -> str | None:
    """Where a listing goes on, as clients send it back."""
    if position is None:
        return None
    return encoded(f"{position.due_at}.{position.id}")


def after(query: dict[str, str], read: Callable[[str], T]) -> T | None:
    """Where a listing goes on: the cursor as `read` understands it, if one was sent."""
    if "cursor" not in query:
        return None
    try:
        return read(query["cursor"])
    except (ValueError, InvalidInput):
        raise invalid(
            "this is not a cursor; send the next_cursor of the previous page.", "?cursor"
        ) from None


def digits(text: str, most: int) -> int:
    """A whole number of at most so many digits."""
    if not (text.isascii() and text.isdecimal() and len(text) <= most):
        raise ValueError(text)
    return int(text)


def _position(text: str) -> Position:
    due_at, _, job_id = decoded(text).partition(".")
    return Position(digits(due_at, 15), ids.check_id(job_id))


def encoded(text: str) -> str:
    """A text as a cursor."""
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(cursor: str) -> str:
    """The text of a cursor; a ValueError if it is none."""
    return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
