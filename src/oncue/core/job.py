"""A job and the shapes in which it travels.

`NewJob`, `Claimed` and `Delivery` are tuples, because a burst makes millions of them; moments in
them are integers (see `moment`). `Job` is what people look at: moments are datetimes there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

from oncue.core.cursor import Cursor, Page
from oncue.core.lifecycle import State
from oncue.core.moment import Moment
from oncue.core.queue import DEFAULT_QUEUE
from oncue.core.stamp import Stamp

DIAGNOSTICS_KEPT = 50  # at either end: the first and the last fifty; attempts likewise


class NewJob(NamedTuple):
    """A job on its way into the store. The order of the fields is the order of the insert."""

    id: str
    queue: str
    due_at: Moment
    payload: bytes
    priority: int
    created_at: Moment
    owner: str | None = None
    key: str | None = None
    expires_at: Moment | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    digest: bytes | None = None
    """Of the fields as sent, for client-chosen ids: tells a repetition from a clash."""
    epoch: int = 0
    """Its first claim has the next one. See `ids.first_epoch`."""
    replace: bool = False
    """With a key that is taken: give the existing job this time and payload."""
    former_digest: bytes | None = None
    """The digest of the same fields in jobs that were stored before numbers were compared by value:
    60 and 60.0 had different ones. None: it is the same."""


RARE = slice(NewJob._fields.index("owner"), NewJob._fields.index("replace"))
"""The optional fields that are stored. The fields before them are set in every job. The fields
after them are not stored: they say what happens if the job clashes with another."""
_rare: Callable[[NewJob], tuple[Any, ...]] = itemgetter(RARE)
_PLAIN_VALUES = tuple(NewJob._field_defaults[name] for name in NewJob._fields[RARE])


def are_plain(jobs: Iterable[NewJob]) -> bool:
    """Whether they have nothing but a queue, a due time, a payload and a priority."""
    return all(map(_PLAIN_VALUES.__eq__, map(_rare, jobs)))


class Claimed(NamedTuple):
    """A job that a worker has claimed. `epoch` is the proof of the claim."""

    id: str
    queue: str
    due_at: Moment
    payload: bytes
    priority: int
    owner: str | None
    key: str | None
    attempt: int
    attempt_base: int
    max_attempts: int | None
    timeout_seconds: float | None
    epoch: int
    claimed_at: Moment
    lease_until: Moment
    created_at: Moment
    expires_at: Moment | None = None
    error: str | None = None
    """Of the attempt before, like `message` and `percent`."""
    message: str | None = None
    percent: float | None = None
    rule: str | None = None
    """The rule that created it, if one did …"""
    instant: Stamp | None = None
    """… and the instant at which that rule was met."""
    schedule: str | None = None
    """The schedule whose occurrence it is, if it is one."""
    operations: tuple[Operation, ...] = ()
    operations_cursor: Cursor | None = None
    """Where the list of its operations goes on; None: these are all."""


class Delivery(NamedTuple):
    """A job on its way to a sink."""

    id: str
    due_at: Moment
    payload: bytes
    attempt: int
    """The number of the attempt that this delivery is."""
    token: str | None = None
    """The token of the claim, which a worker sends with its reports; None: no worker reports."""
    queue: str = DEFAULT_QUEUE
    owner: str | None = None


class Lapse(NamedTuple):
    """A claim that may be lost or overlong, as the reclaimer saw it."""

    id: str
    queue: str
    state: State
    epoch: int
    attempt: int
    attempt_base: int
    max_attempts: int | None
    strikes: int
    """Reclaims of claims that had started, since an operation last succeeded."""
    cancel_requested: bool
    worker: str | None
    claimed_at: Moment
    updated_at: Moment
    lease_until: Moment | None
    """None: none was given, or the claim was handed over to a sink."""
    overlong_at: Moment | None
    alone: bool = False
    """Whether it was the only job of its claim."""

    @property
    def lapses_at(self) -> Moment:
        """When it is lost or overlong, whichever comes first."""
        return min(at for at in (self.lease_until, self.overlong_at) if at is not None)


@dataclass(frozen=True, slots=True)
class Operation:
    """One named step inside a job. Its result (JSON) is final once it has succeeded."""

    name: str
    state: str
    updated_at: datetime
    percent: float | None = None
    message: str | None = None
    result: bytes | None = None

    @property
    def is_final(self) -> bool:
        """Whether it is written for good: a report that does not repeat it is refused."""
        return self.state == "succeeded"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A recorded fact about what went wrong or was decided."""

    at: datetime
    code: str
    detail: str
    attempt: int
    epoch: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim by a worker, or one hand-over to a sink. `outcome` None means it goes on."""

    attempt: int
    epoch: int
    claimed_at: datetime
    worker: str | None
    outcome: str | None
    ended_at: datetime | None


class Job(NamedTuple):
    """A job as the store has it now."""

    id: str
    queue: str
    state: State
    due_at: datetime
    payload_json: bytes
    priority: int
    attempt: int
    created_at: datetime
    updated_at: datetime
    owner: str | None = None
    key: str | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    finished_at: datetime | None = None
    result_json: bytes | None = None
    error: str | None = None
    message: str | None = None
    percent: float | None = None
    cancel_requested: bool = False
    epoch: int = 0
    worker: str | None = None
    lease_until: datetime | None = None
    attempt_base: int = 0
    """Attempts that do not count: those of a revived job's earlier lives, and claims that were lost
    before they began (see `core/retry.py`)."""
    rule: str | None = None
    """The rule that created it, if one did …"""
    instant: datetime | None = None
    """… and the instant, in event time, at which that rule was met."""
    schedule: str | None = None
    """The schedule whose occurrence it is, if it is one."""
    not_before: datetime | None = None
    """While it is put off, because its sink refused it for now: until when."""
    refusals: int = 0
    """How often in a row its sink refused it for now."""

    @property
    def payload(self) -> Any:
        """Its data, read from JSON."""
        return json.loads(self.payload_json)

    @property
    def result(self) -> Any:
        """The result, read from JSON; None: it has none."""
        return None if self.result_json is None else json.loads(self.result_json)


@dataclass(frozen=True, slots=True)
class History:
    """What happened inside a job: its operations, diagnostics and attempts, oldest first."""

    operations: tuple[Operation, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    operations_cursor: Cursor | None = None
    """Where the list of operations goes on; None: these are all."""

    @property
    def operation_page(self) -> Page[Operation]:
        return Page(list(self.operations), self.operations_cursor)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a listing shows: due_after ≤ due_at < due_before. None means any."""

    queue: str | None = None
    state: State | None = None
    owner: str | None = None
    key: str | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None


JobPage = Page[Job]
