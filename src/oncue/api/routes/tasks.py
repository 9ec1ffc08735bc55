"""Tasks: jobs of the built-in queue `tasks`, due on a date, seen by the user they are for."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from oncue.api.paging import PAGE, bounded, read_page
from oncue.api.problems import HttpProblem
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routes import jobs
from oncue.api.routing import Answered, Routes
from oncue.core import ids, moment
from oncue.core.access import Scope
from oncue.core.checks import whole
from oncue.core.errors import IdTaken, InvalidInput
from oncue.core.job import Job, JobFilter, NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import TASKS
from oncue.usecases import intake
from oncue.wire import tasks as wire

if TYPE_CHECKING:
    from oncue.api.app import Service

STATUSES = {
    State.SCHEDULED: "SCHEDULED",
    State.DISPATCHED: "STARTED",
    State.EXECUTING: "STARTED",
    State.SUCCEEDED: "COMPLETED",
    State.FAILED: "FAILED",
}
"""A cancelled task was removed: it is not there."""
SET_BY_SERVER = ("requestId", "status", "error")
LONGEST_DAYS = 36_500
MIDNIGHT = time(tzinfo=UTC)

routes = Routes("Tasks")


@routes.add(
    "POST /tasks",
    Scope.WRITE,
    {201: Answered(wire.Task, headers=("Location",))},
    wire.NewTask,
    headers=("Idempotency-Key",),
)
async def create_task(service: Service, request: Request) -> HttpAnswer:
    """Schedule a task for a user.

    A job of the built-in queue `tasks`, due at 00:00 UTC of its date. Give `dueDate` or
    `afterDays`; all other fields are the task's content.
    """
    fields = await request.json()
    key = jobs.idempotency_key(request)
    now = service.clock.now()
    if key is None:
        new = _taken_in(as_job(fields, now), now)
    else:
        # Of the fields as they were sent: `afterDays` means another date tomorrow.
        digest = intake.digest(fields) if isinstance(fields, dict) else None
        job = as_job(fields, now) | {"id": jobs.derived_id(key)}
        new = _taken_in(job, now)._replace(digest=digest)
    try:
        stored = await service.acue.insert(new) or intake.as_stored(new)
    except IdTaken:
        raise jobs.key_reused() from None
    request.job_id = stored.id
    if stored.state not in STATUSES:
        raise HttpProblem("conflict", "The task that this Idempotency-Key stands for was removed.")
    place = f"/tasks/{quote(fields['userId'], safe='')}/{stored.id}"
    return json_answer(_fields(stored), 201, location=place)


@routes.add("GET /tasks/{userId}", Scope.READ, wire.Tasks, query=PAGE)
async def list_tasks(service: Service, request: Request) -> HttpAnswer:
    """All tasks of a user.

    Ordered by date; finished ones included, removed ones not.
    """
    wanted = JobFilter(TASKS, owner=intake.label(request.subject, "/userId"))
    page = await service.read(read_page, request.query, bounded(partial(service.cue.page, wanted)))
    items = [_fields(job) for job in page.items if job.state in STATUSES]
    return json_answer({"items": items, "next_cursor": page.next})


@routes.add("GET /tasks/{userId}/{requestId}", Scope.READ, wire.Task, problems=(404,))
async def get_task(service: Service, request: Request) -> HttpAnswer:
    """Look at a task.

    Another user's task is not found.
    """
    return json_answer(_fields(await service.read(_task, service, request)))


@routes.add("DELETE /tasks/{userId}/{requestId}", Scope.WRITE, {204: None}, problems=(404, 409))
async def remove_task(service: Service, request: Request) -> HttpAnswer:
    """Remove a task.

    Only while it is SCHEDULED. It is then gone from here, and cancelled under `/jobs`.
    """

    def removed() -> None:
        _task(service, request)
        service.cue.cancel(request.parameters[1])

    await service.acue.write(removed)
    return HttpAnswer(204, b"")


def _task(service: Service, request: Request) -> Job:
    """The task, if it is this user's."""
    user, request_id = request.parameters
    request.job_id = request_id
    job = service.cue.store.get(request_id) if ids.is_id(request_id) else None
    if job is None or job.queue != TASKS or job.owner != user or job.state not in STATUSES:
        raise HttpProblem("not-found", "There is no such task of this user.")
    return job


def as_job(fields: Any, now: moment.Moment) -> dict[str, Any]:
    """The job that a task is."""
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
    return {"queue": TASKS, "owner": owner, "at": due_at, "payload": fields}


def _taken_in(job: dict[str, Any], now: moment.Moment) -> NewJob:
    """The job to store; problems name the fields of the task."""
    try:
        return intake.new_job(job, now)
    except InvalidInput as problem:
        place = "/dueDate" if problem.pointer == "/at" else problem.pointer.removeprefix("/payload")
        raise type(problem)(problem.detail, place) from None


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


def _fields(job: Job) -> dict[str, Any]:
    """The task: the fields that were sent, and its status."""
    payload = job.payload
    content = payload if isinstance(payload, dict) else {"content": payload}
    due = job.due_at.date().isoformat()
    if job.due_at.timetz() != MIDNIGHT:  # its date had passed when it came, or it is tried again
        due = content.get("dueDate", due)
    state: dict[str, Any] = {"requestId": job.id, "dueDate": due, "status": STATUSES[job.state]}
    if job.state is State.FAILED:
        state["error"] = job.error
    return {**content, "userId": job.owner, **state}
