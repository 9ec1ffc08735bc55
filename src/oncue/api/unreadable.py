"""Where a body says something that JSON can say and nobody can keep.

The decoder stops there with a message about bytes. Whoever sent it is better served by the place,
which is worth a second look at a body that is refused anyway.
"""

from __future__ import annotations

import json
import math

from oncue.api.problems import Problem, invalid
from oncue.core.text import escaped

TOO_DEEP = "The JSON is nested too deeply."


def unreadable(text: bytes, problem: Exception) -> Problem:
    """Why a body cannot be taken; `problem` is what the decoder said."""
    if isinstance(problem, RecursionError):
        return Problem("malformed", TOO_DEEP)
    try:
        found = _unkeepable(json.loads(text, parse_constant=_refuse), "")
    except RecursionError:
        return Problem("malformed", TOO_DEEP)
    except ValueError:
        found = None
    if found is not None:
        return found
    said = str(problem).rstrip(".")
    return Problem("malformed", f"The body is not JSON in UTF-8: {said}.")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _unkeepable(value: object, pointer: str) -> Problem | None:
    """The first half of a character, or number beyond all bounds."""
    if isinstance(value, str) and not _whole(value):
        return invalid("contains half a character (a lone surrogate); send plain text.", pointer)
    if isinstance(value, float) and not math.isfinite(value):
        return invalid("this number is too large to be kept.", pointer)
    if isinstance(value, dict):
        for name, inner in value.items():
            place = f"{pointer}/{escaped(name)}"
            if not _whole(name):
                return invalid("the name contains half a character (a lone surrogate).", place)
            if (found := _unkeepable(inner, place)) is not None:
                return found
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            if (found := _unkeepable(inner, f"{pointer}/{position}")) is not None:
                return found
    return None


def _whole(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
