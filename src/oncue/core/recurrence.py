"""What becomes of the occurrences of a schedule: which are made, which are left out, and why.

Pure decisions on a schedule as the store has it, and the moment. The recurrer applies them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from oncue.core.errors import InvalidInput
from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.moment import Moment, from_datetime, to_datetime
from oncue.core.schedule import CatchUp, Overlap, Progress, Schedule, Timing, timing

AHEAD_MS = 30_000  # jobs are made so long before they are due,
REFILL_MS = 15_000  # once what is made lasts no longer than this
LATE_MS = 60_000  # less is not missed: a restart is not an outage
HOLD_MS = (1_000, 30_000)  # the shortest and the longest rest while the job before goes on
PUT_OFF_MS = (1_000, 60_000)  # what cannot be decided on now is tried again: the first, the longest
FITS = 90  # occurrences made at once, if the store says nothing else
COUNTED = 100  # of those left out; beyond it there were "many"
OUTCOMES_KEPT = 100


class Fate(StrEnum):
    CREATED = "created"
    EMITTED = "emitted"
    MISSED = "missed"
    OVERLAPPED = "overlapped"
    PAUSED = "paused"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an occurrence, or of several in a row that were left out together."""

    fate: Fate
    at: datetime
    until: datetime
    """The last of them."""
    decided_at: datetime
    count: int | None = 1
    """None: more than a hundred."""
    job_id: str | None = None


class Plan(NamedTuple):
    """What to do about a schedule now."""

    made: Sequence[Moment]
    """Occurrences that become jobs or events …"""
    left_out: Sequence[Outcome]
    """… and those that do not."""
    next_at: Moment | None
    wake_at: Moment | None


class Revision(NamedTuple):
    """A schedule after its settings were changed, and what the change does to occurrences."""

    schedule: Schedule
    withdrawn: Sequence[Outcome]
    """Made ahead of time and not due yet: their jobs go."""
    left_out: Sequence[Outcome]


def plan(
    schedule: Schedule,
    now: Moment,
    fits: int = FITS,
    ahead_ms: int = AHEAD_MS,
    late_ms: int = LATE_MS,
) -> Plan:
    """What becomes of the occurrences that are due, and of those to be made ahead of time: a page
    of them. `fits` is how many jobs the store makes at once. If more are to be made, it wakes at
    once. `late_ms`: what is no later than this is not missed."""
    when, upcoming = timing(schedule), schedule.progress.next_at
    made: list[Moment] = []
    left_out: list[Outcome] = []
    if upcoming is not None and upcoming <= now:
        if schedule.unfinished and schedule.overlap is Overlap.QUEUE:
            shortest, longest = HOLD_MS
            hold_ms = min(max((now - upcoming) // 10, shortest), longest)
            return Plan((), (), upcoming, now + hold_ms)
        made, left_out, upcoming = _overdue(schedule, when, upcoming, now, fits, late_ms)
    if schedule.is_ahead_of_time:
        ahead, upcoming = _walk(when, upcoming, now + ahead_ms, fits - len(made))
        made += ahead
    return Plan(made, left_out, upcoming, wake_for(schedule, upcoming))


def wake_for(schedule: Schedule, next_at: Moment | None) -> Moment | None:
    """When the recurrer must look at a schedule whose next occurrence this is."""
    if next_at is None or not schedule.is_ahead_of_time:
        return next_at
    return next_at - REFILL_MS


def awaited(schedule: Schedule, now: Moment) -> Iterator[Moment]:
    """The occurrences that are not jobs yet and will become some, in order, for ever. Which of them
    are left out while the job before is unfinished cannot be foreseen."""
    upcoming = schedule.progress.next_at
    if schedule.paused or schedule.emits is not None or upcoming is None:
        return
    when = timing(schedule)
    if upcoming <= now and schedule.catch_up is not CatchUp.ALL:
        last = latest(when, upcoming, now)
        if schedule.catch_up is CatchUp.ONCE or now - last <= LATE_MS:
            yield last
        upcoming = _after(when, last)
    while upcoming is not None:
        yield upcoming
        upcoming = _after(when, upcoming)


def put_off_ms(tries: int, *, passing: bool) -> int:
    """How long a schedule waits that could not be decided on so many times in a row. Passing
    trouble (the store does not answer) is tried again soon, then less and less often; lasting
    trouble (a time zone that has gone, no publisher) only now and then."""
    first, longest = PUT_OFF_MS
    return min(first * 2 ** min(tries - 1, 16), longest) if passing else longest


def begun(wanted: Schedule, now: Moment) -> Schedule:
    """A new schedule: occurrences up to now are neither made nor recorded."""
    at = to_datetime(now)
    schedule = replace(wanted, anchor_at=at, created_at=at, updated_at=at)
    next_at = _after(timing(schedule), now)
    return replace(schedule, progress=Progress(next_at, wake_for(schedule, next_at)))


def revised(
    seen: Schedule,
    wanted: Schedule,
    outcomes: Sequence[Outcome],
    now: Moment,
    taken: Collection[str | None] = (),
) -> Revision:
    """`seen` with the settings of `wanted`. Occurrences that are due stay. Those made ahead of time
    are withdrawn and decided anew, except for those whose jobs were `taken` or changed since, and
    those before them: an occurrence whose job was taken is never decided twice."""
    retimed = seen.rhythm != wanted.rhythm
    schedule = replace(
        wanted,
        anchor_at=anchor(seen, wanted, now),
        created_at=seen.created_at,
        updated_at=to_datetime(now),
    )
    ahead = made_ahead(outcomes, now)
    floor = max([one.at for one in ahead if one.job_id in taken], default=to_datetime(now))
    withdrawn = [one for one in ahead if one.at > floor]
    kept = _without(seen, withdrawn, outcomes)
    upcoming = min([from_datetime(one.at) for one in withdrawn], default=seen.progress.next_at)
    resumed = seen.paused and not wanted.paused
    left_out: list[Outcome] = []
    if upcoming is not None and upcoming <= now and (resumed or retimed):
        fate = Fate.PAUSED if seen.paused else Fate.OVERLAPPED
        left_out.append(_left_out(fate, seen, upcoming, now))
    if retimed or resumed:
        upcoming = _after(timing(schedule), max(now, kept.last_at or 0))
    progress = kept._replace(next_at=upcoming, wake_at=wake_for(schedule, upcoming))
    gone = [replace(one, fate=Fate.WITHDRAWN, decided_at=to_datetime(now)) for one in withdrawn]
    return Revision(replace(schedule, progress=progress), gone, left_out)


def unmade(seen: Schedule, withdrawn: list[Outcome], outcomes: Sequence[Outcome]) -> Progress:
    """How far the schedule had come before these, its last ones, were made. It does not wake before
    the first of them is due: the schedule is about to change, and they would be made in vain."""
    first = min(from_datetime(one.at) for one in withdrawn)
    return _without(seen, withdrawn, outcomes)._replace(next_at=first, wake_at=first)


def _left_out(fate: Fate, seen: Schedule, first: Moment, now: Moment) -> Outcome:
    """The occurrences left out up to now; not counted if the time zone is gone."""
    try:
        return _span(fate, timing(seen), first, now, now)
    except InvalidInput:
        return Outcome(fate, to_datetime(first), to_datetime(now), to_datetime(now))


def anchor(seen: Schedule | None, wanted: Schedule, now: Moment) -> datetime:
    """From when the interval of `wanted` counts: it goes on if it is the same as before."""
    if seen is None or seen.every_seconds != wanted.every_seconds:
        return to_datetime(now)
    return seen.anchor_at


def made_ahead(outcomes: Sequence[Outcome], now: Moment) -> list[Outcome]:
    """Those whose jobs are made and not due yet."""
    return [one for one in outcomes if one.fate is Fate.CREATED and one.at > to_datetime(now)]


def is_as_made(job: Job | None, outcome: Outcome) -> bool:
    """Whether the job of an occurrence has not been taken or changed since it was made."""
    if job is None or job.state is not State.SCHEDULED:
        return False
    return job.attempt == 0 and job.due_at == outcome.at


def latest(when: Timing, first: Moment, until: Moment) -> Moment:
    """The last occurrence up to a moment; `first` is one of them."""
    none, some = 0, until - first + 1  # so long before `until` nothing, or something, happens
    found = first
    while some - none > 1:
        middle = (none + some) // 2
        at = _after(when, until - middle)
        if at is not None and at <= until:
            found, some = at, min(middle, until - at + 1)
        else:
            none = middle
    return found


def _overdue(
    schedule: Schedule, when: Timing, first: Moment, now: Moment, fits: int, late_ms: int
) -> tuple[list[Moment], list[Outcome], Moment | None]:
    last = latest(when, first, now)
    if schedule.unfinished and schedule.overlap is Overlap.SKIP:
        return [], [_span(Fate.OVERLAPPED, when, first, last, now)], _after(when, last)
    if schedule.catch_up is CatchUp.ALL:
        # A single one where the next has to wait for its end.
        made, upcoming = _walk(when, first, now, fits if schedule.overlap is Overlap.ALLOW else 1)
        return made, [], upcoming
    if schedule.catch_up is CatchUp.SKIP and now - last > late_ms:
        return [], [_span(Fate.MISSED, when, first, last, now)], _after(when, last)
    missed = [] if first == last else [_span(Fate.MISSED, when, first, last - 1, now)]
    return [last], missed, _after(when, last)


def _span(fate: Fate, when: Timing, first: Moment, until: Moment, now: Moment) -> Outcome:
    """Those from `first` up to a moment, counted as far as that is quick."""
    found, _ = _walk(when, _after(when, first - 1), until, COUNTED + 1)
    many = len(found) > COUNTED
    last = latest(when, first, until) if many else (found or [first])[-1]
    count = None if many else max(len(found), 1)
    return Outcome(fate, to_datetime(first), to_datetime(last), to_datetime(now), count)


def _without(seen: Schedule, withdrawn: list[Outcome], outcomes: Sequence[Outcome]) -> Progress:
    """The progress as if these, and what came behind them, had not been made."""
    if not withdrawn:
        return seen.progress
    first = min(one.at for one in withdrawn)
    made = [
        (from_datetime(one.at), one.job_id)
        for one in outcomes
        if one.fate is Fate.CREATED and one.at < first
    ]
    last_at, last_job_id = max(made, default=(None, None))
    return seen.progress._replace(last_at=last_at, last_job_id=last_job_id)


def _after(when: Timing, moment: Moment) -> Moment | None:
    found = when.after(moment)
    return None if found is None else found.at


def _walk(
    when: Timing, first: Moment | None, until: Moment, limit: int
) -> tuple[list[Moment], Moment | None]:
    """The occurrences from `first` up to a moment, at most so many, and the one after them."""
    found: list[Moment] = []
    while first is not None and first <= until and len(found) < limit:
        found.append(first)
        first = _after(when, first)
    return found, first
