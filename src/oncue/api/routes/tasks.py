"""Tasks: jobs of the built-in queue `tasks`, due on a date, seen by the user they are for."""

from __future__ import annotations

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
from oncue.core.errors import IdTaken, InvalidInput
from oncue.core.job import Job, JobFilter, NewJob
from oncue.core.queue import TASKS
from oncue.usecases import intake, tasks
from oncue.wire import tasks as wire

if TYPE_CHECKING:
    from oncue.api.app import Service

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
    request_id, sent = None, intake.Digests(None)
    if key is not None:
        request_id = await service.read(_request_id, service, key)
        if isinstance(fields, dict):
            sent = intake.digests(fields)  # before `afterDays` becomes a date: another one tomorrow
    new = _taken_in(tasks.as_job(fields, now, request_id), now)._replace(**sent._asdict())
    try:
        stored = await service.acue.insert(new) or intake.as_stored(new)
    except IdTaken:
        raise jobs.key_reused() from None
    request.job_id = stored.id
    if not tasks.is_listed(stored, None):
        raise HttpProblem("conflict", "The task that this Idempotency-Key stands for was removed.")
    place = f"/tasks/{quote(fields['userId'], safe='')}/{stored.id}"
    return json_answer(tasks.fields_of(stored), 201, location=place)._replace(is_own=True)


@routes.add("GET /tasks/{userId}", Scope.READ, wire.Tasks, query=("status", *PAGE))
async def list_tasks(service: Service, request: Request) -> HttpAnswer:
    """All tasks of a user.

    Ordered by date; finished ones included, removed ones not. With `status`, only those that have
    it: a page may then be short or empty although others follow.
    """
    status = tasks.check_status(request.query.get("status"), "?status")
    wanted = JobFilter(TASKS, owner=intake.label(request.subject, "/userId"))
    page = await service.read(read_page, request.query, bounded(partial(service.cue.page, wanted)))
    items = [tasks.fields_of(job) for job in page.items if tasks.is_listed(job, status)]
    return json_answer({"items": items, "next_cursor": page.next})


@routes.add("GET /tasks/{userId}/{requestId}", Scope.READ, wire.Task, problems=(404,))
async def get_task(service: Service, request: Request) -> HttpAnswer:
    """Look at a task.

    Another user's task is not found.
    """
    return json_answer(tasks.fields_of(await service.read(_task, service, request)))


@routes.add("DELETE /tasks/{userId}/{requestId}", Scope.WRITE, {204: None}, problems=(404, 409))
async def remove_task(service: Service, request: Request) -> HttpAnswer:
    """Remove a task.

    Only while it is SCHEDULED. It is then gone from here, and cancelled under `/jobs`.
    """

    def removed() -> None:
        service.cue.cancel(tasks.removable(_task(service, request)).id)

    await service.acue.write(removed)
    return HttpAnswer(204, b"")


def _task(service: Service, request: Request) -> Job:
    """The task, if it is this user's."""
    user, request_id = request.parameters
    request.job_id = request_id
    return tasks.owned(service.cue.store.get(request_id) if ids.is_id(request_id) else None, user)


def _request_id(service: Service, key: str) -> str:
    """The id of the task that a key stands for; tasks of earlier versions keep theirs."""
    earlier = jobs.derived_id(key)
    return tasks.request_id_of(key) if service.cue.store.get(earlier) is None else earlier


def _taken_in(job: dict[str, Any], now: moment.Moment) -> NewJob:
    """The job to store; problems name the fields of the task."""
    try:
        return intake.new_job(job, now)
    except InvalidInput as problem:
        place = "/dueDate" if problem.pointer == "/at" else problem.pointer.removeprefix("/payload")
        raise type(problem)(problem.detail, place) from None
