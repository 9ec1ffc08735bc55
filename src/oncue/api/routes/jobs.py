"""Jobs over HTTP: create, look, change."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from oncue.api.docs.about import Answered, Parameter, json
from oncue.api.docs.parameters import (
    CURSOR_PARAMETER,
    FILTER_PARAMETERS,
    IDEMPOTENCY_KEY,
    KEY_LENGTH,
    LIMIT_PARAMETER,
)
from oncue.api.docs.samples import HISTORY, JOB, NOON, STANDING
from oncue.api.paging import cursor, moment_of, no_body, paging
from oncue.api.problems import Problem, invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Routes
from oncue.api.unreadable import unreadable
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.errors import IdTaken, InvalidInput
from oncue.core.job import JobFilter, NewJob
from oncue.core.lifecycle import State
from oncue.core.queue import check_queue_name
from oncue.usecases import intake
from oncue.wire import formats
from oncue.wire import jobs as wire
from oncue.wire.converting import written
from oncue.wire.problems import FieldProblem

if TYPE_CHECKING:
    from oncue.api.app import Service

FILTERS = ("queue", "state", "owner", "key", "due_after", "due_before")

_read_any = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode
_patch = msgspec.json.Decoder(wire.Patch)

routes = Routes("Jobs")
_NEW = {"payload": {"to": "ada"}, "queue": "mail", "delay": "PT2H"}
_RUNNING = Parameter(
    "running",
    "Ask a job that was taken already to stop; false if left out.",
    Literal["true", "false"],
    "true",
)


# -- creating --------------------------------------------------------------------------------------


@routes.add(
    "POST /jobs",
    Scope.WRITE,
    {
        201: Answered("Created.", wire.Job, JOB, headers=("Location",)),
        200: Answered(
            "There was such a job already: this is it.",
            wire.Job,
            JOB | {"key": "order-1001"},
            headers=("Location",),
        ),
    },
    json(wire.NewJob, _NEW),
    (IDEMPOTENCY_KEY,),
    (409,),
)
async def create_job(service: Service, request: Request) -> Answer:
    """Create a job.

    Durable when the answer arrives. Without a time it is due at once. With a `key` that an
    unfinished job of the queue has, `if_exists` decides: `keep` answers with that job, `replace`
    gives it the new time and payload. With an `id` that exists, the same fields are answered with
    the job, others are refused. Give an `id` or an `Idempotency-Key`, not both.
    """
    request.query()
    body = await request.body()
    key = idempotency_key(request)
    try:
        fields = _read_any(body) if body else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise unreadable(body, problem) from None
    new = new_job(fields, service.clock.now(), key and derived_id(key))
    return await store(service, request, new, key)


async def store(service: Service, request: Request, new: NewJob, key: str | None) -> Answer:
    """Store a job and tell what became of it."""
    try:
        existing = await service.acue.insert(new)
    except IdTaken:
        if key is None:
            raise
        raise key_reused() from None
    if existing is None:
        return _created(request, 201, wire.Job.of_new(new))
    repeated = key is not None and existing.id == new.id
    return _created(request, 201 if repeated else 200, written(wire.Job, existing))


def _created(request: Request, status: int, job: wire.Job) -> Answer:
    request.job_id = job.id
    return Answer(status, _write(job), headers={"location": f"/jobs/{job.id}"})


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
    """What makes repeating a request harmless, if the client sent it."""
    key = request.header(b"idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= KEY_LENGTH or not key.isascii() or not key.isprintable():
        raise Problem(
            "malformed", f"An Idempotency-Key is 1 to {KEY_LENGTH} printable ASCII characters."
        )
    return key


def derived_id(key: str, line: int = 0) -> str:
    """The id of the job that this key (and line of a batch) stands for."""
    return "i" + hashlib.blake2b(f"{line}\n{key}".encode(), digest_size=20).hexdigest()


def key_reused() -> Problem:
    return Problem(
        "idempotency-key-reused",
        "This Idempotency-Key was sent before with other fields. Use a new key for a new job.",
        errors=[FieldProblem("", "not the fields that this key was first sent with.")],
    )


# -- looking ---------------------------------------------------------------------------------------


@routes.add(
    "GET /jobs/{id}",
    Scope.READ,
    {
        200: Answered(
            "The job.",
            wire.JobWithHistory,
            {**JOB, **STANDING, "attempt": 1, "error": "timed out", **HISTORY},
        )
    },
    problems=(404,),
)
async def get_job(service: Service, request: Request) -> Answer:
    """Look at a job and what happened to it.

    With its operations, diagnostics and attempts; of many, the first and the last 50.
    """
    request.query()
    [request.job_id] = [job_id] = request.parameters
    cue = service.cue

    def read() -> wire.JobWithHistory:
        return wire.JobWithHistory.of(cue.job(job_id), cue.history(job_id))

    return json_answer(await service.read(read))


@routes.add(
    "GET /jobs",
    Scope.READ,
    {200: Answered("A page.", wire.Jobs, {"items": [JOB | STANDING], "next_cursor": None})},
    parameters=(*FILTER_PARAMETERS, LIMIT_PARAMETER, CURSOR_PARAMETER),
)
async def list_jobs(service: Service, request: Request) -> Answer:
    """List jobs by due time.

    Ordered by due time, then id. Filters narrow it down together.
    """
    query = request.query((*FILTERS, "limit", "cursor"))
    limit, after = paging(query)
    wanted = job_filter(query)

    def read() -> Answer:
        page = service.cue.page(wanted, after, limit)
        items = [written(wire.StandingJob, job) for job in page.items]
        return json_answer(wire.Jobs(items, cursor(page.next)))

    return await service.read(read)


def job_filter(query: dict[str, str]) -> JobFilter:
    """Which jobs a query asks for."""
    try:
        state = State(query["state"]) if "state" in query else None
    except ValueError:
        raise invalid(f"must be one of {', '.join(State)}.", "?state") from None
    queue = query.get("queue")
    return JobFilter(
        None if queue is None else check_queue_name(queue, "?queue"),
        state,
        intake.label(query.get("owner"), "?owner"),
        intake.label(query.get("key"), "?key"),
        moment_of(query, "due_after"),
        moment_of(query, "due_before"),
    )


@routes.add(
    "GET /jobs/{id}/explain",
    Scope.READ,
    {
        200: Answered(
            "Why.",
            wire.Explanation,
            {
                "reason": "not_due",
                "sentence": "It is not due before 2026-12-01T12:00:00.000Z, in 2 h.",
                "facts": {"due_at": NOON, "due_in_seconds": 7200.0, "paused": False},
            },
        )
    },
    problems=(404,),
)
async def explain_job(service: Service, request: Request) -> Answer:
    """Why a job is where it is.

    A reason for programs, a sentence for people, and the facts behind them.
    """
    request.query()
    [request.job_id] = request.parameters
    found = await service.read(service.cue.explain, request.job_id)
    return json_answer(written(wire.Explanation, found))


# -- changing --------------------------------------------------------------------------------------


@routes.add(
    "PATCH /jobs/{id}",
    Scope.WRITE,
    {200: Answered("The job as it is now.", wire.Job, JOB)},
    json(wire.Patch, {"due_at": NOON, "priority": 5}),
    problems=(404, 409),
)
async def amend_job(service: Service, request: Request) -> Answer:
    """Give a job another time or payload.

    Only while it is scheduled.
    """
    request.query()
    body = decoded(await request.body(), _patch)
    [request.job_id] = request.parameters
    changes: dict[str, Any] = {"at": body.due_at, "delay": body.delay, "priority": body.priority}
    if body.payload is not msgspec.UNSET:
        changes["payload"] = body.payload
    try:
        job = await service.acue.write(service.cue.reschedule, request.job_id, **changes)
    except InvalidInput as problem:
        pointer = "/due_at" if problem.pointer == "/at" else problem.pointer
        raise type(problem)(problem.detail, pointer) from None
    return json_answer(written(wire.Job, job))


@routes.add(
    "DELETE /jobs/{id}",
    Scope.WRITE,
    {
        200: Answered("Cancelled.", wire.Job, JOB | {"state": "cancelled"}),
        202: Answered(
            "Its worker is asked to stop.",
            wire.Job,
            JOB | {"state": "executing", "attempt": 1, "cancel_requested": True},
        ),
    },
    parameters=(_RUNNING,),
    problems=(404, 409),
)
async def cancel_job(service: Service, request: Request) -> Answer:
    """Cancel a job.

    A scheduled job ends cancelled and is not handed over. A taken one can only be asked to stop,
    with `running=true`: its worker learns it by its next heartbeat. The job itself stays until its
    queue's retention is over.
    """
    query = request.query(("running",))
    running = query.get("running", "false")
    if running not in ("true", "false"):
        raise invalid("must be true or false.", "?running")
    [request.job_id] = request.parameters
    job = await service.acue.write(service.cue.cancel, request.job_id, running=running == "true")
    return json_answer(written(wire.Job, job), 200 if job.state is State.CANCELLED else 202)


@routes.add(
    "POST /jobs/{id}/run",
    Scope.WRITE,
    {200: Answered("The job, due now.", wire.Job, JOB)},
    json(formats.Nothing, {}),
    problems=(404, 409),
)
async def run_job(service: Service, request: Request) -> Answer:
    """Make a job due now.

    Only while it is scheduled. What is due already keeps its place in the line.
    """
    await no_body(request)
    [request.job_id] = request.parameters
    job = await service.acue.write(service.cue.run, request.job_id)
    return json_answer(written(wire.Job, job))


@routes.add(
    "POST /jobs/{id}/retry",
    Scope.WRITE,
    {200: Answered("The job, due now.", wire.Job, JOB)},
    json(formats.Nothing, {}),
    problems=(404, 409),
)
async def retry_job(service: Service, request: Request) -> Answer:
    """Make a finished job due again.

    For a failed or cancelled job. Its operations are kept, and it gets its attempts anew.
    """
    await no_body(request)
    [request.job_id] = request.parameters
    job = await service.acue.write(service.cue.retry, request.job_id)
    return json_answer(written(wire.Job, job))
