"""What people change about jobs, and to which jobs each change applies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, State
from oncue.core.moment import LATEST, Moment

ANY = JobFilter()


class ChangeVerb(StrEnum):
    AMEND = "amend"
    """Another due time, priority or payload for a scheduled job."""
    RUN = "run"
    """A scheduled job becomes due now; one that is due already keeps its due time. A job that is
    put off is offered to its sink again."""
    CANCEL = "cancel"
    """A scheduled job ends. It is never delivered."""
    STOP = "stop"
    """A taken job is marked; its worker learns of it by the next heartbeat."""
    REVIVE = "revive"
    """A failed or cancelled job is due now. The attempt goes on counting from where it was, the
    allowance starts anew, operations are kept."""
    MOVE = "move"
    """Another queue for a scheduled job, and nothing else."""


_STATES = dict.fromkeys(ChangeVerb, frozenset({State.SCHEDULED})) | {
    ChangeVerb.STOP: LIVE,
    ChangeVerb.REVIVE: frozenset({State.FAILED, State.CANCELLED}),
}


@dataclass(frozen=True, slots=True)
class JobChange:
    """One change, the same for each job."""

    verb: ChangeVerb
    wanted: JobFilter = ANY
    """Other jobs are left alone."""
    begun_at: Moment = LATEST
    """Jobs that finished later are not revived: one that fails at once would be revived for
    ever."""
    due_at: Moment | None = None
    """With AMEND, as are priority and payload. None: it stays."""
    priority: int | None = None
    payload: bytes | None = None
    queue: str | None = None
    """With MOVE: where to."""

    @property
    def states(self) -> frozenset[State]:
        """The states of the jobs to which it applies."""
        return _STATES[self.verb]


class NotChanged(NamedTuple):
    """Why a job was left alone, and its state then."""

    reason: Literal["unknown", "filter", "state", "as wanted", "key"]
    """`filter`: it does not fit. `key`: another unfinished job has its key in the queue where it
    would be unfinished."""
    state: State | None = None


class SeenJob(NamedTuple):
    """A job, as far as a change depends on it."""

    id: str
    state: State
    covered: bool
    """It is inside an open range claim: it is being delivered, though its state is `scheduled`."""
    queue: str
    owner: str | None
    key: str | None
    due_at: Moment
    not_before: Moment | None
    priority: int
    cancel_requested: bool
    finished_at: Moment | None
    key_taken: bool
    """Whether an unfinished job has its key in the queue where it is to be."""

    @property
    def shown_state(self) -> State:
        """The state as others see it."""
        return State.DISPATCHED if self.covered else self.state


def decide(seen: SeenJob, change: JobChange, now: Moment) -> NotChanged | None:
    """Why the job is not changed; None: it is."""
    if not fits(seen, change.wanted):
        return NotChanged("filter", seen.shown_state)
    if not applies(seen, change.states, change.begun_at):
        return NotChanged("state", seen.shown_state)
    if _is_as_wanted(seen, change, now):
        return NotChanged("as wanted", seen.shown_state)
    if seen.key_taken and change.verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE):
        return NotChanged("key", seen.shown_state)
    return None


def fits(seen: SeenJob, wanted: JobFilter) -> bool:
    """Windows of due time are half open, [due_after, due_before): neighbours share nothing."""
    return (
        wanted.queue in (None, seen.queue)
        and wanted.state in (None, seen.shown_state)
        and wanted.owner in (None, seen.owner)
        and wanted.key in (None, seen.key)
        and (wanted.due_after is None or wanted.due_after <= seen.due_at)
        and (wanted.due_before is None or seen.due_at < wanted.due_before)
    )


def applies(seen: SeenJob, states: frozenset[State], begun_at: Moment) -> bool:
    """Whether a change for jobs in these states can be made now."""
    if seen.covered or seen.state not in states:
        return False
    return seen.finished_at is None or seen.finished_at <= begun_at


def _is_as_wanted(seen: SeenJob, change: JobChange, now: Moment) -> bool:
    match change.verb:
        case ChangeVerb.AMEND:
            return (
                change.payload is None
                and change.priority in (None, seen.priority)
                and change.due_at in (None, seen.due_at)
                and (change.due_at is None or seen.not_before is None)
            )
        case ChangeVerb.RUN:
            return seen.due_at <= now and seen.not_before is None
        case ChangeVerb.STOP:
            return seen.cancel_requested
        case ChangeVerb.MOVE:
            return seen.queue == change.queue
        case _:
            return False
