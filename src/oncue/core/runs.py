"""The coming runs of a schedule, for people: in UTC and as the clock on the wall will show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from oncue.core.cron import Mark
from oncue.core.moment import Moment, to_datetime
from oncue.core.schedule import Schedule, timing


class Run(NamedTuple):
    """An occurrence to come."""

    at: datetime
    local: datetime
    """The same in the schedule's time zone."""
    mark: Mark
    note: str
    """What a gap or an overlap does to it."""


class Difference(NamedTuple):
    """What a change of a schedule does to its coming runs, as far as both were looked at."""

    removed: Sequence[Run]
    added: Sequence[Run]
    kept: Sequence[Run]


def coming(schedule: Schedule, after: Moment, count: int) -> list[Run]:
    """The next runs after a moment, paused or not; fewer if there are no more."""
    when, zone = timing(schedule), ZoneInfo(schedule.timezone)
    found: list[Run] = []
    occurrence = when.after(after)
    while occurrence is not None and len(found) < count:
        at = to_datetime(occurrence.at)
        found.append(Run(at, at.astimezone(zone), occurrence.mark, occurrence.note))
        occurrence = when.after(occurrence.at)
    return found


def difference(before: Sequence[Run], then: Sequence[Run]) -> Difference:
    """Two lists of the same length reach differently far: what lies beyond the shorter is not known
    to be different."""
    ends = [runs[-1].at for runs in (before, then) if runs]
    reach = min(ends) if len(ends) == 2 else max(ends, default=None)
    old = [run for run in before if reach is not None and run.at <= reach]
    new = [run for run in then if reach is not None and run.at <= reach]
    known, planned = {run.at for run in old}, {run.at for run in new}
    return Difference(
        [run for run in old if run.at not in planned],
        [run for run in new if run.at not in known],
        [run for run in new if run.at in known],
    )
