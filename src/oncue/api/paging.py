"""Parts of requests that several routes share: pages, moments, and no body."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from oncue.api.docs.parameters import LIMIT, MOST
from oncue.api.problems import invalid
from oncue.api.request import Request, decoded
from oncue.core import ids, moment
from oncue.core.errors import InvalidInput
from oncue.core.job import Position
from oncue.wire.formats import Nothing

_nothing = msgspec.json.Decoder(Nothing)


def moment_of(query: dict[str, str], name: str) -> moment.Moment | None:
    """The moment that a query parameter names, if it was sent."""
    # A plus sign in a query means a space, and everybody forgets to encode it.
    return moment.parse(query[name].replace(" ", "+"), f"?{name}") if name in query else None


def paging(query: dict[str, str]) -> tuple[int, Position | None]:
    """How many, and after what."""
    return limit_of(query), _position(query.get("cursor"))


def limit_of(query: dict[str, str]) -> int:
    text = query.get("limit", str(LIMIT))
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= MOST):
        raise invalid(f"must be a whole number from 1 to {MOST}.", "?limit")
    return int(text)


def cursor(position: Position | None) -> str | None:
    """Where a listing goes on, as clients send it back."""
    if position is None:
        return None
    return urlsafe_b64encode(f"{position.due_at}.{position.id}".encode()).decode().rstrip("=")


def _position(text: str | None) -> Position | None:
    if text is None:
        return None
    try:
        due_at, _, job_id = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition(".")
        if due_at.isascii() and due_at.isdecimal() and len(due_at) <= 15:
            return Position(int(due_at), ids.check_id(job_id))
    except (ValueError, InvalidInput):
        pass
    raise invalid("this is not a cursor; send back the next_cursor of the page before.", "?cursor")


async def no_body(request: Request) -> None:
    """For requests that say everything by their path; an empty object is fine."""
    request.query()
    decoded(await request.body(), _nothing)
