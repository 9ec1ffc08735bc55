"""Results of publishing events: decisions of the rules that they match, and jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from oncue.core.cursor import Page
from oncue.core.event import Bounds, Event
from oncue.core.firing import DISABLED, Decision, FiredJob, decide, fire, fired_job
from oncue.core.moment import Moment, to_datetime
from oncue.core.pair import Markers, Newest
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision of one rule on an event, for one of the dependencies that it matches."""

    rule: str
    dependency: Dependency
    """As it was then."""
    decision: Decision
    decided_at: datetime | None = None
    """None: not known. A server lists it with the event, but not in the answer to a publisher."""
    job_id: str | None = None
    """The job that the event fired, then or at the first time."""
    suppressed: str | None = None
    """Why it fired none although it met the rule: `disabled`."""
    times: int = 1
    """How often it was so decided: duplicates are counted."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A job that was created because of an event."""

    rule: str
    job_id: str
    instant: Stamp


@dataclass(frozen=True, slots=True)
class Published:
    """The answer to one event."""

    event: Event
    duplicate: bool
    """The event was known, and no rule had anything new to decide."""
    decisions: tuple[Decided, ...] = ()
    jobs: tuple[Fired, ...] = ()
    """Those created now."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as the store has it, with what was decided on it."""

    event: Event
    received_at: datetime
    decisions: tuple[Decided, ...] = ()


class Conclusion(NamedTuple):
    """The decision of one rule on an event, for the store to apply. ACCEPTED: the event is accepted
    for each dependency that it validates. STALE: each of them has seen a stale event."""

    decision: Decision
    decisions: list[Decided]
    """One for each dependency that the event validates."""
    job: FiredJob | None
    """The job to store; its instant becomes the rule's last one."""

    @property
    def fired(self) -> list[Fired]:
        """The job as the publisher is told of it, if there is one."""
        return [] if self.job is None else [Fired(self.job.rule, self.job.job.id, self.job.instant)]


def conclude(
    rule: Rule,
    event: Event,
    validated: Sequence[int],
    newest_of_all: Stamp | None,
    bounds: Bounds,
    now: Moment,
    newest: Newest,
    first_at: Callable[[int, Stamp], Event | None],
    markers: Markers | None = None,
) -> Conclusion:
    """The conclusion of the rule about an event on which it has not decided. `validated` are the
    positions of the dependencies that the event validates, `newest_of_all` is the newest stamp that
    the rule has accepted. `newest`, `first_at` and the markers need not know of the event;
    `first_at` finds the first event that was accepted for the dependency at a position with a
    stamp. For the markers, the event counts as one."""
    with_it = partial(_with_it, event.stamp, validated)
    firing = job = None
    late = bounds.late_seconds
    decision = decide(event.stamp, rule.last_instant, newest_of_all, rule.lives, late)
    if decision is Decision.ACCEPTED:
        if markers is not None:
            markers = markers._replace(newest=with_it(markers.newest))
        firing = fire(rule.lives, validated, event.stamp, with_it(newest), markers)
    if firing is not None and rule.enabled:
        included = [first_at(place, at) or event for place, at in enumerate(firing.validated_by)]
        job = fired_job(rule, firing, event, included, now)
    job_id = None if job is None else job.job.id
    suppressed = DISABLED if firing is not None and job is None else None
    at = to_datetime(now)
    decisions = [
        Decided(rule.name, rule.dependencies[place], decision, at, job_id, suppressed)
        for place in validated
    ]
    return Conclusion(decision, decisions, job)


def _with_it(stamp: Stamp, validated: Sequence[int], newest: Newest) -> Newest:
    """`newest` as it will be when the dependencies at these positions have accepted an event with
    this stamp."""

    def newest_with_it(place: int, t: Stamp) -> Stamp | None:
        known = newest(place, t)
        if place not in validated or stamp > t:
            return known
        return stamp if known is None else max(known, stamp)

    return newest_with_it


class EventFilter(NamedTuple):
    """Which events a listing shows; None means any."""

    rule: str | None = None
    decision: Decision | None = None


EventPage = Page[LoggedEvent]
