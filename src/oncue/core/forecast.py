"""How late scheduled work will be: what is due when, against the rate at which it is handed over.

First due, first served, at a steady rate. Pure arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oncue.core.moment import Moment


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
