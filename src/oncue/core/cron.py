"""Cron expressions: which moments they name, on days with and without a change of the clocks.

cronsim finds the local times that an expression names. A local time that does not exist, or exists
twice, is handled here: cronsim alone skips and doubles in the six-field form.

- Neither minute nor hour begins with `*`: a time of day. It happens once on every day it names; in
  a gap when the gap ends, in an overlap the first time.
- Otherwise: a rhythm. It happens whenever the local clock shows a time that it names: not in a gap,
  and both times in an overlap, so the pace stays even.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.core.zone import DAY, Zone, zone

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_LONGEST = 200
_RANGES = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, and a day that one of the months has",
    "month": "1 to 12",
    "day of week": "0 to 7, or SUN to SAT",
}
_SPELLED_OUT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Mark(StrEnum):
    """What the clocks do around an occurrence."""

    NORMAL = "normal"
    GAP = "gap"
    OVERLAP = "overlap"


class Occurrence(NamedTuple):
    at: Moment
    mark: Mark = Mark.NORMAL
    note: str = ""
    """What the mark means here, for people."""


class Cron:
    """An expression in a time zone. Made by `cron`, which returns the same object for the same two
    and says what is wrong with an expression."""

    def __init__(self, expression: str, timezone: Zone) -> None:
        self._parsed = CronSim(expression, _EPOCH)
        self.expression = expression
        self.zone = timezone
        self.ever_comes = next(self._locals(0), None) is not None
        *_, minute, hour, _, _, _ = expression.split()
        self.is_time_of_day = not minute.startswith("*") and not hour.startswith("*")

    def after(self, moment: Moment) -> Occurrence | None:
        """The first occurrence strictly after a moment; None if there is none for 50 years."""
        try:
            at = moment // 1000
            return self._time_of_day(at) if self.is_time_of_day else self._rhythm(at)
        except OverflowError:  # beyond the last year that a datetime can hold
            return None

    def _time_of_day(self, after: int) -> Occurrence | None:
        for local in self._locals(after + self.zone.offset_at(after)):
            at, moved = self.zone.reached(local)
            if at <= after:  # the second time that the clock shows it
                continue
            if moved:
                note = f"{_clock(local)} does not exist on this day: at the end of the gap"
                return Occurrence(at * 1000, Mark.GAP, note)
            if self.zone.is_repeated(local):
                note = f"{_clock(local)} comes twice on this day: the first time only"
                return Occurrence(at * 1000, Mark.OVERLAP, note)
            return Occurrence(at * 1000)
        return None

    def _rhythm(self, after: int) -> Occurrence | None:
        offset, since, seen = self.zone.offset_at(after), after, after
        skipped: int | None = None
        while (local := next(self._locals(since + offset), None)) is not None:
            at = local - offset
            change = next(self.zone.changes(seen, at), None)
            if change is None:
                return self._marked(at, local, skipped)
            if local < change.at + change.after:
                skipped = local
            since, offset, seen = change.at - 1, change.after, change.at
        return None

    def _marked(self, at: int, local: int, skipped: int | None) -> Occurrence:
        if skipped is not None:
            note = f"{_clock(skipped)} does not exist on this day: left out"
            return Occurrence(at * 1000, Mark.GAP, note)
        if self.zone.is_repeated(local):
            which = "second" if self.zone.reached(local).at < at else "first"
            note = f"{_clock(local)} comes twice on this day: both times, this is the {which}"
            return Occurrence(at * 1000, Mark.OVERLAP, note)
        return Occurrence(at * 1000)

    def _locals(self, after: int) -> Iterator[int]:
        """The local times that the expression names, strictly after one."""
        named = copy(self._parsed)  # parsing takes longer than finding
        named.dt = _EPOCH + timedelta(seconds=after)
        return ((local - _EPOCH) // _SECOND for local in named)


@lru_cache(maxsize=4096)
def _known(expression: str, timezone: str) -> Cron:
    return Cron(expression, zone(timezone))


def cron(expression: object, timezone: object, pointer: str = "/cron") -> Cron:
    """The expression, in five fields or in six with the seconds first, in a zone of that name."""
    if not isinstance(expression, str) or len(expression) > _LONGEST:
        raise InvalidInput(f"must be text of at most {_LONGEST} characters.", pointer)
    known_zone = zone(timezone)
    written = " ".join(expression.split())
    if written.lower() in _SPELLED_OUT:
        raise InvalidInput(f"write it as {_SPELLED_OUT[written.lower()]!r}.", pointer)
    try:
        known = _known(written, known_zone.key)
    except (CronSimError, AssertionError, ValueError) as problem:
        raise InvalidInput(_unreadable(written, problem), pointer) from None
    if not known.ever_comes:
        raise InvalidInput("never happens: no date matches all its fields.", pointer)
    return known


def _unreadable(written: str, problem: Exception) -> str:
    count = len(written.split())
    if count not in (5, 6):
        return (
            f"has {count} field{'s' * (count != 1)}; cron has five (minute, hour, day of month, "
            "month, day of week) or six with the seconds first. Write it like '30 9 * * MON-FRI'."
        )
    field = str(problem).removeprefix("Bad ").replace("-", " ") or "day of month"
    if field in _RANGES:
        wrong = f"the field for the {field} is unreadable or out of range ({_RANGES[field]})"
    else:
        wrong = "is unreadable"
    return f"{wrong}. Write it like '30 9 * * MON-FRI'."


def _clock(local: int) -> str:
    """A local time as the wall shows it."""
    hours, seconds = divmod(local % DAY, 3600)
    minutes, seconds = divmod(seconds, 60)
    return f"{hours:02}:{minutes:02}" + (f":{seconds:02}" if seconds else "")
