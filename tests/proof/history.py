"""What was asked of oncue: one of the two sides that the checker compares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from oncue.core.moment import Moment


class Said(StrEnum):
    """One line in the life of a request."""

    INVOKED = "invoked"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    CANCEL_UNKNOWN = "cancel unknown"
    MOVED = "moved"
    MOVE_UNKNOWN = "move unknown"


class Ask(NamedTuple):
    what: Said
    id: str
    at: Moment | None = None
    due_at: Moment | None = None
    expires_at: Moment | None = None


class Asking(Protocol):
    """Whatever takes the asking side's record: a `History`, or an `AskLog` on disk."""

    def record(self, *asks: Ask) -> None: ...

    def invoked(
        self, job_id: str, at: Moment, due_at: Moment, expires_at: Moment | None = None
    ) -> None:
        """A job is about to be asked for. Without an answer after it, its outcome is unknown."""
        self.record(Ask(Said.INVOKED, job_id, at, due_at, expires_at))

    def acknowledged(self, job_id: str) -> None:
        self.record(Ask(Said.ACKNOWLEDGED, job_id))

    def failed(self, job_id: str) -> None:
        """Refused for certain: nothing was stored. A time-out or a lost connection is `unknown`."""
        self.record(Ask(Said.FAILED, job_id))

    def unknown(self, job_id: str) -> None:
        self.record(Ask(Said.UNKNOWN, job_id))

    def cancelled(self, job_id: str, at: Moment | None = None) -> None:
        """The cancel was acknowledged: not one delivery may be found.

        With `at`, those up to that moment are forgiven. Give it only where a fault can hide a
        delivery from the store, so that the job waits again: a sink's answer was lost, or a worker
        fell silent and was reclaimed."""
        self.record(Ask(Said.CANCELLED, job_id, at))

    def cancel_unknown(self, job_id: str) -> None:
        """The cancel got no answer: the job may be delivered, and need not be."""
        self.record(Ask(Said.CANCEL_UNKNOWN, job_id))

    def moved(self, job_id: str, due_at: Moment) -> None:
        """A new due time was acknowledged. Every delivery is judged by the last one."""
        self.record(Ask(Said.MOVED, job_id, None, due_at))

    def move_unknown(self, job_id: str, due_at: Moment) -> None:
        """A new due time got no answer: a delivery is early only if it is before both."""
        self.record(Ask(Said.MOVE_UNKNOWN, job_id, None, due_at))


@dataclass(slots=True)
class Asked:
    """All that is known of one job from the side that asked for it."""

    invoked_at: Moment | None = None
    due_at: Moment | None = None
    expires_at: Moment | None = None
    acknowledged: bool = False
    open: int = 0
    """Invocations that were not refused for certain: any of them may have taken effect."""
    cancelled: bool = False
    cancelled_at: Moment | None = None
    cancel_unknown: bool = False

    @property
    def may_arrive(self) -> bool:
        """Whether anybody asked for it and was not refused for certain."""
        return self.acknowledged or self.open > 0

    def arrives_cancelled(self, at: Moment) -> bool:
        """Whether a delivery at that moment breaks an acknowledged cancel."""
        return self.cancelled and (self.cancelled_at is None or at > self.cancelled_at)


class History(Asking):
    """The asking side, kept in memory. A repeated request for one id is one job."""

    def __init__(self, asks: Iterable[Ask] = ()) -> None:
        self.jobs: dict[str, Asked] = {}
        self.record(*asks)

    def record(self, *asks: Ask) -> None:
        for ask in asks:
            asked = self.jobs.get(ask.id)
            if asked is None:
                asked = self.jobs[ask.id] = Asked()
            _apply(asked, ask)


def _apply(asked: Asked, ask: Ask) -> None:
    match ask.what:
        case Said.INVOKED:
            asked.open += 1
            asked.invoked_at = ask.at if asked.invoked_at is None else asked.invoked_at
            asked.due_at = _earlier(asked.due_at, ask.due_at)
            asked.expires_at = ask.expires_at
        case Said.ACKNOWLEDGED:
            asked.acknowledged = True
        case Said.FAILED:
            asked.open -= 1
        case Said.CANCELLED:
            asked.cancelled = True
            asked.cancelled_at = ask.at
        case Said.CANCEL_UNKNOWN:
            asked.cancel_unknown = True
        case Said.MOVED:
            asked.due_at = ask.due_at
        case Said.MOVE_UNKNOWN:
            asked.due_at = _earlier(asked.due_at, ask.due_at)
        case Said.UNKNOWN:
            pass  # invoked, and never closed: that is what unknown means


def _earlier(one: Moment | None, other: Moment | None) -> Moment | None:
    return other if one is None or (other is not None and other < one) else one
