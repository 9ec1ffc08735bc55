"""Cursors: where a list goes on. Only the store that wrote one understands it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from oncue.core.checks import whole
from oncue.core.errors import InvalidInput
from oncue.core.moment import LATEST
from oncue.core.text import legible

T = TypeVar("T")
MOST_ITEMS = 500  # of a page

Cursor = str
"""Letters, digits, `-`, `_` and `=`, so that it can stand in a URL and on a command line."""

Place = tuple[int | str, ...]
"""The key of an entry in one of a store's indexes."""


class Page(NamedTuple, Generic[T]):
    """A part of a list."""

    items: list[T]
    next: Cursor | None = None
    """Where the list goes on; None: that was all."""


def every_item(page: Callable[[Cursor | None, int], Page[T]]) -> Iterator[T]:
    """The items of all pages; `page` fetches one, from a cursor and of at most so many items."""
    after: Cursor | None = None
    while True:
        found = page(after, MOST_ITEMS)
        yield from found.items
        if found.next is None:
            return
        after = found.next


def cursor_at(place: Place) -> Cursor:
    """The cursor that stands for a place."""
    return urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def place_at(cursor: Cursor, *shapes: tuple[type, ...]) -> Place:
    """The place that a cursor stands for, if it has one of these shapes."""
    try:
        place = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        raise not_a_cursor() from None
    if not isinstance(place, list) or tuple(map(type, place)) not in shapes:
        raise not_a_cursor()
    for one in place:  # no store can hold other numbers and texts
        if abs(one) > LATEST + 1 if isinstance(one, int) else one != legible(one):
            raise not_a_cursor()
    return tuple(place)


def number_at(cursor: Cursor) -> int:
    """The number of an entry, where a list is in the order of numbers."""
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise not_a_cursor()
    return int(cursor)


def check_page(after: object, limit: object) -> None:
    """Refuse a wrong limit, and a cursor that is not text. Only the store knows its cursors."""
    if not (after is None or isinstance(after, str)):
        raise not_a_cursor()
    whole(limit, 1, MOST_ITEMS, "/limit")


def not_a_cursor() -> InvalidInput:
    return InvalidInput(
        "this is not a cursor, or not one for this call; send the next_cursor of the answer "
        "before, or begin again without one.",
        "/cursor",
    )
