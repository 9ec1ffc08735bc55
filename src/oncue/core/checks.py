"""Checks of values from outside that several nouns need. Each answers with the value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeGuard, TypeVar

from oncue.core.errors import InvalidInput
from oncue.core.text import is_printable

Choice = TypeVar("Choice", bound=StrEnum)


def whole(value: object, least: int, most: int, pointer: str, hint: str = "") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"must be a whole number from {least} to {most:,}{hint}.", pointer)
    return value


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def at_least(value: object, least: float, pointer: str) -> float:
    if not is_number(value) or not least <= value < math.inf:
        raise InvalidInput(f"must be a finite number, at least {least:g}.", pointer)
    return value


def flag(value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput("must be true or false.", pointer)
    return value


def choice(kind: type[Choice], value: object, pointer: str) -> Choice:
    try:
        return kind(str(value))
    except ValueError:
        raise InvalidInput(f"must be one of {', '.join(kind)}.", pointer) from None


def printable(value: object, most: int, pointer: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most or not is_printable(value):
        raise InvalidInput(f"must be 1 to {most} printable characters.", pointer)
    return value


def only(fields: Iterable[object], known: Sequence[str], whose: str, pointer: str = "") -> None:
    """Refuse a name that is none of the fields; `whose` says what has these."""
    for name in sorted({str(name) for name in fields} - set(known)):
        raise InvalidInput(
            f"there is no such field; {whose} {', '.join(known)}.", f"{pointer}/{name}"
        )
