"""A transaction of PostgreSQL as `stores/relational` uses it: what needs no answer is sent together
with the next statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncue.core.moment import Moment
from oncue.stores.postgresql.tx import PgRows, PgTx
from oncue.stores.relational.tx import Named


class PgJoined:
    """Implements `oncue.stores.relational.tx.RelationalTx`."""

    __slots__ = ("_tx", "_waiting", "kept_queues")

    def __init__(self, tx: PgTx) -> None:
        self._tx = tx
        self._waiting: list[tuple[str, str, Named]] = []
        self.kept_queues: set[str] = set()
        """Those that are there, and stay until the end of the transaction."""

    @property
    def tx(self) -> PgTx:
        """For other parts of the store; what was to be done is done."""
        self.flush()
        return self._tx

    def run(self, noun: str, name: str, params: Named | None = None, /) -> PgRows:
        if not self._waiting:
            return self._tx.run(noun, name, params)
        with self._tx.connection.pipeline():
            self._send()
            return self._tx.run(noun, name, params)

    def rows(self, noun: str, name: str, params: Named | None = None, /) -> list[Any]:
        return self.run(noun, name, params).fetchall()

    def together(self, *asked: tuple[str, str, Named]) -> list[list[Any]]:
        """The rows of several statements, in one journey to the server."""
        return self.tx.together(*asked)

    def do(self, noun: str, name: str, params: Named, /) -> None:
        self._waiting.append((noun, name, params))

    def change(self, noun: str, name: str, params: Named, /) -> int:
        return self.run(noun, name, params).rowcount

    def texts(self, values: Iterable[str], /) -> list[str]:
        return list(values)

    def numbers(self, values: Iterable[int], /) -> list[int]:
        return list(values)

    def tell(self, queue: str | None, due_at: Moment, /) -> None:
        """The revision of the settings is raised at the end of the transaction."""
        self._tx.tell(queue, due_at)

    @property
    def has_changed_settings(self) -> bool:
        return None in self._tx.news

    def flush(self) -> None:
        if self._waiting:
            with self._tx.connection.pipeline():
                self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for noun, name, params in waiting:
            self._tx.run(noun, name, params)
