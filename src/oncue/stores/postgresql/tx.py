"""A transaction of PostgreSQL as the parts of the store use it."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

from oncue.core.moment import Moment
from oncue.core.steps import driven
from oncue.stores.statements import Statements

T = TypeVar("T")
Params = Mapping[str, Any] | Sequence[Any] | None
Asked = tuple[str, str, Params]
"""A statement: its noun and name, and its parameters."""
Steps = Generator[Asked, list[TupleRow], T]
"""Statements of which each needs the rows of those before it. In transactions of the store they are
run by `PgTx.follow`, in those of callers by `steps.py`."""


class PgRows(psycopg.Cursor[TupleRow]):
    """The rows of a statement."""

    @property
    def get(self) -> Any:
        """The first value of the first row; None: there is no row."""
        row = self.fetchone()
        return None if row is None else row[0]

    def all(self) -> list[TupleRow]:
        """None of a statement that has no rows."""
        return [] if self.description is None else self.fetchall()


@contextmanager
def journey(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Statements executed in this block are sent together and answered at its end: nothing may be
    fetched before.

    At its end psycopg sends Sync, which makes the server answer, and then Flush, which is not
    needed. A Flush stops the server's clock for `idle_in_transaction_session_timeout`: a process
    that stands still after it would hold its locks for ever. So it is left out. Without it, psycopg
    may end as if all were answered although the connection is lost: see what is left."""
    left: Collection[object] = ()
    try:
        with connection.pipeline() as pipeline:
            left = pipeline.result_queue
            fetch = pipeline._fetch_gen
            vars(pipeline)["_fetch_gen"] = lambda *, flush: fetch(flush=False)
            yield
    except psycopg.DatabaseError as error:
        if left:
            connection.close()
        if connection.closed and error.sqlstate is None:  # as outside of a pipeline
            raise psycopg.OperationalError(*error.args) from error
        raise
    if left:
        connection.close()
        raise psycopg.OperationalError("the connection was lost before all answers had come")


class PgTx:
    """Also a connection that runs each statement by itself."""

    __slots__ = (
        "_begin",
        "_changes",
        "_commit",
        "connection",
        "is_ending",
        "news",
        "ranks",
        "statements",
    )

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        statements: Statements,
        begin: str = "",
        commit: str = "",
    ) -> None:
        """`begin`: what begins the transaction, sent together with its first statement. `commit`:
        what ends it, if that may be sent together with its last ones."""
        self.connection = connection
        self.statements = statements
        self.news: dict[str | None, Moment] = {}
        """The news for listeners, once it is committed."""
        self.ranks: dict[str, set[int]] = {}
        """By queue: the ranks of jobs that wait from then on."""
        self.is_ending = False
        """Its commit was sent: nothing more is done in it, and trouble leaves open what became of
        it."""
        self._begin = begin
        self._commit = commit
        self._changes = 0

    @property
    def has_begun(self) -> bool:
        return not self._begin

    def sql(self, noun: str, name: str) -> str:
        return self.statements.load(noun)[name]

    def execute(self, statement: str, params: Params = None) -> PgRows:
        cursor = PgRows(self.connection)
        with journey(self.connection) if self._begin else nullcontext():
            self._send_begin()
            cursor.execute(statement.encode(), params, binary=True)
        self._changes = cursor.rowcount
        return cursor

    def _send_begin(self) -> None:
        begin, self._begin = self._begin, ""
        if begin:
            self.connection.execute(begin.encode())

    def together(self, *asked: Asked) -> list[list[TupleRow]]:
        """The rows of several statements, one after the other, in one journey to the server."""
        return self._journey(asked, begins=True)

    def peek(self, *asked: Asked) -> list[list[TupleRow]]:
        """The same for statements that hold no locks: if nothing else is done, no transaction was
        begun. In one that has begun they are part of it."""
        return self._journey(asked, begins=False)

    def end(self, *asked: Asked) -> list[list[TupleRow]]:
        """The same for the last statements of the transaction: it is committed in that journey, if
        it was allowed at the beginning. If one of them fails, nothing is."""
        self.is_ending = bool(self._commit)
        return self._journey(asked, begins=True, commit=self._commit)

    def _journey(
        self, asked: Sequence[Asked], *, begins: bool, commit: str = ""
    ) -> list[list[TupleRow]]:
        cursors = [PgRows(self.connection) for _ in asked]
        with journey(self.connection):
            if begins:
                self._send_begin()
            for cursor, (noun, name, params) in zip(cursors, asked, strict=True):
                cursor.execute(self.sql(noun, name).encode(), params, binary=True)
            if commit:
                self.connection.execute(commit.encode())
        return [cursor.all() for cursor in cursors]

    def executemany(self, statement: str, rows: Iterable[Params]) -> None:
        """The statement for each of these, in one journey to the server."""
        cursor = PgRows(self.connection)
        with journey(self.connection):
            self._send_begin()
            cursor.executemany(statement.encode(), rows)  # type: ignore[arg-type]
        self._changes = cursor.rowcount

    def run(self, noun: str, name: str, params: Params = None) -> PgRows:
        """The statement of that name."""
        return self.execute(self.sql(noun, name), params)

    def rows(self, noun: str, name: str, params: Params = None) -> list[TupleRow]:
        return self.run(noun, name, params).all()

    def follow(self, steps: Steps[T]) -> T:
        """Run these steps in this transaction. Their result."""
        return driven(steps, lambda asked: self.rows(*asked))

    def changes(self) -> int:
        """How many rows the last statement changed."""
        return self._changes

    def tell(self, queue: str | None, due_at: Moment, rank: int | None = None) -> None:
        """Note what listeners are to be told after the commit; of a job that waits, also its
        rank."""
        self.news[queue] = min(due_at, self.news.get(queue, due_at))
        if queue is not None and rank is not None:
            self.ranks.setdefault(queue, set()).add(rank)
