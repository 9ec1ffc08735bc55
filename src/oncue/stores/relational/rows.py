"""Rows as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

from oncue.core import stamp
from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime

T = TypeVar("T")
BATCH_BYTES = 32 * 1024 * 1024  # of payloads that are read into memory at once
_CONVERSIONS: dict[Any, Callable[[Any], Any]] = {
    State: {state.value: state for state in State}.__getitem__,  # faster than State(…)
    bool: bool,
    datetime: to_datetime,
    datetime | None: to_datetime,
}


def reader(kind: Callable[..., T], **given: Callable[[Any], Any]) -> Callable[[Sequence[Any]], T]:
    """A function from rows to values of this kind. The columns are in the order of its fields. They
    are converted by the type of the field, or by the function given for it, unless they are NULL.
    """
    fields = get_type_hints(kind).items()
    found = [given.get(name, _CONVERSIONS.get(its_type)) for name, its_type in fields]
    conversions = [(place, one) for place, one in enumerate(found) if one is not None]
    make = getattr(kind, "_make", None) or (lambda values: kind(*values))  # of named tuples: faster

    def read(row: Sequence[Any]) -> T:
        values = list(row)
        for place, convert in conversions:
            if values[place] is not None:
                values[place] = convert(values[place])
        return make(values)

    return read


job = reader(Job, instant=stamp.to_datetime)


def bounded(found: Iterable[T], limit: int, size: Callable[[T], int]) -> tuple[list[T], bool]:
    """The first ones, up to `limit` and to what fits in memory; and whether there may be more."""
    kept: list[T] = []
    room = BATCH_BYTES
    for one in found:
        kept.append(one)
        room -= size(one)
        if room <= 0 or len(kept) == limit:
            return kept, True
    return kept, False
