"""A transaction of PostgreSQL as `stores/relational` uses it. What needs no answer is sent together
with the next statement, and where it is done many times, as one statement with arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oncue.core.moment import Moment
from oncue.stores.postgresql.tx import PgRows, PgTx, journey
from oncue.stores.relational.tx import Named

_GATHERED = frozenset(
    {
        *(("events", name) for name in ("decide", "accept", "note_newest", "fired")),
        *(("events", name) for name in ("count_decided", "note_stale", "touch")),
        ("made", "insert"),
    }
)
"""Statements that take an array for each parameter. Their order among each other does not matter,
nor that among what is done before the next answer."""
_SOUGHT = ("name", "after", "id")


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
        if params is not None:
            params = _sendable(params)
        if not self._waiting:
            return self._tx.run(noun, name, params)
        with journey(self._tx.connection):
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

    @property
    def silent(self) -> PgTx:
        """For other parts of the store that run no statement."""
        return self._tx

    def tell(self, queue: str | None, due_at: Moment, /) -> None:
        """The revision of the settings is raised at the end of the transaction."""
        self._tx.tell(queue, due_at)

    @property
    def has_changed_settings(self) -> bool:
        return None in self._tx.news

    def flush(self) -> None:
        if self._waiting:
            with journey(self._tx.connection):
                self._send()

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        gathered: dict[tuple[str, str], list[Named]] = {}
        for noun, name, params in waiting:
            if (noun, name) in _GATHERED:
                gathered.setdefault((noun, name), []).append(params)
            else:
                self._tx.run(noun, name, params)
        for (noun, name), all_params in gathered.items():
            arrays = {key: [params[key] for params in all_params] for key in all_params[0]}
            self._tx.run(noun, name, arrays)


def _sendable(params: Named) -> Named:
    """A name with NUL, which PostgreSQL does not take, as one that nothing has: no name has control
    characters."""
    for key in _SOUGHT:
        value = params.get(key)
        if isinstance(value, str) and "\0" in value:
            params = {**params, key: value.replace("\0", "\1")}
    return params
