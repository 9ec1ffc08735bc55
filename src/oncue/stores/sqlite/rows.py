"""Statements run, and their rows as values."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import apsw
import msgspec

from oncue.core.cursor import MOST_ITEMS, Page
from oncue.core.job import Attempt, Diagnostic, Job, Operation
from oncue.core.operations import OperationPages
from oncue.stores.relational.rows import BATCH_BYTES as BATCH_BYTES
from oncue.stores.relational.rows import bounded as bounded
from oncue.stores.relational.rows import job as job
from oncue.stores.relational.rows import reader as reader
from oncue.stores.sqlite.statements import load as load

Tx = apsw.Connection  # inside a transaction
AFTER_EVERY_TEXT = "\U0010ffff"
_ENCODER = msgspec.json.Encoder()
_GET_JOB = load("jobs")["get"]
_OPERATIONS = load("jobs")["operations"]

operation = reader(Operation)
attempt = reader(Attempt)
diagnostic = reader(Diagnostic, facts=json.loads)


def fetch(tx: Tx, statement: str, params: Mapping[str, Any] | None = None) -> list[Any]:
    """All rows of a statement."""
    return tx.execute(statement, params).fetchall()


def first(tx: Tx, statement: str, params: Mapping[str, Any] | None = None) -> Any:
    """The first row, or None."""
    return tx.execute(statement, params).fetchone()


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


def sought(job_ids: Iterable[str]) -> Any:
    """The same for ids that callers chose. One with a NUL, which `carray` refuses, is replaced by
    the empty id: no job has either."""
    return texts("" if "\0" in job_id else job_id for job_id in job_ids)


def numbers(values: Iterable[int]) -> Any:
    """Many integers as one parameter, for `IN carray(?)`. Must not be empty."""
    return apsw.carray(array("q", values))
