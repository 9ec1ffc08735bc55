"""Moments and lengths as people type them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from oncue.core import duration, moment
from oncue.core import stamp as stamps
from oncue.core.errors import InvalidInput
from oncue.core.text import quoted

_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
_NUMBER = r"\d+(?:\.\d+)?"
_SHORT = re.compile(rf"(?:{_NUMBER}(?:ms|[smhdw]))+", re.ASCII)
_PART = re.compile(rf"({_NUMBER})(ms|[smhdw])", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def read_moment(text: str, option: str) -> datetime:
    """The moment that a text names: RFC 3339, or without an offset, in local time."""
    if _LOCAL.fullmatch(text):
        return _local(text, option)
    return moment.to_datetime(_rfc3339(moment.parse, text, option))


def read_stamp(text: str, option: str) -> stamps.Stamp:
    """Event time, to the microsecond: RFC 3339, or without an offset, in local time."""
    if _LOCAL.fullmatch(text):
        return stamps.from_datetime(_local(text, option), option)
    return _rfc3339(stamps.parse, text, option)


def _rfc3339(parse: Callable[[str], int], text: str, option: str) -> int:
    try:
        return parse(text)
    except InvalidInput:
        raise InvalidInput(
            f"{quoted(text)} is not a time; write it like 2026-12-01T09:30:00Z, "
            "or in local time like '2026-12-01 09:30'.",
            option,
        ) from None


def read_length(text: str, option: str, else_: str = "") -> float:
    """Seconds: from a number of them, short forms such as 90s, 15m, 2h30m, 3d, or ISO 8601."""
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return duration.seconds(float(text), option)
    if _SHORT.fullmatch(text):
        parts = _PART.findall(text)
        return duration.seconds(sum(float(n) * _UNITS[unit] for n, unit in parts), option)
    try:
        return duration.seconds(text.upper(), option)
    except InvalidInput:
        raise InvalidInput(
            f"{quoted(text)} is not a length of time; write seconds, or 90s, 15m, 2h30m, 3d, or "
            f"ISO 8601 such as PT15M{else_}.",
            option,
        ) from None


def length_or_none(text: str, option: str) -> float | str:
    """The same, where `none` means without end, as does `forever`: so it is shown."""
    if "".join(text.lower().split()) in ("none", "forever"):
        return "none"
    return read_length(text, option, ", or forever")


def read_number(text: str, option: str) -> int | float | str:
    """A number. Another text stays a text, and is refused where the bounds are checked."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


class Readable(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """The type of an option whose text is converted by `read`, which gets the option's name too."""

    def __init__(self, name: str, read: Callable[[str, str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: Any) -> Any:
        assert param is not None
        return self._read(value, param.opts[0])


TIME = Readable("time", read_moment)
EVENT_TIME = Readable("time", read_stamp)
NUMBER = Readable("number", read_number)
LENGTH = Readable("length", read_length)
LENGTH_OR_NONE = Readable("length|none", length_or_none)


def _local(text: str, option: str) -> datetime:
    try:
        naive = datetime.fromisoformat(text)
        local = naive.astimezone()
        again = naive.replace(fold=1).astimezone()
    except (ValueError, OverflowError, OSError) as problem:
        raise InvalidInput(f"{quoted(text)} is not a moment: {problem}.", option) from None
    if local.replace(tzinfo=None) != naive:
        raise InvalidInput(
            f"{quoted(text)} does not exist in local time: clocks go forward over it. "
            f"Did you mean '{max(local, again):%Y-%m-%d %H:%M}'?",
            option,
        )
    if local.utcoffset() != again.utcoffset():
        raise InvalidInput(
            f"{quoted(text)} happens twice in local time: clocks go back over it. "
            f"Write {local.isoformat()} or {again.isoformat()}.",
            option,
        )
    return local
