"""Statements run, and their rows as values."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

import apsw
import msgspec

from oncue.core import stamp
from oncue.core.cursor import MOST_ITEMS, Page
from oncue.core.job import Attempt, Diagnostic, Job, Operation
from oncue.core.lifecycle import State
from oncue.core.moment import to_datetime
from oncue.core.operations import OperationPages
from oncue.stores.sqlite.statements import load as load

T = TypeVar("T")
Tx = apsw.Connection  # inside a transaction
AFTER_EVERY_TEXT = "\U0010ffff"
BATCH_BYTES = 32 * 1024 * 1024  # of payloads that are read into memory at once
_ENCODER = msgspec.json.Encoder()
_GET_JOB = load("jobs")["get"]
_OPERATIONS = load("jobs")["operations"]
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
operation = reader(Operation)
attempt = reader(Attempt)
diagnostic = reader(Diagnostic, facts=json.loads)


def fetch(tx: Tx, statement: str, params: Mapping[str, Any] | None = None) -> list[Any]:
    """All rows of a statement."""
    return tx.execute(statement, params).fetchall()


def first(tx: Tx, statement: str, params: Mapping[str, Any] | None = None) -> Any:
    """The first row, or None."""
    return tx.execute(statement, params).fetchone()


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


def get_job(tx: Tx, job_id: str | None) -> Job | None:
    """The job as others see it: inside an open range claim it is dispatched."""
    row = first(tx, _GET_JOB, {"id": job_id})
    return None if row is None else job(row)


def operation_page(
    tx: Tx, n: int, pages: OperationPages, start: int = 0, limit: int = MOST_ITEMS
) -> Page[Operation]:
    """Operations of a job from a position on."""
    found = tx.execute(_OPERATIONS, {"n": n, "start": start, "limit": limit + 1})
    return pages.page(map(operation, found), start, limit)


def to_json(value: Any) -> str:
    return _ENCODER.encode(value).decode()


def texts(values: Iterable[str]) -> Any:
    """Many strings as one parameter, for `IN carray(?)`. Must not be empty. Members of an Enum,
    which are strings, too, are refused by apsw: they are given as plain ones."""
    return apsw.carray(tuple(map(str.__str__, values)))


def numbers(values: Iterable[int]) -> Any:
    """Many integers as one parameter, for `IN carray(?)`. Must not be empty."""
    return apsw.carray(array("q", values))
