"""One zone, one change of its clocks, many expressions: both implementations must agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple
from zoneinfo import available_timezones

from oncue.core.cron import cron
from oncue.core.zone import OffsetChange, zone
from tests.dst.slow import SlowCron, walls

HOUR = 3600
FIVE = [
    *(
        "30 2 * * *",
        "0 0 * * *",
        "*/15 * * * *",
        "0 * * * *",
        "15,45 1-3 * * *",
        "0-59/7 0-4 * * *",
    ),
    *("*/20 2 * * *", "30 */2 * * *", "0 12 * * *", "5 3 * * 0"),
]
SIX = ["0 30 2 * * *", "20 0 0 * * *", "*/20 * * * * *", "*/40 30 1,2 * * *", "40 */10 * * * *"]
YEARS = (
    int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()),
    int(datetime(2038, 1, 1, tzinfo=UTC).timestamp()),
)


def changes(key: str) -> list[OffsetChange]:
    """Every change of the clocks of a zone from 2000 to 2037."""
    return list(zone(key).changes(*YEARS))


@cache
def distinct_zones() -> tuple[str, ...]:
    """One zone for each set of rules: many names share theirs."""
    ours = sorted(available_timezones() - {"localtime", "posixrules", "Factory"})
    return tuple({zone(key).digest: key for key in reversed(ours)}.values())


class Look(NamedTuple):
    """How closely a change is looked at."""

    expressions: Sequence[str]
    step: int
    around: int
    """So many seconds to either side, and the shift of the clocks."""


CLOSE = (Look(FIVE, 60, 6 * HOUR), Look(SIX, 20, 2 * HOUR))
QUICK = (Look(FIVE[:3], 60, 2 * HOUR), Look(SIX[:1], 20, HOUR))


def disagreements(key: str, change: OffsetChange, looks: Sequence[Look] = CLOSE) -> Iterator[str]:
    """What the two implementations see differently around a change."""
    shift = abs(change.after - change.before)
    for expressions, step, around in looks:
        start = (change.at - around - shift) // 60 * 60
        end = change.at + around + shift
        seen = walls(key, start, end, step)
        for expression in expressions:
            slow = list(SlowCron(expression).walk(seen))
            fast = occurrences(expression, key, start, end)
            if fast != slow:
                differ = sorted(set(fast) ^ set(slow))
                yield f"{key}, {expression!r} around {change}: {differ or 'in their order'}"


def occurrences(expression: str, key: str, start: int, end: int) -> list[int]:
    """When it happens in [start, end), asked one after the other."""
    rule = cron(expression, key)
    found: list[int] = []
    occurrence = rule.after(start * 1000 - 1)
    while occurrence is not None and occurrence.at < end * 1000:
        found.append(occurrence.at // 1000)
        occurrence = rule.after(occurrence.at)
    return found
