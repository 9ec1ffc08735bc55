"""Schedules in memory."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice

from oncue.core.lifecycle import FINAL
from oncue.core.moment import Moment
from oncue.core.record import Record
from oncue.core.recurrence import OUTCOMES_KEPT, Outcome, is_as_made
from oncue.core.schedule import Schedule
from oncue.ports.schedules import Advance
from oncue.stores.memory.state import MemoryState


class MemorySchedules(MemoryState):
    """Implements `oncue.ports.schedules.ScheduleStore`."""

    def __init__(self) -> None:
        super().__init__()
        self._schedules: dict[str, Schedule] = {}
        self._outcomes: defaultdict[str, deque[Outcome]] = defaultdict(
            lambda: deque(maxlen=OUTCOMES_KEPT)
        )
        self._revisions = 0

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        with self._writing():
            applied = [self._advance(one, now) for one in advances]
            return [position for position, done in enumerate(applied) if not done]

    def _advance(self, one: Advance, now: Moment) -> bool:
        if not self._is_as(one.name, one.seen) or not self._withdraw(one.name, one.withdrawn):
            return False
        if not one.is_progress:
            self._revisions += 1
            self._announce(None, 0)
        if one.then is None:
            del self._schedules[one.name]
            self._outcomes.pop(one.name, None)
            return True
        revision = one.seen.revision if one.seen and one.is_progress else self._revisions
        progress = one.progress or one.then.progress
        self._schedules[one.name] = replace(one.then, revision=revision, progress=progress)
        self._outcomes[one.name].extend(one.outcomes)
        for job in one.jobs:
            if job.id not in self._records:
                record = Record.of(job, now)
                record.schedule = one.name
                self._add(record)
        return True

    def schedule(self, name: str) -> Schedule | None:
        with self._lock:
            found = self._schedules.get(name)
            return None if found is None else self._shown(found)

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        with self._lock:
            names = nsmallest(limit, (name for name in self._schedules if name > (after or "")))
            return [self._shown(self._schedules[name]) for name in names]

    def outcomes(self, name: str) -> Sequence[Outcome]:
        with self._lock:
            return tuple(self._outcomes.get(name, ()))

    def waking(self, until: Moment, limit: int) -> Sequence[Schedule]:
        with self._lock:
            waking = sorted(
                (schedule.progress.wake_at, name)
                for name, schedule in self._schedules.items()
                if schedule.progress.wake_at is not None
                and schedule.progress.wake_at <= until
                and not schedule.paused
            )
            return [self._shown(self._schedules[name]) for _, name in waking[:limit]]

    def timed_otherwise(
        self, digest_of: Callable[[str], str | None], limit: int
    ) -> Sequence[Schedule]:
        with self._lock:
            timed = [one for one in self._schedules.values() if one.cron is not None]
            digests = {zone: digest_of(zone) for zone in {one.timezone for one in timed}}
            stale = (one for one in timed if digests[one.timezone] not in (None, one.zone_digest))
            return [self._shown(one) for one in islice(stale, limit)]

    def _is_as(self, name: str, seen: Schedule | None) -> bool:
        """Whether the schedule is still as it was seen."""
        known = self._schedules.get(name)
        if known is None or seen is None:
            return known is seen
        was, is_now = seen.progress, known.progress
        alike = (was.next_at, was.wake_at) == (is_now.next_at, is_now.wake_at)
        return known.revision == seen.revision and alike

    def _shown(self, schedule: Schedule) -> Schedule:
        """With `unfinished`, which follows from the last job."""
        last = self._records.get(schedule.progress.last_job_id or "")
        return replace(schedule, unfinished=last is not None and last.state not in FINAL)

    def _withdraw(self, name: str, withdrawn: Sequence[Outcome]) -> bool:
        found = [(one, self._records.get(one.job_id or "")) for one in withdrawn]
        if not all(record and is_as_made(record.as_job(), one) for one, record in found):
            return False
        for _, record in found:
            assert record is not None
            self._unfile(record)
            del self._records[record.id]
        gone = {one.job_id: one for one in withdrawn}
        kept = [gone.get(one.job_id, one) for one in self._outcomes[name]]
        self._outcomes[name] = deque(kept, OUTCOMES_KEPT)
        return True
