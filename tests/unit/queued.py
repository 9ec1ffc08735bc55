"""A call that stands in line for the writer of an SQLite file, as one of many callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from oncue.stores.sqlite import SqliteStore
from oncue.stores.sqlite.writer import _Ticket

T = TypeVar("T")


class Queued(Generic[T]):
    def __init__(self, store: SqliteStore, call: Callable[[], T]) -> None:
        self._ticket = _Ticket(call)
        store.db.writer._enqueue(self._ticket)

    def result(self, seconds: float = 20.0) -> T:
        """Its answer, waited for no longer than that."""
        assert self._ticket._done.acquire(timeout=seconds)
        self._ticket._done.release()
        return self._ticket.result()

    def exception(self, seconds: float = 20.0) -> BaseException | None:
        try:
            self.result(seconds)
        except BaseException as error:
            return error
        return None
