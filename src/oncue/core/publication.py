"""What publishing an event led to: decisions of the rules that it matches, and jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.core.event import Event
from oncue.core.firing import DISABLED, Decision, FiredJob, Newest, fire, fired_job
from oncue.core.moment import Moment, to_datetime
from oncue.core.rule import Dependency, Rule
from oncue.core.stamp import Stamp


@dataclass(frozen=True, slots=True)
class Decided:
    """What one rule decided on an event, for one of the dependencies that it matches."""

    rule: str
    dependency: Dependency
    """As it was then."""
    decision: Decision
    decided_at: datetime | None = None
    """None: not told. A server tells it to those who look, not to those who publish."""
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
    """What follows for one rule from a decision on an event."""

    decisions: list[Decided]
    """One for each dependency that the event validates."""
    job: FiredJob | None
    """The job to store; its instant becomes the rule's last one."""


def conclude(
    rule: Rule,
    event: Event,
    decision: Decision,
    validated: Sequence[int],
    now: Moment,
    newest: Newest,
    first_at: Callable[[int, Stamp], Event],
) -> Conclusion:
    """`validated` are the positions of the dependencies that the event validates. If it was
    accepted, `newest` and `first_at` know of it already; `first_at` finds the first event that was
    accepted for the dependency at a position with a stamp."""
    firing = job = None
    if decision is Decision.ACCEPTED:
        firing = fire(rule.lives, validated, event.stamp, newest)
    if firing is not None and rule.enabled:
        included = [first_at(place, stamp) for place, stamp in enumerate(firing.validated_by)]
        job = fired_job(rule, firing, event, included, now)
    job_id = None if job is None else job.job.id
    suppressed = DISABLED if firing is not None and job is None else None
    at = to_datetime(now)
    decisions = [
        Decided(rule.name, rule.dependencies[place], decision, at, job_id, suppressed)
        for place in validated
    ]
    return Conclusion(decisions, job)


class EventFilter(NamedTuple):
    """Which events a listing shows; None means any."""

    rule: str | None = None
    decision: Decision | None = None


class EventPage(NamedTuple):
    items: list[LoggedEvent]
    next: int | None
    """Where the listing goes on; None: that was all."""
