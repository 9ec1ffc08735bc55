"""Every error oncue raises, in one tree.

OncueError
├── InvalidInput            the request is wrong; `pointer` names the place
│   └── TooLarge            a payload or result beyond the limit
├── NotFound                no such job, queue, …
├── Conflict                the request is valid, but conflicts with the current state
│   ├── IllegalState        the job's state forbids it (cancel a running job, …)
│   ├── IdTaken             another job with other fields has this id
│   ├── KeyTaken            another unfinished job holds this (queue, key)
│   ├── EventIdTaken        another event has this id
│   └── Fenced              the claim is no longer the current one
├── NotSupported            this store cannot do it; `lack` names what it lacks
├── StoreError              the store refused or failed
│   ├── StoreUnavailable    passing trouble: locked, disk full, connection lost
│   │   └── HeldByOthers    an open transaction of another session has what is needed
│   └── StoreUnusable       lasting trouble: not a database, newer schema, read-only, …
├── ServerError             a server, asked by a client, did not do it
│   ├── ServerUnavailable   passing trouble: not reached, no answer, too busy
│   ├── ServerUnusable      lasting trouble: the server there is not oncue
│   └── AccessDenied        the access token is missing, unknown, or lacks a scope
├── SinkError               the sink refused or failed
│   └── SinkDown            passing trouble: nothing or a part was taken, try the rest later
├── NonRetryable            raised by a handler: do not try this job again
└── ClaimLost               raised inside a handler whose claim was taken away or cancelled
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncue.core.text import cut

if TYPE_CHECKING:
    from oncue.core.job import Diagnostic
    from oncue.core.lifecycle import State


class OncueError(Exception):
    """Anything oncue raises on purpose."""


class InvalidInput(OncueError):
    """The request cannot be understood or is out of bounds."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        pointer = cut(pointer)  # it may contain names that the caller has chosen
        super().__init__(f"{pointer}: {detail}" if pointer else detail)
        self.detail = detail
        self.pointer = pointer


class TooLarge(InvalidInput):
    """A payload or a result is larger than the limit."""


class NotFound(OncueError):
    """Nothing is stored under that name."""


class Conflict(OncueError):
    """The request is well formed but the present state forbids it."""


class IllegalState(Conflict):
    """The job is not in a state in which this may happen."""

    def __init__(self, detail: str, state: State) -> None:
        super().__init__(detail)
        self.state = state


class IdTaken(Conflict):
    """A different job already has this id."""


class KeyTaken(Conflict):
    """An unfinished job of this queue already has this key."""


class EventIdTaken(Conflict):
    """Another event, with another type, resource or timestamp, already has this id."""


class Fenced(Conflict):
    """The claim behind this write is no longer the current one; nothing was changed."""

    def __init__(
        self, job_id: str, reason: str, state: State, diagnostic: Diagnostic | None = None
    ) -> None:
        super().__init__(
            f"job {job_id} no longer belongs to this claim ({reason}); it is now {state}. "
            "Stop working on it."
        )
        self.job_id = job_id
        self.reason = reason
        self.state = state
        self.diagnostic = diagnostic


class NotSupported(OncueError):
    """The store cannot do this, now or later; another kind of store can."""

    def __init__(self, detail: str, lack: str = "") -> None:
        super().__init__(detail)
        self.lack = lack


class StoreError(OncueError):
    """The store refused or failed."""


class StoreUnavailable(StoreError):
    """The store cannot answer now; the same call may succeed later."""


class HeldByOthers(StoreUnavailable):
    """A transaction of another session, which is still open, has used what the call needs. Nothing
    was done: what comes of it depends on how that transaction ends. Its text is for callers."""


class StoreUnusable(StoreError):
    """The store cannot be used as it is; calling again does not help."""


class ServerError(OncueError):
    """The server refused or failed."""


class ServerUnavailable(ServerError):
    """The server cannot be reached or cannot answer now; the same call may succeed later."""


class ServerUnusable(ServerError):
    """The server at this URL does not answer as oncue does; calling again does not help."""


class AccessDenied(ServerError):
    """The server refused: the access token is missing, unknown or lacks a scope."""


class SinkError(OncueError):
    """The sink refused or failed."""


class SinkDown(SinkError):
    """The sink is in trouble: deliver what it has not taken again later. Uses up no attempt.

    `untaken`, if trouble came in the middle of a batch: by position, the jobs that were not taken;
    a `Refusal` for those that were refused by themselves, None for those that were not tried, or
    in vain. Without it, nothing was taken."""

    def __init__(
        self,
        detail: str,
        retry_after_seconds: float | None = None,
        untaken: Mapping[int, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
        self.untaken = untaken


class NonRetryable(OncueError):
    """Raised by a handler: this job fails now, whatever attempts remain."""


class ClaimLost(OncueError):
    """Raised inside a handler by `job.step` and friends: the claim is over, stop working."""


def is_ctrl_c(error: BaseException) -> bool:
    """Whether it is Ctrl-C and so meant for the program: Python raises it in the main thread, in
    whatever code that runs. In any other thread a KeyboardInterrupt is an error like others."""
    main = threading.current_thread() is threading.main_thread()
    return main and isinstance(error, KeyboardInterrupt)
