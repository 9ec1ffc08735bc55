"""Query parameters that several routes read: pages, numbers and moments."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

from oncue.api.problems import HttpProblem, invalid
from oncue.core import ids, moment
from oncue.core.errors import InvalidInput
from oncue.core.job import Position
from oncue.core.queue import check_queue_name

PAGE = ("limit", "cursor")
LIMIT, MOST = 50, 500


def moment_of(query: dict[str, str], name: str) -> moment.Moment | None:
    """The moment that a query parameter names, if it was sent."""
    # A plus sign in a query means a space; most clients forget to encode it.
    return moment.parse(query[name].replace(" ", "+"), f"?{name}") if name in query else None


def paging(query: dict[str, str]) -> tuple[int, Position | None]:
    """How many, and after what."""
    return limit_of(query), _position(query.get("cursor"))


def limit_of(query: dict[str, str]) -> int:
    return number_of(query, "limit", LIMIT, MOST)


def name_after(query: dict[str, str]) -> str | None:
    """The cursor of a listing by name: the last name of the page before."""
    after = query.get("cursor")
    return None if after is None else check_queue_name(after, "?cursor")


def number_of(query: dict[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most`."""
    text = query.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most):
        raise invalid(f"must be a whole number from 1 to {most:,}.", f"?{name}")
    return int(text)


def cursor(position: Position | None) -> str | None:
    """Where a listing goes on, as clients send it back."""
    if position is None:
        return None
    return encoded(f"{position.due_at}.{position.id}")


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        due_at, _, job_id = decoded(text).partition(".")
        if due_at.isascii() and due_at.isdecimal() and len(due_at) <= 15:
            return Position(int(due_at), ids.check_id(job_id))
    except (ValueError, InvalidInput):
        pass
    raise no_cursor()


def encoded(text: str) -> str:
    """A text as a cursor."""
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(cursor: str) -> str:
    """The text of a cursor; a ValueError if it is none."""
    return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()


def no_cursor() -> HttpProblem:
    return invalid("this is not a cursor; send back the next_cursor of the page before.", "?cursor")
