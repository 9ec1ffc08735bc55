"""What publishing an event led to: decisions of the rules that it matches, and jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from oncue.core import moment as moments
from oncue.core import stamp as stamps
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

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "rule": self.rule,
            "dependency": self.dependency.as_dict(),
            "decision": str(self.decision),
            "jobId": self.job_id,
        }
        return told if self.suppressed is None else {**told, "suppressed": self.suppressed}


@dataclass(frozen=True, slots=True)
class Fired:
    """A job that was created because of an event."""

    rule: str
    job_id: str
    instant: Stamp

    def as_dict(self) -> dict[str, str]:
        return {
            "rule": self.rule,
            "jobId": self.job_id,
            "instant": stamps.render(self.instant),
        }


@dataclass(frozen=True, slots=True)
class Published:
    """The answer to one event."""

    event: Event
    duplicate: bool
    """The event was known, and no rule had anything new to decide."""
    decisions: tuple[Decided, ...] = ()
    jobs: tuple[Fired, ...] = ()
    """Those created now."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "eventId": self.event.id,
            "duplicate": self.duplicate,
            "decisions": [one.as_dict() for one in self.decisions],
            "jobs": [one.as_dict() for one in self.jobs],
        }


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as the store has it, with what was decided on it."""

    event: Event
    received_at: datetime
    decisions: tuple[Decided, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.event.as_dict(),
            "receivedAt": _text(self.received_at),
            "decisions": [_logged(one) for one in self.decisions],
        }


class EventFilter(NamedTuple):
    """Which events a listing shows; None means any."""

    rule: str | None = None
    decision: Decision | None = None


class EventPage(NamedTuple):
    items: list[LoggedEvent]
    next: int | None
    """Where the listing goes on; None: that was all."""


def _logged(decided: Decided) -> dict[str, Any]:
    at = decided.decided_at
    told = {"decidedAt": None if at is None else _text(at), "times": decided.times}
    return decided.as_dict() | told


def _text(when: datetime) -> str:
    return moments.render(moments.from_datetime(when))
