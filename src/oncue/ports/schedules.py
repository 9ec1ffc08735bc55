"""The store, as far as schedules go.

Each change names the schedule as it was seen, and is applied only if it is still so: same revision,
same next occurrence. So any number of nodes may decide on the same schedule, and one of them makes
its jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.recurrence import Outcome
from oncue.core.schedule import Progress, Schedule


class Advance(NamedTuple):
    """A schedule goes on: its jobs, what is recorded and its progress, all or nothing."""

    seen: Schedule
    progress: Progress
    jobs: Sequence[NewJob] = ()
    outcomes: Sequence[Outcome] = ()


class ScheduleStore(Protocol):
    def put_schedule(
        self,
        seen: Schedule | None,
        schedule: Schedule,
        now: Moment,
        *,
        withdrawn: Sequence[Outcome] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> Schedule | None:
        """Create a schedule (`seen` None: there is none of that name), or replace all of the one
        that was seen. Removes the jobs of `withdrawn`, whose records become what they say, and
        records `outcomes`. The schedule with its new revision, or None, and then nothing has
        changed: another was there, or one of those jobs is no longer as it was made."""
        ...

    def delete_schedule(
        self, seen: Schedule, now: Moment, *, withdrawn: Sequence[Outcome] = ()
    ) -> bool:
        """Forget the schedule and what is recorded of it; of its jobs only those of `withdrawn` go.
        False as `put_schedule` answers None."""
        ...

    def schedule(self, name: str) -> Schedule | None: ...

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        """A page of all schedules by name, those behind `after`."""
        ...

    def outcomes(self, name: str) -> Sequence[Outcome]:
        """What became of the last hundred or so occurrences, oldest first."""
        ...

    def due_schedules(self, now: Moment, limit: int) -> Sequence[Schedule]:
        """Schedules that are not paused and whose `wake_at` has come, the oldest first."""
        ...

    def next_wake(self) -> Moment | None:
        """The earliest `wake_at` of all that are not paused."""
        ...

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        """Apply each on its own; the positions of those that were refused because the schedule has
        changed. A job whose id is there already is left as it is."""
        ...

    def zone_digests(self) -> Collection[tuple[str, str]]:
        """Every (time zone, digest of its rules) that a schedule with `cron` was timed by."""
        ...

    def schedules_by_zone(self, timezone: str, digest: str, limit: int) -> Sequence[Schedule]:
        """Up to so many schedules that were timed by these rules."""
        ...
