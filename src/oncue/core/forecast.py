"""How late scheduled work will be: what is due when, against the rate at which it is handed over.

First due, first served, at a steady rate. Pure arithmetic.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from oncue.core.errors import InvalidInput
from oncue.core.moment import Moment
from oncue.core.recurrence import awaited
from oncue.core.schedule import Schedule


class Step(NamedTuple):
    """One stretch of the time ahead."""

    begins_at: Moment
    due: int
    peak_at: Moment | None
    """The moment in it from which the last job is latest; None if nothing is due."""
    late_seconds: float
    """How late the last job that is due then will be."""
    backlog: int
    """Jobs that are due and still waiting when the step ends."""


class Coming(NamedTuple):
    """Occurrences of schedules that are not jobs yet."""

    occurrences: list[tuple[Moment, str]]
    """When, and in which queue; what is overdue is in the past."""
    cut_at: Moment | None
    """From here on they were too many to count; None: all were counted."""


def coming(schedules: Iterable[Schedule], now: Moment, until: Moment, most: int) -> Coming:
    """The first occurrences of these schedules before a moment, at most so many."""
    found: list[tuple[Moment, str]] = []
    for at, queue in heapq.merge(*(_moments(one, now) for one in schedules)):
        if at >= until:
            break
        if len(found) == most:
            return Coming(found, at)
        found.append((at, queue))
    return Coming(found, None)


def _moments(schedule: Schedule, now: Moment) -> Iterator[tuple[Moment, str]]:
    with suppress(InvalidInput):  # its time zone has gone: nothing comes of it
        for at in awaited(schedule, now):
            yield at, schedule.queue


def forecast(
    dues: Mapping[Moment, int], begins: list[Moment], until: Moment, rate: float
) -> list[Step]:
    """The steps beginning at `begins` (ascending, the first no later than any due time) and ending
    with the next one or at `until`. `dues` tells how many jobs are due at each moment; `rate` is
    in jobs per second."""
    arrivals = iter(sorted(dues.items()))
    arrival = next(arrivals, None)
    free = float(begins[0])  # when everything due so far has been handed over
    steps = []
    for begins_at, ends_at in zip(begins, [*begins[1:], until], strict=True):
        due, latest, peak_at = 0, 0.0, None
        while arrival is not None and arrival[0] < ends_at:
            at, count = arrival
            free = max(free, at) + count / rate * 1000
            due += count
            if free - at > latest:
                latest, peak_at = free - at, at
            arrival = next(arrivals, None)
        backlog = round(max(0.0, free - ends_at) / 1000 * rate)
        steps.append(Step(begins_at, due, peak_at, latest / 1000, backlog))
    return steps
