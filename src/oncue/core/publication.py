"""What publishing an event led to: decisions of the rules that it matches, and jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.core.event import Event
from oncue.core.firing import Decision
from oncue.core.rule import Dependency
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


class EventFilter(NamedTuple):
    """Which events a listing shows; None means any."""

    rule: str | None = None
    decision: Decision | None = None


class EventPage(NamedTuple):
    items: list[LoggedEvent]
    next: int | None
    """Where the listing goes on; None: that was all."""
