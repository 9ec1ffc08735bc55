"""Progress records of another system: which of them are stuck, and what becomes of them.

An AgendaProgress is seen twice: as a row of its table, and as its endpoint answers. Both are
judged here, by the same rules.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from oncue.core.duration import spoken
from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import EARLIEST, LATEST, Moment, from_datetime, render

TIMED_OUT = "AgendaProgress timed out."
FAILED = "AgendaProgress failed; it is to be tried again."
DEFAULT_ATTEMPTS = 3  # of a record that does not say; the same as that of a queue
_STATES = {"DEQUEUED": State.DISPATCHED, "EXECUTING": State.EXECUTING, "FAILED": State.FAILED}


class AgendaRecord(NamedTuple):
    """As much of an AgendaProgress as decides."""

    id: str
    state: State | None
    """None: it is neither taken nor failed, so it is not the reclaimer's."""
    updated_at: Moment | None
    """The last update, or else the claim; None: not known."""
    attempts_completed: int | None = None
    maximum_attempts: int | None = None
    retryable: bool | None = None
    """What is said about its failure; None: nothing."""

    @property
    def attempt(self) -> int:
        """The number of the attempt that is stuck or failed."""
        return max(1, (self.attempts_completed or 0) + (self.state in LIVE))


class Threshold(NamedTuple):
    """What a run takes: records last updated before this moment; in the mode `retry` also those
    that failed."""

    before: Moment
    age_ms: int
    mode: str

    def concerns(self, state: State | None) -> bool:
        return state in LIVE or (state is State.FAILED and self.mode == "retry")


class AgendaVerdict(NamedTuple):
    """What is to become of a record."""

    decision: Literal["retry", "fail"]
    code: str
    message: str
    """The message of the diagnostic event."""
    why: str
    attempts_completed: int | None
    """None: as it was."""


def state_of(state: object, message: object) -> State | None:
    """The state that these two texts mean, in capitals or not; None: one that is left alone."""
    if not isinstance(state, str):
        return None
    if state.strip().upper() == "COMPLETE":
        failed = isinstance(message, str) and message.strip().upper() == "FAILED"
        return State.FAILED if failed else None
    return _STATES.get(state.strip().upper())


def moment_of(value: object) -> Moment | None:
    """The moment that a number of milliseconds since 1970 or an ISO 8601 text names; a text without
    an offset is UTC. None: it names no moment."""
    try:
        if isinstance(value, str):
            when = datetime.fromisoformat(value.strip())
            return from_datetime(when if when.tzinfo else when.replace(tzinfo=UTC))
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            moment = math.ceil(value)
            return moment if EARLIEST <= moment <= LATEST else None
    except (ValueError, OverflowError, InvalidInput):
        pass
    return None


def last_update(update: object, claim: object) -> Moment | None:
    """The moment of the last update, or of the claim if there was no update. An update that cannot
    be read is not replaced: the record may be alive."""
    return moment_of(claim if update is None else update)


def anomaly(record: AgendaRecord, now: Moment) -> str | None:
    """Why it cannot be said how long a record was silent; None: it can."""
    if record.updated_at is None:
        return "has no time of its last update that can be read"
    if record.updated_at > now:
        ahead = spoken((record.updated_at - now) / 1000)
        return f"was last updated {ahead} in the future"
    return None


def has_attempts(record: AgendaRecord) -> bool:
    """Whether it may be tried again: a live attempt is completed by its loss."""
    completed = (record.attempts_completed or 0) + (record.state in LIVE)
    most = record.maximum_attempts
    return completed < (DEFAULT_ATTEMPTS if most is None else most)


def is_exempt(record: AgendaRecord) -> bool:
    """Whether a failed record stays failed: no attempt is left, or trying again does not help."""
    return record.state is State.FAILED and (not has_attempts(record) or record.retryable is False)


def judge(record: AgendaRecord, threshold: Threshold, now: Moment) -> AgendaVerdict | None:
    """What becomes of a record that is older than the threshold. None: it stays as it is, because
    its failure is not said to be retryable, or no attempt is left."""
    silent = f"It was last updated {spoken((now - (record.updated_at or now)) / 1000)} ago."
    following = (record.attempts_completed or 0) + 1
    if record.state is State.FAILED:
        if is_exempt(record) or not record.retryable:
            return None
        why = f"It failed, and attempts are left. {silent}"
        return AgendaVerdict("retry", "failure", FAILED, why, following)
    code = "timeout_executing" if record.state is State.EXECUTING else "timeout_dispatched"
    if threshold.mode == "fail":
        return AgendaVerdict("fail", code, TIMED_OUT, silent, None)
    if has_attempts(record):
        return AgendaVerdict("retry", code, TIMED_OUT, f"{silent} Attempts are left.", following)
    return AgendaVerdict("fail", code, TIMED_OUT, f"{silent} No attempt is left.", following)


def details(
    record: AgendaRecord, verdict: AgendaVerdict, threshold: Threshold, now: Moment
) -> dict[str, Any]:
    """What the diagnostic event records beside its message."""
    updated_at = record.updated_at or 0
    return {
        "updatedTime": render(updated_at),
        "ageSeconds": (now - updated_at) / 1000,
        "thresholdSeconds": threshold.age_ms / 1000,
        "decision": verdict.decision,
        "why": verdict.why,
        "retryable": True,
        "reclaimedBy": "oncue.aws.reclaim",
    }
