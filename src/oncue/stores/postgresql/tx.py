"""A transaction of PostgreSQL as the parts of the store use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from oncue.core.moment import Moment
from oncue.stores.statements import Statements

Params = Mapping[str, Any] | Sequence[Any] | None


class PgRows(psycopg.Cursor[TupleRow]):
    """The rows of a statement."""

    @property
    def get(self) -> Any:
        """The first value of the first row; None: there is no row."""
        row = self.fetchone()
        return None if row is None else row[0]


class PgTx:
    """Also a connection that runs each statement by itself."""

    __slots__ = ("_begin", "_changes", "connection", "news", "ranks", "statements")

    def __init__(
        self, connection: psycopg.Connection[Any], statements: Statements, begin: str = ""
    ) -> None:
        """`begin`: what begins the transaction, sent together with its first statement."""
        self.connection = connection
        self.statements = statements
        self.news: dict[str | None, Moment] = {}
        """What listeners are told once it is committed."""
        self.ranks: dict[str, set[int]] = {}
        """By queue: the ranks of jobs that wait from then on."""
        self._begin = begin
        self._changes = 0

    @property
    def has_begun(self) -> bool:
        return not self._begin

    def sql(self, noun: str, name: str) -> str:
        return self.statements.load(noun)[name]

    def execute(self, statement: str, params: Params = None) -> PgRows:
        cursor = PgRows(self.connection)
        if self._begin:
            with self.connection.pipeline():
                self._send_begin()
                cursor.execute(statement.encode(), params, binary=True)
        else:
            cursor.execute(statement.encode(), params, binary=True)
        self._changes = cursor.rowcount
        return cursor

    def _send_begin(self) -> None:
        begin, self._begin = self._begin, ""
        if begin:
            self.connection.execute(begin.encode())

    def together(self, *asked: tuple[str, str, Params]) -> list[list[TupleRow]]:
        """The rows of several statements, one after the other, in one journey to the server."""
        cursors = [PgRows(self.connection) for _ in asked]
        with self.connection.pipeline():
            self._send_begin()
            for cursor, (noun, name, params) in zip(cursors, asked, strict=True):
                cursor.execute(self.sql(noun, name).encode(), params, binary=True)
        return [cursor.fetchall() for cursor in cursors]

    def executemany(self, statement: str, rows: Iterable[Params]) -> None:
        """The statement for each of these, in one journey to the server."""
        self._send_begin()
        cursor = PgRows(self.connection)
        cursor.executemany(statement.encode(), rows)  # type: ignore[arg-type]
        self._changes = cursor.rowcount

    def run(self, noun: str, name: str, params: Params = None) -> PgRows:
        """The statement of that name."""
        return self.execute(self.statements.load(noun)[name], params)

    def rows(self, noun: str, name: str, params: Params = None) -> list[TupleRow]:
        return self.run(noun, name, params).fetchall()

    def changes(self) -> int:
        """How many rows the last statement changed."""
        return self._changes

    def tell(self, queue: str | None, due_at: Moment, rank: int | None = None) -> None:
        """Note what listeners are to be told after the commit; of a job that waits, also its
        rank."""
        self.news[queue] = min(due_at, self.news.get(queue, due_at))
        if queue is not None and rank is not None:
            self.ranks.setdefault(queue, set()).add(rank)
