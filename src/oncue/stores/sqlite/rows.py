"""Rows to what they mean."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from oncue.core import stamp
from oncue.core.job import Attempt, Diagnostic, Job, Operation
from oncue.core.lifecycle import State
from oncue.core.moment import maybe_datetime, to_datetime

AFTER_EVERY_TEXT = "\U0010ffff"
BATCH_BYTES = 32 * 1024 * 1024  # of payloads that are read into memory at once


def stream(tx: apsw.Connection, statement: str, own: Mapping[str, Any]) -> Iterator[Any]:
    """The rows of a statement one by one."""
    return iter(tx.execute(statement, own))


def fetch(tx: apsw.Connection, statement: str, own: Mapping[str, Any] | None = None) -> list[Any]:
    """All rows of a statement."""
    return tx.execute(statement, own).fetchall()


def first(tx: apsw.Connection, statement: str, own: Mapping[str, Any] | None = None) -> Any:
    """The first row, or None."""
    return tx.execute(statement, own).fetchone()


def job(row: Sequence[Any]) -> Job:
    """From the columns of `jobs.sql: columns`."""
    return Job(
        id=row[0],
        queue=row[1],
        state=State(row[2]),
        due_at=to_datetime(row[3]),
        payload_json=row[4],
        priority=row[5],
        attempt=row[6],
        created_at=to_datetime(row[7]),
        updated_at=to_datetime(row[8]),
        owner=row[9],
        key=row[10],
        expires_at=maybe_datetime(row[11]),
        max_attempts=row[12],
        timeout_seconds=row[13],
        finished_at=maybe_datetime(row[14]),
        result_json=row[15],
        error=row[16],
        message=row[17],
        percent=row[18],
        cancel_requested=bool(row[19]),
        epoch=row[20],
        worker=row[21],
        lease_until=maybe_datetime(row[22]),
        attempt_base=row[23],
        rule=row[24],
        instant=None if row[25] is None else stamp.to_datetime(row[25]),
        schedule=row[26],
        not_before=maybe_datetime(row[27]),
        refusals=row[28],
    )


def operation(row: Sequence[Any]) -> Operation:
    name, state, updated_at, percent, message, result = row
    return Operation(name, state, to_datetime(updated_at), percent, message, result)


def attempt(row: Sequence[Any]) -> Attempt:
    number, epoch, claimed_at, worker, outcome, ended_at = row
    return Attempt(
        number, epoch, to_datetime(claimed_at), worker, outcome, maybe_datetime(ended_at)
    )


def diagnostic(row: Sequence[Any]) -> Diagnostic:
    at, code, detail, attempt, epoch, facts = row
    return Diagnostic(to_datetime(at), code, detail, attempt, epoch, json.loads(facts))


def texts(values: Iterable[str]) -> Any:
    """Many strings as one parameter, for `IN carray(?)`. Must not be empty."""
    return apsw.carray(tuple(values))


def numbers(values: Iterable[int]) -> Any:
    """Many integers as one parameter, for `IN carray(?)`. Must not be empty."""
    return apsw.carray(array("q", values))
