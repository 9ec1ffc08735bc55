"""Tasks: jobs of the built-in queue `tasks`, due on a date, seen by the user they are for."""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from oncue.core import moment
from oncue.core.checks import whole
from oncue.core.errors import IllegalState, InvalidInput, NotFound
from oncue.core.job import Job
from oncue.core.lifecycle import State
from oncue.core.queue import TASKS
from oncue.usecases import intake

STATUS_OF = {
    State.SCHEDULED: "SCHEDULED",
    State.DISPATCHED: "STARTED",
    State.EXECUTING: "STARTED",
    State.SUCCEEDED: "COMPLETED",
    State.FAILED: "FAILED",
}
"""A cancelled task was removed: it is not there."""
STATUSES = tuple(dict.fromkeys(STATUS_OF.values()))
SET_BY_SERVER = ("requestId", "status", "error")
LONGEST_DAYS = 36_500
MIDNIGHT = time(tzinfo=UTC)


def check_status(text: str | None, pointer: str) -> str | None:
    """A status by its name, in capitals or not; None: any."""
    if text is not None and text.upper() not in STATUSES:
        raise InvalidInput(f"must be one of {', '.join(STATUSES)}.", pointer)
    return None if text is None else text.upper()


def is_listed(job: Job, status: str | None) -> bool:
    """Whether it is among the tasks of its user that have this status; None: any."""
    found = STATUS_OF.get(job.state)
    return found is not None and status in (None, found)


def owned(job: Job | None, user: str) -> Job:
    """The task, if it is one of this user."""
    if job is None or job.queue != TASKS or job.owner != user or not is_listed(job, None):
        raise NotFound("There is no such task of this user.")
    return job


def removable(task: Job) -> Job:
    """The task, if it can still be removed."""
    if task.state is not State.SCHEDULED:
        status = STATUS_OF[task.state]
        raise IllegalState(f"cannot remove task {task.id}: it is {status}.", task.state)
    return task


def request_id_of(key: str) -> str:
    """The id of the task that an Idempotency-Key stands for: the same each time."""
    digest = hashlib.blake2b(f"task\n{key}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=5))


def as_job(fields: Any, now: moment.Moment, request_id: str | None = None) -> dict[str, Any]:
    """The job that a task is. Its id is a UUID, unless another is given."""
    if not isinstance(fields, dict):
        raise InvalidInput("a task is a JSON object.")
    for name in SET_BY_SERVER:
        if name in fields:
            raise InvalidInput("the server sets this field; leave it out.", f"/{name}")
    user = fields.get("userId")
    if isinstance(user, int) and not isinstance(user, bool):
        user = fields["userId"] = str(user)
    if user is None:
        raise InvalidInput("the user of the task is missing.", "/userId")
    owner = intake.label(user, "/userId")
    due = _due_date(fields, now)
    fields.pop("afterDays", None)
    fields["dueDate"] = due.isoformat()
    due_at = datetime(due.year, due.month, due.day, tzinfo=UTC)
    task = {"queue": TASKS, "owner": owner, "at": due_at, "payload": fields}
    return {**task, "id": str(uuid.uuid4()) if request_id is None else request_id}


def _due_date(fields: dict[str, Any], now: moment.Moment) -> date:
    due, days = fields.get("dueDate"), fields.get("afterDays")
    if (due is None) == (days is None):
        raise InvalidInput("give either a dueDate (YYYY-MM-DD) or afterDays.", "/dueDate")
    if due is not None:
        return _date(due)
    days = whole(days, 0, LONGEST_DAYS, "/afterDays")
    return moment.to_datetime(now).date() + timedelta(days=days)


def _date(text: Any) -> date:
    with suppress(TypeError, ValueError):
        found = date.fromisoformat(text)
        if found.isoformat() == text:  # Python reads other forms of ISO 8601 as well
            return found
    raise InvalidInput("must be a date such as 2026-12-01.", "/dueDate")


def fields_of(job: Job) -> dict[str, Any]:
    """The task: the fields that were sent, and its status."""
    payload = job.payload
    content = payload if isinstance(payload, dict) else {"content": payload}
    due = job.due_at.date().isoformat()
    if job.due_at.timetz() != MIDNIGHT:  # its date had passed when it came, or it is tried again
        due = content.get("dueDate", due)
    state: dict[str, Any] = {"requestId": job.id, "dueDate": due, "status": STATUS_OF[job.state]}
    if job.state is State.FAILED:
        state["error"] = job.error
    return {**content, "userId": job.owner, **state}
