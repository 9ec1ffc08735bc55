"""Statements in a transaction of the caller: written once, as steps, for connections that wait and
for those of asyncio."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from oncue.core.steps import driven, driven_async
from oncue.stores.postgresql.tx import Asked, Steps
from oncue.stores.statements import Statements

T = TypeVar("T")


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


def run(connection: psycopg.Connection[Any], statements: Statements, steps: Steps[T]) -> T:
    """Run these steps in the caller's transaction. Their result. A connection that commits every
    statement by itself, and is in no transaction, gets one for all steps."""
    one_for_all = connection.transaction() if _has_none(connection) else nullcontext()
    with one_for_all, BorrowedRows(connection) as cursor:

        def rows(asked: Asked) -> list[TupleRow]:
            noun, name, params = asked
            text = statements.load(noun)[name].encode()
            # Never prepared: that would use up the caller's room for prepared statements.
            cursor.execute(text, params, prepare=False, binary=True)
            return cursor.fetchall() if cursor.description else []

        return driven(steps, rows)


async def run_async(
    connection: psycopg.AsyncConnection[Any], statements: Statements, steps: Steps[T]
) -> T:
    one_for_all = connection.transaction() if _has_none(connection) else nullcontext()
    async with one_for_all, BorrowedAsyncRows(connection) as cursor:

        async def rows(asked: Asked) -> list[TupleRow]:
            noun, name, params = asked
            text = statements.load(noun)[name].encode()
            await cursor.execute(text, params, prepare=False, binary=True)
            return await cursor.fetchall() if cursor.description else []

        return await driven_async(steps, rows)


def _has_none(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the caller has no transaction, and none is begun by the next statement."""
    idle = connection.info.transaction_status == TransactionStatus.IDLE
    return connection.autocommit and idle
