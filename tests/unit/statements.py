"""What a store on SQLite says to its file."""

from __future__ import annotations

import apsw

from oncue.stores.sqlite import SqliteStore


class Statements:
    """What the writer's connection is told, as it is told."""

    def __init__(self, store: SqliteStore, *, locked: bool = False) -> None:
        self.locked = locked
        self.all: list[str] = []
        self._connection = store.db.writer.connection
        self._connection.exec_trace = self._note

    def _note(self, _: object, statement: str, __: object) -> bool:
        self.all.append(statement)
        if self.locked and statement == "BEGIN IMMEDIATE":
            raise apsw.BusyError("locked")
        return True

    def stop(self) -> None:
        self._connection.exec_trace = None

    def count(self, word: str) -> int:
        return sum(statement.startswith(word) for statement in self.all)
