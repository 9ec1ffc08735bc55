"""Jobs over HTTP: create, look, change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.paging import PAGE, bounded, moment_of, read_page
from oncue.api.problems import HttpProblem, invalid
from oncue.api.request import HttpAnswer, Request, json_answer, write_json
from oncue.api.routing import Answered, Routes
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.bulk import FILTERS
from oncue.core.cursor import Cursor, Page
from oncue.core.errors import IdTaken, InvalidInput
from oncue.core.job import Job, JobFilter, NewJob, Operation
from oncue.core.lifecycle import State
from oncue.usecases import intake
from oncue.usecases.jobs import history_of
from oncue.wire import jobs as wire
from oncue.wire.converting import written
from oncue.wire.formats import Nothing
from oncue.wire.problems import FieldProblem

if TYPE_CHECKING:
    from oncue.api.app import Service

KEY_LENGTH = 255

routes = Routes("Jobs")


# -- creating --------------------------------------------------------------------------------------


@routes.add(
    "POST /jobs",
    Scope.WRITE,
    {
        201: Answered(wire.Job, headers=("Location",)),
        200: Answered(wire.Job, "The job was there already.", ("Location",)),
    },
    wire.NewJob,
    headers=("Idempotency-Key",),
    problems=(409,),
)
async def create_job(service: Service, request: Request) -> HttpAnswer:
    """Create a job.

    Durable when the answer arrives. Without a time it is due at once. With a `key` that an
    unfinished job of the queue has, `if_exists` decides: `keep` answers with that job, `replace`
    gives it the new time and payload. Repeating an `id` with the same body returns the job (200);
    another body returns 409. Give an `id` or an `Idempotency-Key`, not both. The body may be sent
    with `Content-Encoding: gzip`.
    """
    fields = await request.json()
    key = idempotency_key(request)
    new = new_job(fields, service.clock.now(), key and derived_id(key))
    try:
        existing = await service.acue.insert(new)
    except IdTaken:
        if key is None:
            raise
        raise key_reused() from None
    request.job_id = new.id if existing is None else existing.id
    place = f"/jobs/{request.job_id}"
    if existing is not None and (key is None or existing.id != new.id):
        return json_answer(written(wire.Job, existing), location=place)
    if existing is not None:  # the same fields, counted from the same moment, make the same job
        new = intake.new_job(fields, moment.from_datetime(existing.created_at))
    body = write_json(wire.Job.of_new(new))
    return HttpAnswer(201, body, headers={"location": place}, is_own=True)


def new_job(fields: Any, now: moment.Moment, derived: str | None = None) -> NewJob:
    """The job that a body describes; `derived` is the id that its idempotency key gives it."""
    if fields.__class__ is not dict:
        raise InvalidInput("a job is a JSON object.")
    if "at" in fields:  # a name that Python alone has
        raise intake.unknown_field(["at"])
    if derived is not None:
        if fields.get("id") is not None:
            raise InvalidInput("give either an id or an Idempotency-Key, not both.", "/id")
        fields["id"] = derived
    return intake.new_job(fields, now)


def idempotency_key(request: Request) -> str | None:
    """The key that makes repeating a request harmless, if the client sent one."""
    key = request.header(b"idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise HttpProblem(
            "malformed", f"An Idempotency-Key is 1 to {KEY_LENGTH} printable ASCII characters."
        )
    return key


def derived_id(key: str, line: int = 0) -> str:
    """The id of the job that this key (and line of a batch) stands for."""
    return "i" + hashlib.blake2b(f"{line}\n{key}".encode(), digest_size=20).hexdigest()


def key_reused() -> HttpProblem:
    return HttpProblem(
        "idempotency-key-reused",
        "This Idempotency-Key was sent before with other fields. Use a new key for a new job.",
        errors=[FieldProblem("", "differs from the fields that this key was first sent with.")],
    )


# -- looking ---------------------------------------------------------------------------------------


@routes.add("GET /jobs/{id}", Scope.READ, wire.JobWithHistory, problems=(404,))
async def get_job(service: Service, request: Request) -> HttpAnswer:
    """Look at a job and its history.

    With its operations, diagnostics and attempts; of many diagnostics and attempts, the first and
    the last 50. If there are more operations than one answer has room for, `operations_cursor` is
    the `cursor` of `GET /jobs/{id}/operations` for the next ones.
    """
    cue, job_id = service.cue, request.subject

    def read() -> wire.JobWithHistory:
        return written(wire.JobWithHistory, cue.job(job_id), cue.history(job_id))

    return json_answer(await service.read(read))


@routes.add("GET /jobs/{id}/operations", Scope.READ, wire.Operations, query=PAGE, problems=(404,))
async def list_operations(service: Service, request: Request) -> HttpAnswer:
    """List the operations of a job.

    In the order in which they were first reported.
    """
    cue, job_id = service.cue, request.subject

    def page(after: Cursor | None, limit: int) -> Page[Operation]:
        return history_of(cue, job_id, after, limit).operation_page

    found = await service.read(read_page, request.query, page)
    return json_answer(wire.Operations.of(found))


@routes.add("GET /jobs", Scope.READ, wire.Jobs, query=(*FILTERS, *PAGE), problems=(501,))
async def list_jobs(service: Service, request: Request) -> HttpAnswer:
    """List jobs by due time.

    Ordered by due time, then id. Jobs match all given filters.
    """
    wanted = job_filter(request.query)

    def read() -> HttpAnswer:
        page = read_page(request.query, bounded(partial(service.cue.page, wanted)))
        items = [written(wire.StandingJob, job) for job in page.items]
        return json_answer(wire.Jobs(items, page.next))

    return await service.read(read)


def job_filter(query: dict[str, str]) -> JobFilter:
    """Which jobs a query asks for."""
    after, before = moment_of(query, "due_after"), moment_of(query, "due_before")
    try:
        texts = ("queue", "state", "owner", "key")
        wanted = intake.job_filter({name: query.get(name) for name in texts})
    except InvalidInput as problem:
        raise InvalidInput(problem.detail, f"?{problem.pointer[1:]}") from None
    return replace(wanted, due_after=after, due_before=before)


@routes.add("GET /jobs/{id}/explain", Scope.READ, wire.Explanation, problems=(404,))
async def explain_job(service: Service, request: Request) -> HttpAnswer:
    """Explain why a job is in its state.

    A reason for programs, a sentence for people, and the facts behind them.
    """
    found = await service.read(service.cue.explain, request.subject)
    return json_answer(written(wire.Explanation, found))


# -- changing --------------------------------------------------------------------------------------


@routes.add("PATCH /jobs/{id}", Scope.WRITE, wire.Job, wire.Patch, problems=(404, 409))
async def amend_job(service: Service, request: Request) -> HttpAnswer:
    """Give a job another time or payload.

    Only while it is scheduled.
    """
    body = await request.decoded(wire.Patch)
    changes = {k: v for k, v in msgspec.structs.asdict(body).items() if v is not msgspec.UNSET}
    job = await service.acue.write(service.cue.reschedule, request.subject, **changes)
    return json_answer(written(wire.Job, job))


@routes.add(
    "DELETE /jobs/{id}",
    Scope.WRITE,
    {200: wire.Job, 202: Answered(wire.Job, "Its worker is asked to stop.")},
    query=("running",),
    problems=(404, 409),
)
async def cancel_job(service: Service, request: Request) -> HttpAnswer:
    """Cancel a job.

    A scheduled job ends cancelled and is not handed over. A taken one can only be asked to stop,
    with `running=true`: its worker learns it by its next heartbeat. The job itself stays until its
    queue's retention is over.
    """
    running = request.query.get("running", "false")
    if running not in ("true", "false"):
        raise invalid("must be true or false.", "?running")
    job = await service.acue.write(service.cue.cancel, request.subject, running=running == "true")
    return json_answer(written(wire.Job, job), 200 if job.state is State.CANCELLED else 202)


@routes.add("POST /jobs/{id}/run", Scope.WRITE, wire.Job, Nothing, problems=(404, 409))
async def run_job(service: Service, request: Request) -> HttpAnswer:
    """Make a job due now.

    Only while it is scheduled. A job that is due already keeps its place.
    """
    return await _changed(service, request, service.cue.run)


@routes.add("POST /jobs/{id}/retry", Scope.WRITE, wire.Job, Nothing, problems=(404, 409))
async def retry_job(service: Service, request: Request) -> HttpAnswer:
    """Make a finished job due again.

    For a failed or cancelled job. Its operations are kept; all its attempts are available again.
    """
    return await _changed(service, request, service.cue.retry)


async def _changed(service: Service, request: Request, change: Callable[[str], Job]) -> HttpAnswer:
    await request.decoded(Nothing)
    return json_answer(written(wire.Job, await service.acue.write(change, request.subject)))
