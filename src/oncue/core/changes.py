"""What people change about jobs, and which jobs can be changed so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from oncue.core.job import JobFilter
from oncue.core.lifecycle import LIVE, State, Verb, allows
from oncue.core.moment import LATEST, Moment

ANY = JobFilter()


class ChangeVerb(StrEnum):
    AMEND = "amend"
    """Another due time, priority or payload for a scheduled job."""
    RUN = "run"
    """A scheduled job is due now, or since it was due. One that is put off is offered again."""
    CANCEL = "cancel"
    """A scheduled job ends. It is never delivered."""
    STOP = "stop"
    """A taken job is marked; its worker learns of it by the next heartbeat."""
    REVIVE = "revive"
    """A failed or cancelled job is due now. The attempt goes on counting from where it was, the
    allowance starts anew, operations are kept."""
    MOVE = "move"
    """Another queue for a scheduled job, and nothing else."""


_LIFECYCLE = {
    ChangeVerb.AMEND: Verb.AMEND,
    ChangeVerb.RUN: Verb.AMEND,
    ChangeVerb.CANCEL: Verb.CANCEL,
    ChangeVerb.REVIVE: Verb.REVIVE,
    ChangeVerb.MOVE: Verb.AMEND,
}
_STATES = {
    ChangeVerb.STOP: LIVE,
    **{
        change: frozenset(state for state in State if allows(state, verb))
        for change, verb in _LIFECYCLE.items()
    },
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
        """The states in which a job can be changed so."""
        return _STATES[self.verb]


class NotChanged(NamedTuple):
    """Why a job was left alone, and its state then."""

    reason: Literal["unknown", "filter", "state", "as wanted", "key"]
    """`filter`: it does not fit. `key`: another unfinished job has its key in the queue where it
    would be unfinished."""
    state: State | None = None


class Seen(Protocol):
    """A job, as far as a change depends on it."""

    @property
    def state(self) -> State: ...
    @property
    def covered(self) -> bool:
        """It is inside an open range claim: it is being delivered, though its state is
        `scheduled`."""
        ...

    @property
    def queue(self) -> str: ...
    @property
    def owner(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def due_at(self) -> Moment: ...
    @property
    def not_before(self) -> Moment | None: ...
    @property
    def priority(self) -> int: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def finished_at(self) -> Moment | None: ...


def decide(seen: Seen, change: JobChange, now: Moment, *, key_taken: bool) -> NotChanged | None:
    """Why the job is not changed; None: it is."""
    shown = shown_state(seen)
    if not fits(seen, change.wanted):
        return NotChanged("filter", shown)
    if not applies(seen, change.states, change.begun_at):
        return NotChanged("state", shown)
    if _is_as_wanted(seen, change, now):
        return NotChanged("as wanted", shown)
    if key_taken and change.verb in (ChangeVerb.REVIVE, ChangeVerb.MOVE):
        return NotChanged("key", shown)
    return None


def shown_state(seen: Seen) -> State:
    """The state as others see it."""
    return State.DISPATCHED if seen.covered else seen.state


def fits(seen: Seen, wanted: JobFilter) -> bool:
    """Windows of due time are half open, [due_after, due_before): neighbours share nothing."""
    return (
        wanted.queue in (None, seen.queue)
        and wanted.state in (None, shown_state(seen))
        and wanted.owner in (None, seen.owner)
        and wanted.key in (None, seen.key)
        and (wanted.due_after is None or wanted.due_after <= seen.due_at)
        and (wanted.due_before is None or seen.due_at < wanted.due_before)
    )


def applies(seen: Seen, states: frozenset[State], begun_at: Moment) -> bool:
    """Whether a change for jobs in these states can be made now."""
    if seen.covered or seen.state not in states:
        return False
    return seen.finished_at is None or seen.finished_at <= begun_at


def _is_as_wanted(seen: Seen, change: JobChange, now: Moment) -> bool:
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
