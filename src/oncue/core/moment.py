"""Moments: whole milliseconds since 1970 in UTC, held as `int`.

Text and datetimes are converted here and nowhere else. Anything finer than a millisecond is
rounded up, so that no conversion can make a moment earlier than it was asked for.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from oncue.core.errors import InvalidInput
from oncue.core.text import quoted

Moment = int

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Moment = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last a datetime can hold
EARLIEST: Moment = -62_135_596_800_000  # 0001-01-01, the first
HORIZON_MS = 100 * 366 * 86_400_000  # how far ahead a due time may lie: a century
RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
OFFSET = 4  # its group


def from_datetime(when: datetime, pointer: str = "") -> Moment:
    """The moment of an aware datetime, rounded up to the millisecond."""
    if when.tzinfo is not UTC and when.utcoffset() is None:
        raise InvalidInput(
            f"{when.isoformat()} has no time zone, so it does not name a moment. "
            "Use datetime.now(timezone.utc), or attach the zone you mean with "
            "when.replace(tzinfo=ZoneInfo('Europe/Paris')).",
            pointer,
        )
    since = when - EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 - (-since.microseconds // 1000)


@lru_cache(maxsize=4096)  # jobs that come together share their moments
def to_datetime(moment: Moment) -> datetime:
    return EPOCH + timedelta(milliseconds=moment)


def maybe_datetime(moment: Moment | None) -> datetime | None:
    return None if moment is None else to_datetime(moment)


@lru_cache(maxsize=4096)
def render(moment: Moment) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-15T20:09:42.123Z`."""
    day, rest = divmod(moment, 86_400_000)
    minute, rest = divmod(rest, 60_000)
    return f"{_date(day)}{_MINUTES[minute]}{rest // 1000:02}.{rest % 1000:03}Z"


@lru_cache(maxsize=4096)
def _date(day: int) -> str:
    return to_datetime(day * 86_400_000).isoformat()[:11]


_MINUTES = [f"{hour:02}:{minute:02}:" for hour in range(24) for minute in range(60)]


def parse(text: str, pointer: str = "") -> Moment:
    """The moment an RFC 3339 text names; the offset is required."""
    match = RFC3339.fullmatch(text)
    if match is None or match[OFFSET] is None:
        raise InvalidInput(
            f"{quoted(text)} is not an RFC 3339 time with an offset; "
            "write it like 2026-12-01T09:30:00Z or 2026-12-01T09:30:00+01:00.",
            pointer,
        )
    whole, digits = whole_second(match, pointer)
    finer = 1 if digits[3:].strip("0") else 0
    return from_datetime(whole, pointer) + int(digits[:3].ljust(3, "0")) + finer


def whole_second(match: re.Match[str], pointer: str) -> tuple[datetime, str]:
    """What a match of `RFC3339` names, and the digits of its fraction. Without an offset it is
    UTC."""
    day, clock, fraction, offset = match.groups()
    zone = "+00:00" if offset is None or offset in "Zz" else offset
    try:
        return datetime.fromisoformat(f"{day}T{clock}{zone}"), (fraction or ".0")[1:]
    except (ValueError, OverflowError) as problem:
        raise InvalidInput(f"{quoted(match[0])} is not a moment: {problem}.", pointer) from None


def ahead(moment: Moment, now: Moment, pointer: str = "") -> Moment:
    """`moment` as a due time: the past means now; beyond a century is refused."""
    if moment > now + HORIZON_MS or moment > LATEST:
        raise InvalidInput("more than 100 years ahead; choose an earlier time.", pointer)
    return max(moment, now)
