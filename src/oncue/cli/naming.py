"""Names that nobody knows: the nearest known one is suggested."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol, TypeVar

from oncue.core.errors import NotFound

NAMES_COMPARED = 10_000
T = TypeVar("T")


class Named(Protocol):
    @property
    def name(self) -> str: ...


def suggestion(name: str, names: Iterable[str]) -> str:
    """The nearest of these names as a question, with a space before it; nothing if none is near."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def ask_about(
    noun: str, name: str, ask: Callable[[], T], every: Callable[[], Iterable[Named]]
) -> T:
    """Call `ask`; if it knows no such name, suggest the nearest one of `every`."""
    try:
        return ask()
    except NotFound:
        names = [one.name for one in islice(every(), NAMES_COMPARED)]
        hint = suggestion(name, names) or f" 'oncue {noun}s list' lists them."
        raise NotFound(f"there is no {noun} {name!r}.{hint}") from None
