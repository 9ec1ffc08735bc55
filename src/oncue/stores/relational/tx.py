"""A transaction as the parts here use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from oncue.core.moment import Moment

Named = Mapping[str, Any]
"""Parameters of a statement. All have names; more may be given than the statement has."""


class TxRows(Protocol):
    """The rows of a statement."""

    @property
    def get(self) -> Any:
        """The value, of a statement that finds one at most; None: it found none."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class RelationalTx(Protocol):
    """Statements are named by their file and their name in it."""

    def run(self, noun: str, name: str, params: Named | None = None, /) -> TxRows: ...

    def rows(self, noun: str, name: str, params: Named | None = None, /) -> list[Any]:
        """All rows of a statement."""

    def do(self, noun: str, name: str, params: Named, /) -> None:
        """Run a statement whose answer nobody needs. It may be sent together with the next one;
        what it does is seen by every later statement."""

    def change(self, noun: str, name: str, params: Named, /) -> int:
        """Run a statement; how many rows it changed."""

    def texts(self, values: Iterable[str], /) -> Any:
        """Many strings as one parameter. Must not be empty."""

    def numbers(self, values: Iterable[int], /) -> Any:
        """Many integers as one parameter. Must not be empty."""

    def tell(self, queue: str | None, due_at: Moment, /) -> None:
        """Note what listeners are to be told after the commit. (None, 0): settings were changed,
        which also raises the revision of the settings."""
