"""Stamps: event time, whole microseconds since 1970 in UTC, held as `int`.

Events say when something happened, to the microsecond; moments (see `moment`) say when oncue acts,
to the millisecond. The two are never compared without `of_moment`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from oncue.core.errors import InvalidInput
from oncue.core.moment import EPOCH, OFFSET, RFC3339, Moment, whole_second

Stamp = int

SECOND: Stamp = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
EARLIEST: Stamp = (datetime.min.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND
LATEST: Stamp = (datetime.max.replace(tzinfo=UTC) - EPOCH) // _MICROSECOND


def parse(text: object, pointer: str = "") -> Stamp:
    """The stamp that a text or an aware datetime names: RFC 3339, or `2021-01-01 11:59:59`, which
    is UTC. Anything finer than a microsecond is cut off."""
    if isinstance(text, datetime):
        return from_datetime(text, pointer)
    match = RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None or (match[OFFSET] is None and match[0][10] != " "):
        raise InvalidInput(
            "is not the time of an event; write it like 2021-01-01T11:59:59.000000Z or "
            "2021-01-01T12:59:59+01:00, or, for UTC, 2021-01-01 11:59:59.",
            pointer,
        )
    whole, digits = whole_second(match, pointer)
    return from_datetime(whole, pointer) + int(digits[:6].ljust(6, "0"))


def from_datetime(when: datetime, pointer: str = "") -> Stamp:
    """The stamp of an aware datetime."""
    if when.tzinfo is None or when.utcoffset() is None:
        raise InvalidInput(
            f"{when.isoformat()} has no time zone; use datetime.now(timezone.utc).", pointer
        )
    stamp = (when - EPOCH) // _MICROSECOND
    if not EARLIEST <= stamp <= LATEST:  # its offset takes it out of the calendar
        raise InvalidInput(f"{when.isoformat()} lies outside the years 1 to 9999 in UTC.", pointer)
    return stamp


def to_datetime(stamp: Stamp) -> datetime:
    return EPOCH + timedelta(microseconds=stamp)


def render(stamp: Stamp) -> str:
    """RFC 3339 in UTC with microseconds: `2021-01-01T11:59:59.000000Z`."""
    return to_datetime(stamp).isoformat(timespec="microseconds")[:-6] + "Z"


def of_moment(moment: Moment) -> Stamp:
    """The same point in time, in microseconds."""
    return moment * 1000
