"""A connection as `stores/relational` uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apsw

from oncue.core.moment import Moment
from oncue.stores.relational.tx import Named
from oncue.stores.sqlite import rows

_NOUNS = ("rules", "events", "rules_transfer", "schedules", "access", "nodes")
_SQL = {noun: rows.load(noun) for noun in _NOUNS}


class SqliteTx(apsw.Connection):
    """Implements `oncue.stores.relational.tx.RelationalTx`, inside a transaction. It is the
    connection itself, so that a statement costs no more than one of other parts."""

    note: Callable[[str | None, Moment], None]
    """See `tell`. Only the connection that writes has it."""

    def run(self, noun: str, name: str, params: Named | None = None, /) -> apsw.Cursor:
        return self.execute(_SQL[noun][name], params)

    def rows(self, noun: str, name: str, params: Named | None = None, /) -> list[Any]:
        return self.execute(_SQL[noun][name], params).fetchall()

    def do(self, noun: str, name: str, params: Named, /) -> None:
        self.execute(_SQL[noun][name], params)

    def change(self, noun: str, name: str, params: Named, /) -> int:
        self.execute(_SQL[noun][name], params)
        return self.changes()

    def texts(self, values: Iterable[str], /) -> Any:
        return rows.texts(values)

    def numbers(self, values: Iterable[int], /) -> Any:
        return rows.numbers(values)

    def tell(self, queue: str | None, due_at: Moment, /) -> None:
        """The revision of the settings is raised by triggers."""
        self.note(queue, due_at)
