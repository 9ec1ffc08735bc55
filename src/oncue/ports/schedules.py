"""The store, as far as schedules go.

Each change names the schedule as it was seen, and is applied only if it is still so: same revision,
same next occurrence. So any number of nodes may decide on the same schedule, and one of them makes
its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from oncue.core.job import NewJob
from oncue.core.moment import Moment
from oncue.core.recurrence import Outcome
from oncue.core.schedule import Progress, Schedule


class Advance(NamedTuple):
    """One change of one schedule: all of it is applied, or nothing. It makes no more jobs than
    `traits.advance_fits`, and withdraws no more."""

    seen: Schedule | None
    """As it was read; None: there is none of that name."""
    then: Schedule | None
    """As it is to be; None: it is deleted, with what is recorded of it. The jobs it made stay."""
    jobs: Sequence[NewJob] = ()
    """Jobs of its occurrences. One whose id is there already is left as it is."""
    outcomes: Sequence[Outcome] = ()
    """What is recorded of its occurrences, besides what was."""
    withdrawn: Sequence[Outcome] = ()
    """Their jobs are removed, and their records become these. If one of the jobs is no longer as it
    was made, the change is refused."""
    progress: Progress | None = None
    """How far it has come then; None: as `then` says. Given so that a schedule which only goes on
    need not be copied."""

    @property
    def name(self) -> str:
        schedule = self.then or self.seen
        assert schedule is not None, "a change of no schedule"
        return schedule.name

    @property
    def is_progress(self) -> bool:
        """Whether the settings stay, and with them the revision."""
        seen, then = self.seen, self.then
        return seen is not None and then is not None and (seen is then or seen.is_set_as(then))


class ScheduleStore(Protocol):
    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        """Create, change, delete schedules or let them go on, each on its own; the positions of
        those that were refused. A schedule whose settings or time zone rules change gets a new
        revision, and listeners are told."""

    def schedule(self, name: str) -> Schedule | None: ...

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        """A page of all schedules by name, those behind `after`."""

    def outcomes(self, name: str) -> Sequence[Outcome]:
        """What became of the last hundred or so occurrences, oldest first."""

    def waking(self, until: Moment, limit: int) -> Sequence[Schedule]:
        """Schedules that are not paused and whose `wake_at` is at `until` or before, the earliest
        first."""

    def timed_otherwise(
        self, digest_of: Callable[[str], str | None], limit: int
    ) -> Sequence[Schedule]:
        """Up to so many schedules with `cron` that were timed by other rules of their time zone
        than those whose digest `digest_of` tells; None: leave that zone alone. It is asked once
        for each zone. Empty: there are none."""
