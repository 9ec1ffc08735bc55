"""Statements in a transaction of the caller: written once, as steps, for connections that wait and
for those of asyncio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from oncue.stores.postgresql.tx import Params

T = TypeVar("T")


class PgStep(NamedTuple):
    """A statement whose rows are asked for."""

    statement: str
    params: Params = None


Steps = Generator[PgStep, list[TupleRow], T]


class BorrowedRows(psycopg.Cursor[TupleRow]):
    """Whatever the caller has made of its connection: rows are tuples, of the usual values."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> psycopg.adapt.AdaptersMap:
        return psycopg.adapters


class BorrowedAsyncRows(psycopg.AsyncCursor[TupleRow]):
    """The same for asyncio."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> psycopg.adapt.AdaptersMap:
        return psycopg.adapters


def run(connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
    """What comes of these steps. In the caller's transaction; a connection that commits every
    statement by itself, and is in none, gets one for all steps."""
    if _has_none(connection):
        with connection.transaction():
            return _run(connection, steps)
    return _run(connection, steps)


def _run(connection: psycopg.Connection[Any], steps: Steps[T]) -> T:
    with BorrowedRows(connection) as cursor:
        try:
            step = next(steps)
            while True:
                # Never prepared: that would use up the caller's room for prepared statements.
                cursor.execute(step.statement.encode(), step.params, prepare=False, binary=True)
                step = steps.send(cursor.fetchall() if cursor.description else [])
        except StopIteration as end:
            found: T = end.value
            return found


async def run_async(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    if _has_none(connection):
        async with connection.transaction():
            return await _run_async(connection, steps)
    return await _run_async(connection, steps)


async def _run_async(connection: psycopg.AsyncConnection[Any], steps: Steps[T]) -> T:
    async with BorrowedAsyncRows(connection) as cursor:
        try:
            step = next(steps)
            while True:
                text = step.statement.encode()
                await cursor.execute(text, step.params, prepare=False, binary=True)
                step = steps.send(await cursor.fetchall() if cursor.description else [])
        except StopIteration as end:
            found: T = end.value
            return found


def _has_none(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the caller has no transaction, and none is begun by the next statement."""
    idle = connection.info.transaction_status == TransactionStatus.IDLE
    return connection.autocommit and idle
