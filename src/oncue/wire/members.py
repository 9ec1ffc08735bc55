"""Jobs and schedules as JSON: the members and names that the HTTP interface and the command line
share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from oncue.core import moment, stamp
from oncue.core.job import Attempt, Claimed, Diagnostic, History, Job, NewJob, Operation


def rfc3339(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(timespec="milliseconds")[:-6] + "Z"


def job_members(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "queue": job.queue,
        "state": job.state.value,
        "due_at": rfc3339(job.due_at),
        "expires_at": rfc3339(job.expires_at),
        "payload": msgspec.Raw(job.payload_json),
        "owner": job.owner,
        "priority": job.priority,
        "key": job.key,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "timeout_seconds": job.timeout_seconds,
        "created_at": rfc3339(job.created_at),
        "updated_at": rfc3339(job.updated_at),
        "finished_at": rfc3339(job.finished_at),
        "result": None if job.result_json is None else msgspec.Raw(job.result_json),
        "error": job.error,
        "message": job.message,
        "percent": job.percent,
        "cancel_requested": job.cancel_requested,
        "rule": job.rule,
        "instant": None if job.instant is None else stamp.render(stamp.from_datetime(job.instant)),
        "schedule": job.schedule,
    }


def created_members(new: NewJob) -> dict[str, Any]:
    """A job as it is right after it was stored."""
    expires_at = new.expires_at
    created_at = moment.render(new.created_at)
    return {
        "id": new.id,
        "queue": new.queue,
        "state": "scheduled",
        "due_at": moment.render(new.due_at),
        "expires_at": None if expires_at is None else moment.render(expires_at),
        "payload": msgspec.Raw(new.payload),
        "owner": new.owner,
        "priority": new.priority,
        "key": new.key,
        "attempt": 0,
        "max_attempts": new.max_attempts,
        "timeout_seconds": new.timeout_seconds,
        "created_at": created_at,
        "updated_at": created_at,
        "finished_at": None,
        "result": None,
        "error": None,
        "message": None,
        "percent": None,
        "cancel_requested": False,
        "rule": None,
        "instant": None,
        "schedule": None,
    }


def claimed_members(
    claim: Claimed, token: str, queue_timeout_seconds: float | None
) -> dict[str, Any]:
    """A job that was claimed just now, and what its worker needs to go on."""
    timeout = claim.timeout_seconds
    expires_at = claim.expires_at
    claimed_at = moment.render(claim.claimed_at)
    return {
        "id": claim.id,
        "queue": claim.queue,
        "state": "dispatched",
        "due_at": moment.render(claim.due_at),
        "expires_at": None if expires_at is None else moment.render(expires_at),
        "payload": msgspec.Raw(claim.payload),
        "owner": claim.owner,
        "priority": claim.priority,
        "key": claim.key,
        "attempt": claim.attempt,
        "max_attempts": claim.max_attempts,
        "timeout_seconds": timeout,
        "created_at": moment.render(claim.created_at),
        "updated_at": claimed_at,
        "finished_at": None,
        "result": None,
        "error": claim.error,
        "message": claim.message,
        "percent": claim.percent,
        "cancel_requested": False,
        "rule": claim.rule,
        "instant": None if claim.instant is None else stamp.render(claim.instant),
        "schedule": claim.schedule,
        "token": token,
        "lease_until": moment.render(claim.lease_until),
        "attempt_timeout_seconds": queue_timeout_seconds if timeout is None else timeout,
        "operations": [operation_members(one) for one in claim.operations],
    }


def standing_members(job: Job) -> dict[str, Any]:
    """Who has the job, and which attempts no longer count: for those who look at it."""
    return {
        "worker": job.worker,
        "lease_until": rfc3339(job.lease_until),
        "attempt_base": job.attempt_base,
    }


def history_members(history: History) -> dict[str, Any]:
    return {
        "operations": [operation_members(o) for o in history.operations],
        "diagnostics": [diagnostic_members(d) for d in history.diagnostics],
        "attempts": [_attempt(a) for a in history.attempts],
    }


def operation_members(o: Operation) -> dict[str, Any]:
    return {
        "name": o.name,
        "state": o.state,
        "percent": o.percent,
        "message": o.message,
        "result": None if o.result is None else msgspec.Raw(o.result),
        "updated_at": rfc3339(o.updated_at),
    }


def diagnostic_members(d: Diagnostic) -> dict[str, Any]:
    told = {"code": d.code, "detail": d.detail, "attempt": d.attempt, "epoch": d.epoch}
    return {"at": rfc3339(d.at), **told, "facts": d.facts}


def _attempt(a: Attempt) -> dict[str, Any]:
    return {
        "attempt": a.attempt,
        "claimed_at": rfc3339(a.claimed_at),
        "worker": a.worker,
        "outcome": a.outcome,
        "ended_at": rfc3339(a.ended_at),
    }
