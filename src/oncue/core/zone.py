"""Time zones as the cron rules see them: offsets, and the moments at which they change.

Everything here is whole seconds: instants since 1970 in UTC, local times since 1970 as the clock on
the wall shows them. The rules come from the IANA database that `zoneinfo` finds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from oncue.core.errors import InvalidInput

DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR = 9998  # the year after it must still be a datetime
_DIGESTED_YEARS = range(2000, 2038)
_OF_THE_MACHINE = frozenset({"localtime", "posixrules", "Factory"})  # their rules differ by machine


class OffsetChange(NamedTuple):
    """The offset from UTC changes at an instant. Forward is a gap, backward an overlap."""

    at: int
    before: int
    after: int


class Reached(NamedTuple):
    """When a local time is first shown or passed."""

    at: int
    moved: bool
    """It falls into a gap, so it is never shown: the clock passes it at the end of the gap."""


class Zone:
    """The rules of one time zone. Zones of one name are the same object: see `zone`."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._info = ZoneInfo(key)
        self._years: dict[int, tuple[OffsetChange, ...]] = {}

    def offset_at(self, at: int) -> int:
        """What is added to UTC at this instant."""
        offset = (_EPOCH + timedelta(seconds=at)).astimezone(self._info).utcoffset()
        assert offset is not None, "every rule of the database gives an offset"
        return offset // timedelta(seconds=1)

    def changes(self, after: int, until: int) -> Iterator[OffsetChange]:
        """The changes in (after, until], in order."""
        first, last = _year_of(after), _year_of(until)
        for year in range(first, min(last, _LAST_YEAR) + 1):
            for change in self._of_year(year):
                if after < change.at <= until:
                    yield change

    def reached(self, local: int) -> Reached:
        """The first instant at which the local clock shows this time or a later one."""
        begins = local - DAY  # offsets are shorter than a day, so it is not reached by then
        offset = self.offset_at(begins)
        for change in self.changes(begins, local + DAY):
            if local - offset < change.at:
                break
            begins, offset = change.at, change.after
        return Reached(max(local - offset, begins), moved=local - offset < begins)

    def is_repeated(self, local: int) -> bool:
        """Whether the local clock shows this time twice."""
        return any(
            change.at + change.after <= local < change.at + change.before
            for change in self.changes(local - DAY, local + DAY)
        )

    @cached_property
    def digest(self) -> str:
        """Differs if the rules for the years 2000 to 2037 differ."""
        changes = [tuple(one) for year in _DIGESTED_YEARS for one in self._of_year(year)]
        start = self.offset_at(_start_of(_DIGESTED_YEARS[0]))
        return hashlib.blake2b(repr((start, changes)).encode(), digest_size=8).hexdigest()

    def _of_year(self, year: int) -> tuple[OffsetChange, ...]:
        if year not in self._years:
            self._years[year] = tuple(self._look(year))
        return self._years[year]

    def _look(self, year: int) -> Iterator[OffsetChange]:
        """Day by day: no zone changes twice within one."""
        at, end = _start_of(year) - 1, _start_of(year + 1) - 1
        offset = self.offset_at(at)
        while at < end:
            later = min(at + DAY, end)
            other = self.offset_at(later)
            if other != offset:
                yield OffsetChange(self._boundary(at, later, offset), offset, other)
            at, offset = later, other

    def _boundary(self, before: int, after: int, offset: int) -> int:
        """The first second without the offset that `before` has and `after` has not."""
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset_at(middle) == offset:
                before = middle
            else:
                after = middle
        return after


@lru_cache(maxsize=2048)  # more than the database has
def _known(key: str) -> Zone:
    return Zone(key)


def zone(key: object, pointer: str = "/timezone") -> Zone:
    """The zone of that name in the IANA database."""
    try:
        if not isinstance(key, str) or key in _OF_THE_MACHINE:
            raise ValueError
        return _known(key)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        shown = repr(key) if isinstance(key, str) and key.isprintable() else "this"
        raise InvalidInput(
            f"{shown[:80]} is not a time zone of the IANA database; "
            "write it like Europe/Paris or UTC.",
            pointer,
        ) from None


def load_zones() -> None:
    """Read the whole database now: no file is opened later for a zone that it has."""
    for key in available_timezones():
        with suppress(InvalidInput):  # those of the machine, such as `localtime`
            zone(key)


def _start_of(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


def _year_of(at: int) -> int:
    return (_EPOCH + timedelta(seconds=at)).year
