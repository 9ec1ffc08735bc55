"""Cron by walking: looks at the clock on the wall every few seconds and asks whether it is time.

Shares nothing with `oncue.core.cron`: fields are read and zones are looked up here again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

RANGES = (range(60), range(60), range(24), range(1, 32), range(1, 13), range(7))


class SlowCron:
    """Lists, ranges, steps and numbers; days of the month and of the week must both match."""

    def __init__(self, expression: str) -> None:
        fields = expression.split()
        fields = fields if len(fields) == 6 else ["0", *fields]
        self.step = 60 if len(expression.split()) == 5 else 20
        self.time_of_day = "*" not in (fields[1][0], fields[2][0])
        self._sets = [_field(text, whole) for text, whole in zip(fields, RANGES, strict=True)]

    def names(self, local: datetime) -> bool:
        weekday = (local.weekday() + 1) % 7
        clock = (local.second, local.minute, local.hour, local.day, local.month, weekday)
        return all(value in wanted for value, wanted in zip(clock, self._sets, strict=True))

    def walk(self, walls: list[tuple[int, datetime]]) -> Iterator[int]:
        """The instants at which it happens, given what the wall shows at every instant."""
        if not self.time_of_day:
            yield from (at for at, local in walls if self.names(local))
            return
        step = timedelta(seconds=self.step)
        reached = walls[0][1] - step
        for at, local in walls:
            passed = []
            while reached < local:
                reached += step
                passed.append(reached)
            if any(self.names(one) for one in passed):
                yield at


def walls(key: str, start: int, end: int, step: int) -> list[tuple[int, datetime]]:
    """What the local clock shows at every step of [start, end)."""
    zone = ZoneInfo(key)
    return [
        (at, datetime.fromtimestamp(at, UTC).astimezone(zone).replace(tzinfo=None))
        for at in range(start, end, step)
    ]


def _field(text: str, whole: range) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        values = whole if span == "*" else range(int(first), int(last or first) + 1)
        found.update(values[:: int(step or 1)])
    return found
