"""Walks over indexes, one after the other, by which a bulk verb finds its jobs; and the cursor that
says where they go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from oncue.core.cursor import Cursor, Place, not_a_cursor, place_at


class IndexWalk(Protocol):
    """The last two of a place are due time and id."""

    @property
    def name(self) -> str:
        """In cursors."""

    @property
    def before_all(self) -> Place:
        """Where it begins. If it goes by queue, the queue that is wanted comes first; "": all."""


W = TypeVar("W", bound=IndexWalk)


def left_of(walks: Sequence[W], after: Cursor | None) -> tuple[Sequence[W], Place | None]:
    """The walks that are left, and where the first of them goes on."""
    if after is None:
        return walks, None
    name, *place = place_at(after, *((str, *map(type, walk.before_all)) for walk in walks))
    for number, walk in enumerate(walks):
        first = walk.before_all[0]
        elsewhere = isinstance(first, str) and first not in ("", place[0])
        same_shape = [*map(type, walk.before_all)] == [*map(type, place)]
        if walk.name == name and same_shape and not elsewhere:
            return walks[number:], tuple(place)
    raise not_a_cursor()
