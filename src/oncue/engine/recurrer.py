"""The recurrer: schedules → their next jobs, a little ahead of time.

It needs no leader: the store applies what was decided only to a schedule that is still as it was
seen, together with its jobs. It remembers only the schedules that passing trouble kept it from
deciding on. They are judged later by the moment of the first try, so that an occurrence which was
found in time is not recorded as missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from oncue.core import recurrence
from oncue.core.errors import Conflict, InvalidInput, StoreUnavailable
from oncue.core.moment import LATEST, Moment, to_datetime
from oncue.core.recurrence import Outcome
from oncue.core.schedule import Progress, Schedule, occurrence_job
from oncue.core.zone import zone
from oncue.engine.node import Node
from oncue.ports.schedules import Advance

PAGE = 500
LONGEST_REST_SECONDS = 30.0
TRIES = 50

logger = logging.getLogger("oncue.engine")

Publish = Callable[[Schedule, Sequence[Moment]], None]
"""Publishes the events of these occurrences of a schedule that `emits`. It may be called again for
the same ones, and must take them for the same."""


class _Trouble(NamedTuple):
    """A schedule that could not be decided on."""

    next_at: Moment | None
    since: Moment
    """When it was first tried."""
    tries: int
    passing: bool
    """False: it lasts until the schedule, the process or the machine is changed."""
    text: str


class Recurrer:
    def __init__(self, node: Node, publish: Publish | None = None, early_ms: int = 0) -> None:
        """`early_ms`: how much earlier jobs are made than usual, if steps are far apart."""
        self.publish = publish
        self._early_ms = early_ms
        self._store, self._clock = node.store, node.clock
        self._telemetry = node.telemetry
        self._fits = node.store.traits.advance_fits
        self._zones_compared = False
        self._troubles: dict[str, _Trouble] = {}

    def step(self) -> float:
        """Make the jobs of one page of schedules; go again until nothing is to be made."""
        now = self._clock.now()
        if not self._zones_compared:
            self.compare_zones()
            self._zones_compared = True
        upcoming = self._store.waking(LATEST, 1)
        wake_at = upcoming[0].progress.wake_at if upcoming else None
        if wake_at is None:
            return LONGEST_REST_SECONDS
        if wake_at > now + self._early_ms:
            return min((wake_at - now) / 1000, LONGEST_REST_SECONDS)
        due = self._store.waking(now + self._early_ms, PAGE)
        if self._early_ms:
            due = [one for one in due if _may_be_early(one) or is_awake(one, now)]
        self.make(due, now)
        return 0.0 if due else LONGEST_REST_SECONDS

    def make(self, due: Sequence[Schedule], now: Moment) -> None:
        """Decide on these schedules, except those on which others have decided meanwhile."""
        tried = [self._first_tried(schedule, now) for schedule in due]
        advances = self.decide(due, now)
        try:
            refused = set(self._store.advance(advances, now))
        except StoreUnavailable as problem:
            for schedule, at in zip(due, tried, strict=True):
                self._note(schedule, problem, at)
            raise
        applied = [one for position, one in enumerate(advances) if position not in refused]
        self._telemetry.count("jobs_created", sum(len(one.jobs) for one in applied))
        if refused:
            logger.debug("%d schedules were advanced by others", len(refused))

    def decide(self, due: Sequence[Schedule], now: Moment) -> list[Advance]:
        """How to advance these schedules; their events are published when this returns. Trouble
        with one schedule puts off that one. A store that does not answer puts off all that publish:
        each further try would wait for it again."""
        advances: list[Advance] = []
        away: StoreUnavailable | None = None
        for schedule in due:
            try:
                if away is not None and schedule.emits is not None:
                    raise away
                advances.append(self._decided(schedule, now))
            except Exception as problem:
                away = problem if isinstance(problem, StoreUnavailable) else away
                advances.append(self._put_off(schedule, problem, now))
        return advances

    def _decided(self, schedule: Schedule, now: Moment) -> Advance:
        ahead_ms = recurrence.AHEAD_MS + self._early_ms
        tried = self._first_tried(schedule, now)
        late_ms = recurrence.LATE_MS + self._early_ms
        decided = recurrence.plan(schedule, tried, self._fits, ahead_ms, late_ms)
        if schedule.emits is not None and decided.made:
            if self.publish is None:
                raise Conflict("it emits events, and this process does not publish them.")
            # Before it goes on, not after: an event that is published again is the same event.
            self.publish(schedule, decided.made)
        self._troubles.pop(schedule.name, None)
        return _advance(schedule, decided, now)

    def _put_off(self, schedule: Schedule, problem: Exception, now: Moment) -> Advance:
        trouble = self._note(schedule, problem, self._first_tried(schedule, now))
        wait_ms = recurrence.put_off_ms(trouble.tries, passing=trouble.passing)
        later = schedule.progress._replace(wake_at=now + wait_ms)
        return Advance(schedule, schedule, progress=later)

    def _first_tried(self, schedule: Schedule, now: Moment) -> Moment:
        """When passing trouble first kept this occurrence from being decided on; else now."""
        known = self._troubles.get(schedule.name)
        if known is None or not known.passing or known.next_at != schedule.progress.next_at:
            return now
        return known.since

    def _note(self, schedule: Schedule, problem: Exception, since: Moment) -> _Trouble:
        """Logs it once, as long as it is the same trouble. Only the kind of an error from elsewhere
        is logged: its text may quote secrets."""
        lasting = isinstance(problem, InvalidInput | Conflict)
        text = str(problem) if lasting else type(problem).__name__
        known, next_at = self._troubles.get(schedule.name), schedule.progress.next_at
        if known is None or known.text != text:
            logger.error("schedule %s waits: %s", schedule.name, text)
        tries = known.tries + 1 if known is not None and known.next_at == next_at else 1
        trouble = _Trouble(next_at, since, tries, not lasting, text)
        self._troubles[schedule.name] = trouble
        return trouble

    def change(self, name: str, choose: Callable[[Schedule | None], Schedule]) -> Schedule:
        """Give the schedule of that name the settings that `choose` makes of its present ones.
        What is due is made first, by the old ones. The same settings change nothing."""
        for _ in range(TRIES):
            now = self._clock.now()
            seen = self._store.schedule(name)
            wanted = choose(seen)
            if seen is not None and seen.is_set_as(wanted):
                return seen
            if self._revise(seen, wanted, now):
                return self._store.schedule(name) or wanted
        raise _contended(name)

    def delete(self, name: str) -> bool:
        """Forget the schedule, with its jobs that are not due. False if there is none."""
        for _ in range(TRIES):
            now = self._clock.now()
            seen = self._store.schedule(name)
            if seen is None:
                return False
            gone = self._revision(seen, seen, now).withdrawn
            if self._is_too_much(seen, gone, now):
                continue
            if self._applied(Advance(seen, None, withdrawn=gone), now):
                return True
        raise _contended(name)

    def compare_zones(self) -> int:
        """Find schedules that were timed by other rules of their time zone than are in force now,
        because the database was updated, and time them anew. How many there were. One that cannot
        be timed stays as it is, and waits; the others do not."""
        retimed, digest_in_force = 0, cache(_zone_digest)
        untimed: set[str] = set()
        left_alone: set[str] = set()

        def digest_of(timezone: str) -> str | None:
            return None if timezone in left_alone else digest_in_force(timezone)

        while page := self._store.timed_otherwise(digest_of, PAGE + len(untimed)):
            now = self._clock.now()
            rest = [one for one in page if one.name not in untimed]
            if not rest:
                left_alone.update(one.timezone for one in page)
            for one in rest:
                digest = digest_of(one.timezone) or one.zone_digest
                try:
                    retimed += self._revise(one, replace(one, zone_digest=digest), now)
                except (InvalidInput, Conflict) as problem:
                    self._note(one, problem, now)
                    untimed.add(one.name)
        if retimed:
            logger.warning("%d schedules: the rules of their time zones have changed", retimed)
        return retimed

    def _revise(self, seen: Schedule | None, wanted: Schedule, now: Moment) -> bool:
        """False: the schedule was changed elsewhere meanwhile, or only a part was done."""
        if seen is None:
            return self._applied(Advance(None, recurrence.begun(wanted, now)), now)
        seen = self._caught_up(seen, now)  # what is due is made by the old settings
        if seen is None:
            return False
        revision = self._revision(seen, wanted, now)
        if self._is_too_much(seen, revision.withdrawn, now):
            return False
        change = Advance(
            seen, revision.schedule, outcomes=revision.left_out, withdrawn=revision.withdrawn
        )
        return self._applied(change, now)

    def _applied(self, change: Advance, now: Moment) -> bool:
        return not self._store.advance([change], now)

    def _caught_up(self, seen: Schedule, now: Moment) -> Schedule | None:
        """The schedule when all that is due is made, except for what waits behind the job before.
        None if it was changed elsewhere meanwhile."""
        while not seen.paused and (next_at := seen.progress.next_at) and next_at <= now:
            self.make([seen], now)
            again = self._store.schedule(seen.name)
            if again is None or again.revision != seen.revision:
                return None
            if again.progress.next_at == next_at:
                return again
            seen = again
        return seen

    def _is_too_much(self, seen: Schedule, gone: Sequence[Outcome], now: Moment) -> bool:
        """Whether these, which were made ahead of time, are more than one change can withdraw. Then
        the last of them are withdrawn here, and the caller looks again. Should it not come to that,
        they are made again."""
        if len(gone) <= self._fits:
            return False
        last = sorted(gone, key=attrgetter("at"))[-self._fits :]
        before = recurrence.unmade(seen, last, self._store.outcomes(seen.name))
        self._applied(Advance(seen, seen, withdrawn=last, progress=before), now)
        return True

    def _revision(self, seen: Schedule, wanted: Schedule, now: Moment) -> recurrence.Revision:
        outcomes = self._store.outcomes(seen.name)
        taken = {  # jobs made ahead of time that are no longer as they were made
            one.job_id
            for one in recurrence.made_ahead(outcomes, now)
            if not recurrence.is_as_made(self._store.get(one.job_id or ""), one)
        }
        return recurrence.revised(seen, wanted, outcomes, now, taken)


def is_awake(schedule: Schedule, now: Moment) -> bool:
    wake_at = schedule.progress.wake_at
    return wake_at is not None and wake_at <= now


def _may_be_early(schedule: Schedule) -> bool:
    """Whether its jobs may be made before it wakes: not if it was put off."""
    usual = recurrence.wake_for(schedule, schedule.progress.next_at)
    return schedule.is_ahead_of_time and schedule.progress.wake_at == usual


def _advance(schedule: Schedule, decided: recurrence.Plan, now: Moment) -> Advance:
    emits, when = schedule.emits is not None, to_datetime(now)
    jobs = [] if emits else [occurrence_job(schedule, at, now) for at in decided.made]
    job_ids = [None for _ in decided.made] if emits else [job.id for job in jobs]
    fate = recurrence.Fate.EMITTED if emits else recurrence.Fate.CREATED
    made = [
        Outcome(fate, at, at, when, job_id=job_id)
        for at, job_id in zip(map(to_datetime, decided.made), job_ids, strict=True)
    ]
    last = (schedule.progress.last_at, schedule.progress.last_job_id)
    if decided.made:
        last = (decided.made[-1], job_ids[-1])
    progress = Progress(decided.next_at, decided.wake_at, *last)
    return Advance(schedule, schedule, jobs, [*decided.left_out, *made], progress=progress)


def _zone_digest(timezone: str) -> str | None:
    """The digest of the rules that are in force now; None: the zone has gone from the database."""
    try:
        return zone(timezone).digest
    except InvalidInput as gone:
        logger.error("schedules in %s wait: %s", timezone, gone)
        return None


def _contended(name: str) -> Conflict:
    return Conflict(f"schedule {name!r} is being changed by others all the time. Call again.")
