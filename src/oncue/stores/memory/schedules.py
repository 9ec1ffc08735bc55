"""Schedules in memory."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from heapq import nsmallest

from oncue.core.lifecycle import FINAL, State
from oncue.core.moment import Moment, from_datetime
from oncue.core.recurrence import OUTCOMES_KEPT, Outcome
from oncue.core.schedule import Schedule
from oncue.ports.schedules import Advance
from oncue.stores.memory.record import Record
from oncue.stores.memory.shelves import Shelves


class MemorySchedules(Shelves):
    """Implements `oncue.ports.schedules.ScheduleStore`."""

    def __init__(self) -> None:
        super().__init__()
        self._schedules: dict[str, Schedule] = {}
        self._outcomes: defaultdict[str, deque[Outcome]] = defaultdict(
            lambda: deque(maxlen=OUTCOMES_KEPT)
        )
        self._revisions = 0

    def put_schedule(
        self,
        seen: Schedule | None,
        schedule: Schedule,
        now: Moment,
        *,
        withdrawn: Sequence[Outcome] = (),
        outcomes: Sequence[Outcome] = (),
    ) -> Schedule | None:
        with self._writing():
            if not self._is(schedule.name, seen) or not self._withdraw(schedule.name, withdrawn):
                return None
            self._revisions += 1
            self._schedules[schedule.name] = replace(schedule, revision=self._revisions)
            self._outcomes[schedule.name].extend(outcomes)
            self._announce(None, 0)
            return self._told(self._schedules[schedule.name])

    def delete_schedule(
        self, seen: Schedule, now: Moment, *, withdrawn: Sequence[Outcome] = ()
    ) -> bool:
        with self._writing():
            if not self._is(seen.name, seen) or not self._withdraw(seen.name, withdrawn):
                return False
            del self._schedules[seen.name]
            self._outcomes.pop(seen.name, None)
            self._announce(None, 0)
            return True

    def schedule(self, name: str) -> Schedule | None:
        with self._lock:
            found = self._schedules.get(name)
            return None if found is None else self._told(found)

    def schedules(self, after: str | None, limit: int) -> Sequence[Schedule]:
        with self._lock:
            names = nsmallest(limit, (name for name in self._schedules if name > (after or "")))
            return [self._told(self._schedules[name]) for name in names]

    def outcomes(self, name: str) -> Sequence[Outcome]:
        with self._lock:
            return tuple(self._outcomes.get(name, ()))

    def due_schedules(self, now: Moment, limit: int) -> Sequence[Schedule]:
        with self._lock:
            waking = sorted(
                (schedule.progress.wake_at, name)
                for name, schedule in self._schedules.items()
                if schedule.progress.wake_at is not None
                and schedule.progress.wake_at <= now
                and not schedule.paused
            )
            return [self._told(self._schedules[name]) for _, name in waking[:limit]]

    def next_wake(self) -> Moment | None:
        with self._lock:
            waking = (one.progress.wake_at for one in self._schedules.values() if not one.paused)
            return min((at for at in waking if at is not None), default=None)

    def advance(self, advances: Sequence[Advance], now: Moment) -> Collection[int]:
        with self._writing():
            applied = [self._advance(one, now) for one in advances]
            return [position for position, done in enumerate(applied) if not done]

    def _advance(self, one: Advance, now: Moment) -> bool:
        name = one.seen.name
        if not self._is(name, one.seen):
            return False
        self._schedules[name] = replace(self._schedules[name], progress=one.progress)
        self._outcomes[name].extend(one.outcomes)
        for job in one.jobs:
            if job.id not in self._records:
                record = self._records[job.id] = Record.of(job, now)
                record.schedule = name
                self._refile(record)
        return True

    def zone_digests(self) -> Collection[tuple[str, str]]:
        with self._lock:
            return {
                (one.timezone, one.zone_digest)
                for one in self._schedules.values()
                if one.cron is not None
            }

    def schedules_by_zone(self, timezone: str, digest: str, limit: int) -> Sequence[Schedule]:
        def fits(one: Schedule) -> bool:
            return (one.timezone, one.zone_digest) == (timezone, digest) and one.cron is not None

        return self._some(fits, limit)

    def _some(self, fits: Callable[[Schedule], bool], limit: int) -> Sequence[Schedule]:
        with self._lock:
            found = sorted(name for name, one in self._schedules.items() if fits(one))
            return [self._told(self._schedules[name]) for name in found[:limit]]

    def _is(self, name: str, seen: Schedule | None) -> bool:
        known = self._schedules.get(name)
        if known is None or seen is None:
            return known is seen
        was, is_now = seen.progress, known.progress
        alike = (was.next_at, was.wake_at) == (is_now.next_at, is_now.wake_at)
        return known.revision == seen.revision and alike

    def _told(self, schedule: Schedule) -> Schedule:
        last = self._records.get(schedule.progress.last_job_id or "")
        return replace(schedule, unfinished=last is not None and last.state not in FINAL)

    def _withdraw(self, name: str, withdrawn: Sequence[Outcome]) -> bool:
        found = [(one, self._records.get(one.job_id or "")) for one in withdrawn]
        if not all(record is not None and _as_made(record, one) for one, record in found):
            return False
        for one, record in found:
            assert record is not None
            self._unfile(record)
            del self._records[record.id]
            kept = self._outcomes[name]
            self._outcomes[name] = deque(
                (one if known.job_id == one.job_id else known for known in kept), OUTCOMES_KEPT
            )
        return True


def _as_made(record: Record, outcome: Outcome) -> bool:
    """Whether nobody has touched the job since it was made."""
    untouched = record.shown_state is State.SCHEDULED and record.attempt == 0
    return untouched and record.due_at == from_datetime(outcome.at)
