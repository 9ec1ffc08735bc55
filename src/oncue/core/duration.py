"""Durations: seconds as a number, a timedelta, or ISO 8601 such as `PT15M`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from oncue.core.errors import InvalidInput
from oncue.core.text import quoted

Duration = int | float | timedelta | str

_NUMBER = r"(\d+(?:\.\d+)?)"
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_UNITS = (604_800, 86_400, 3_600, 60, 1)


def seconds(value: object, pointer: str = "") -> float:
    """The length of `value` in seconds; negative, endless and unreadable ones are refused."""
    if isinstance(value, timedelta):
        length = value.total_seconds()
    elif isinstance(value, str):
        length = _iso_seconds(value, pointer)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = _finite(value, pointer)
    else:
        raise InvalidInput(
            "give seconds as a number, a timedelta, or ISO 8601 such as 'PT15M'.", pointer
        )
    if length < 0:
        raise InvalidInput("must not be negative.", pointer)
    return length


def spoken(seconds: float) -> str:
    """A length as people say it: 350 ms, 12 s, 3 min, 2.5 h, 4 d."""
    if seconds < 0:
        return "-" + spoken(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    days = seconds / 86_400
    return f"{days:.3g} d" if days < 100 else f"{days:,.0f} d"


def _finite(value: float, pointer: str) -> float:
    try:
        length = float(value)
    except OverflowError:
        length = math.inf
    if not math.isfinite(length):
        raise InvalidInput("must be a finite number of seconds.", pointer)
    return length


def _iso_seconds(text: str, pointer: str) -> float:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()) or text.endswith("T"):
        raise InvalidInput(
            f"{quoted(text)} is not an ISO 8601 duration of weeks, days, hours, minutes and "
            "seconds; write it like PT15M or P1DT12H.",
            pointer,
        )
    parts = zip(match.groups(), _UNITS, strict=True)
    return _finite(sum(float(part) * unit for part, unit in parts if part), pointer)
