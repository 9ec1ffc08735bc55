"""The states of a job and the only ways between them.

`TRANSITIONS` is the single table: core checks against it, every store is tested against it, and
the diagram in docs/lifecycle.md is compared with it.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    DISPATCHED = "dispatched"
    EXECUTING = "executing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def in_words(self) -> str:
        """After "it" in a sentence about a job: it has succeeded, it is scheduled."""
        return f"{'has' if self in (State.SUCCEEDED, State.FAILED) else 'is'} {self}"


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
LIVE = frozenset({State.DISPATCHED, State.EXECUTING})


class Verb(StrEnum):
    """What can happen to a job. Each is one compare-and-set in the store."""

    AMEND = "amend"  # reschedule, reprioritise, new payload, run now, another queue
    CLAIM = "claim"
    START = "start"  # start, heartbeat and progress of operations
    HAND_OVER = "hand over"  # a sink took it for a worker elsewhere
    COMPLETE = "complete"
    FAIL = "fail"  # no attempt left, or not retryable
    RETRY = "retry"  # failed, and due again
    RELEASE = "release"  # handed back unharmed
    RECLAIM = "reclaim"  # lost or overlong, and due again
    GIVE_UP = "give up"  # lost or overlong, and no attempt left
    DROP = "drop"  # lost or failed after a cancel was requested
    CANCEL = "cancel"
    EXPIRE = "expire"
    REVIVE = "revive"  # a finished job is due again, by request


_S, _D, _E = State.SCHEDULED, State.DISPATCHED, State.EXECUTING
_OK, _BAD, _OFF = State.SUCCEEDED, State.FAILED, State.CANCELLED

TRANSITIONS: MappingProxyType[tuple[State, Verb], State] = MappingProxyType(
    {
        (_S, Verb.AMEND): _S,
        (_S, Verb.CLAIM): _D,
        (_S, Verb.CANCEL): _OFF,
        (_S, Verb.EXPIRE): _OFF,
        (_D, Verb.START): _E,
        (_E, Verb.START): _E,
        (_D, Verb.HAND_OVER): _D,
        (_E, Verb.HAND_OVER): _E,
        **{(live, Verb.COMPLETE): _OK for live in (_D, _E)},
        **{(live, Verb.FAIL): _BAD for live in (_D, _E)},
        **{(live, Verb.GIVE_UP): _BAD for live in (_D, _E)},
        **{(live, Verb.DROP): _OFF for live in (_D, _E)},
        **{(live, Verb.RETRY): _S for live in (_D, _E)},
        **{(live, Verb.RELEASE): _S for live in (_D, _E)},
        **{(live, Verb.RECLAIM): _S for live in (_D, _E)},
        (_BAD, Verb.REVIVE): _S,
        (_OFF, Verb.REVIVE): _S,
    }
)


def allows(state: State, verb: Verb) -> bool:
    """Whether `verb` may happen to a job in `state`."""
    return (state, verb) in TRANSITIONS
