"""From the JSON of a server to the types that a `Scheduler` answers with."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import msgspec

from oncue.core import stamp
from oncue.core.explain import Explanation
from oncue.core.job import Attempt, Claimed, Diagnostic, History, Job, Operation
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime
from oncue.core.queue import Queue, RetryPolicy
from oncue.ports.claims import Touched
from oncue.ports.queues import QueueStats

_NULL = msgspec.Raw(b"null")


class OperationBody(msgspec.Struct):
    name: str
    state: str
    updated_at: datetime
    percent: float | None = None
    message: str | None = None
    result: msgspec.Raw = _NULL


class DiagnosticBody(msgspec.Struct):
    at: datetime
    code: str
    detail: str
    attempt: int = 0
    epoch: int = 0
    facts: dict[str, Any] = {}


class AttemptBody(msgspec.Struct):
    claimed_at: datetime
    worker: str | None
    outcome: str | None
    attempt: int = 0
    epoch: int = 0
    ended_at: datetime | None = None


class JobBody(msgspec.Struct):
    """A job, alone, with its history, or as it was claimed."""

    id: str
    queue: str
    state: State
    due_at: datetime
    payload: msgspec.Raw
    created_at: datetime
    updated_at: datetime
    priority: int = 0
    attempt: int = 0
    owner: str | None = None
    key: str | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    finished_at: datetime | None = None
    result: msgspec.Raw = _NULL
    error: str | None = None
    message: str | None = None
    percent: float | None = None
    cancel_requested: bool = False
    rule: str | None = None
    instant: datetime | None = None
    schedule: str | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    attempt_base: int = 0
    token: str = ""
    attempt_timeout_seconds: float | None = None
    operations: list[OperationBody] = []
    diagnostics: list[DiagnosticBody] = []
    attempts: list[AttemptBody] = []


class JobsBody(msgspec.Struct):
    items: list[JobBody]
    next_cursor: str | None = None


class TouchedBody(msgspec.Struct):
    lease_until: datetime | None = None
    cancel_requested: bool = False


class ExplanationBody(msgspec.Struct):
    reason: str
    sentence: str
    facts: dict[str, Any] = {}


class QueueBody(msgspec.Struct):
    """A queue's settings are read as a whole; the rest is how it stands."""

    name: str
    counts: dict[State, int | None]
    approximate: bool = False
    oldest_due_at: datetime | None = None


class QueuesBody(msgspec.Struct):
    items: list[msgspec.Raw]
    next_cursor: str | None = None


class DueCountBody(msgspec.Struct):
    at: datetime
    count: int


class DueCountsBody(msgspec.Struct):
    items: list[DueCountBody]


class TallyBody(msgspec.Struct):
    accepted: int
    existing: int
    rejected: list[dict[str, Any]] = []
    ids: list[str | None] = []


class BulkBody(msgspec.Struct):
    matched: int
    changed: int
    sample: list[JobBody]
    key_taken: int = 0
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RemotePage:
    """One page of jobs. `next` is where the next one begins, in the server's own words."""

    items: list[Job]
    next: str | None


class RemoteClaim(Claimed):
    """A job that was claimed from a server. `token` is the proof of the claim; the epoch behind it
    is known to the server alone, and 0 here."""

    token: str
    attempt_timeout_seconds: float | None
    """How long the attempt may take, by the job or its queue."""


def raw(value: msgspec.Raw) -> bytes | None:
    """JSON as it is kept: null is nothing."""
    text = bytes(value)
    return None if text == b"null" else text


def job(body: JobBody) -> Job:
    return Job(
        body.id,
        body.queue,
        body.state,
        body.due_at,
        bytes(body.payload),
        body.priority,
        body.attempt,
        body.created_at,
        body.updated_at,
        owner=body.owner,
        key=body.key,
        expires_at=body.expires_at,
        max_attempts=body.max_attempts,
        timeout_seconds=body.timeout_seconds,
        finished_at=body.finished_at,
        result_json=raw(body.result),
        error=body.error,
        message=body.message,
        percent=body.percent,
        cancel_requested=body.cancel_requested,
        worker=body.worker,
        lease_until=body.lease_until,
        attempt_base=body.attempt_base,
        rule=body.rule,
        instant=body.instant,
        schedule=body.schedule,
    )


def claim(body: JobBody) -> RemoteClaim:
    """A claimed job was last changed by its claim: so `updated_at` is when that was, by the
    server's clock, as `lease_until` is."""
    claimed_at = from_datetime(body.updated_at)
    claimed = RemoteClaim(
        body.id,
        body.queue,
        from_datetime(body.due_at),
        bytes(body.payload),
        body.priority,
        body.owner,
        body.key,
        body.attempt,
        0,
        body.max_attempts,
        body.timeout_seconds,
        0,
        claimed_at,
        claimed_at if body.lease_until is None else from_datetime(body.lease_until),
        from_datetime(body.created_at),
        tuple(operation(one) for one in body.operations),
        None if body.expires_at is None else from_datetime(body.expires_at),
        body.error,
        body.message,
        body.percent,
        body.rule,
        None if body.instant is None else stamp.from_datetime(body.instant),
        body.schedule,
    )
    claimed.token = body.token
    claimed.attempt_timeout_seconds = body.attempt_timeout_seconds
    return claimed


def operation(body: OperationBody) -> Operation:
    """A step that succeeded has a result, even if that is nothing."""
    result = bytes(body.result) if body.state == "succeeded" else raw(body.result)
    return Operation(body.name, body.state, body.updated_at, body.percent, body.message, result)


def diagnostic(body: DiagnosticBody) -> Diagnostic:
    return Diagnostic(body.at, body.code, body.detail, body.attempt, body.epoch, body.facts)


def history(body: JobBody) -> History:
    return History(
        tuple(operation(one) for one in body.operations),
        tuple(diagnostic(one) for one in body.diagnostics),
        tuple(
            Attempt(a.attempt, a.epoch, a.claimed_at, a.worker, a.outcome, a.ended_at)
            for a in body.attempts
        ),
    )


def touched(body: TouchedBody) -> Touched:
    until = body.lease_until
    return Touched(None if until is None else from_datetime(until), body.cancel_requested)


def explanation(body: ExplanationBody) -> Explanation:
    return Explanation(body.reason, body.sentence, body.facts)


def stats(body: QueueBody) -> QueueStats:
    counts = {state: count for state, count in body.counts.items() if count is not None}
    oldest = body.oldest_due_at
    return QueueStats(counts, None if oldest is None else from_datetime(oldest), body.approximate)


def queue(members: dict[str, Any]) -> Queue:
    """The settings among these members; what this version does not know of is left out."""
    known = {field.name: members[field.name] for field in fields(Queue) if field.name in members}
    if "retry" in known:
        known["retry"] = RetryPolicy(**known["retry"])
    return Queue(**known)
