"""Query parameters that several routes read: pages, numbers and moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oncue.api.problems import invalid
from oncue.core import moment
from oncue.core.cursor import MOST_ITEMS, Cursor, Page, not_a_cursor
from oncue.core.errors import InvalidInput
from oncue.core.job import Job
from oncue.core.queue import check_queue_name

T = TypeVar("T")
J = TypeVar("J", bound=Job)
PAGE_BYTES = 4 * 1024 * 1024  # of payloads and results, after which a page ends
FIRST_STEP = 50
PAGE = ("limit", "cursor")
LIMIT = 50


def moment_of(query: dict[str, str], name: str) -> moment.Moment | None:
    """The moment that a query parameter names, if it was sent."""
    # A plus sign in a query means a space; most clients forget to encode it.
    return moment.parse(query[name].replace(" ", "+"), f"?{name}") if name in query else None


def read_page(query: dict[str, str], page: Callable[[Cursor | None, int], Page[T]]) -> Page[T]:
    """The page that a query asks for. A problem with the cursor names the query parameter."""
    limit = limit_of(query)
    try:
        return page(query.get("cursor"), limit)
    except InvalidInput as problem:
        raise invalid(problem.detail, f"?{problem.pointer[1:]}") from None


def bounded(page: Callable[[Cursor | None, int], Page[J]]) -> Callable[..., Page[J]]:
    """The same pages, but not longer than about `PAGE_BYTES`: one is then short, and has a next.
    Jobs are read in steps that grow as long as they are small."""

    def read(after: Cursor | None, limit: int) -> Page[J]:
        items: list[J] = []
        size, step = 0, FIRST_STEP
        while True:
            found = page(after, min(step, limit - len(items)))
            items += found.items
            size += sum(len(one.payload_json) + len(one.result_json or b"") for one in found.items)
            after, step = found.next, 4 * step
            if after is None or len(items) >= limit or not found.items or size >= PAGE_BYTES:
                return Page(items, after)

    return read


def limit_of(query: dict[str, str]) -> int:
    return number_of(query, "limit", LIMIT, MOST_ITEMS)


def name_after(query: dict[str, str]) -> str | None:
    """The cursor of a listing by name: the last name of the page before."""
    name = query.get("cursor")
    try:
        return None if name is None else check_queue_name(name)
    except InvalidInput:
        raise invalid(not_a_cursor().detail, "?cursor") from None


def number_of(query: dict[str, str], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most`."""
    text = query.get(name, str(default))
    if text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most:
        return int(text)
    raise invalid(f"must be a whole number from 1 to {most:,}.", f"?{name}")
