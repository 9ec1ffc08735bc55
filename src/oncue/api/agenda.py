"""Reclaim runs, and jobs as AgendaProgress: for reclaimers made for other systems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from oncue import agenda, reclaimwire
from oncue.agenda import EVENTS_AT_ONCE as EVENTS
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.api.unreadable import unreadable
from oncue.core import reclaim as bounds
from oncue.core.access import Scope
from oncue.core.errors import Conflict
from oncue.core.job import DIAGNOSTICS_KEPT
from oncue.core.moment import parse
from oncue.core.text import TEXT_LIMIT
from oncue.reclaiming import started
from oncue.wire.formats import MOMENT_PATTERN, NO_NUL, AnyJobId, Body, Line, Time, said

if TYPE_CHECKING:
    from oncue.api.service import Service

_read_any = msgspec.json.Decoder().decode


class ReclaimParameters(Body):
    """Parameters of a reclaim run; of a repeated one the last counts. Those about a table are for
    tables of others, and ignored here."""

    maximumExecutionSeconds: Annotated[
        float,
        said(
            "A soft end. 0: look, and reclaim nothing.",
            minimum=0,
            maximum=bounds.LONGEST_RUN_SECONDS,
        ),
    ] = 60
    reclaimAgeMinutes: Annotated[
        float,
        said(
            "How long a claim must have been silent. 0: since the run began.",
            minimum=0,
            maximum=bounds.OLDEST_MINUTES,
        ),
    ] = 0
    scanDelayMillis: Annotated[
        int, said("The pause between pages.", minimum=0, maximum=bounds.LONGEST_DELAY_MILLIS)
    ] = 0
    targetBatchSize: Annotated[
        int,
        said(
            "How many are gathered before any is reclaimed.", minimum=1, maximum=bounds.LARGEST_PAGE
        ),
    ] = 50
    objectScanLimit: Annotated[
        int, said("How many are looked at in a page.", minimum=1, maximum=bounds.LARGEST_PAGE)
    ] = 50
    logReclaimOnly: Annotated[bool, said("Decide and tell, and write nothing.")] = False
    mode: Annotated[
        Literal["retry", "fail"], said("`fail`: not tried again, whatever attempts remain.")
    ] = "retry"
    tableName: str | None = None
    idFieldName: str | None = None
    timeFieldName: str | None = None
    agendaProgressEndpointURL: str | None = None


class WouldReclaim(Struct):
    """A claim that would be reclaimed, and why."""

    id: str
    queue: str
    state: Literal["dispatched", "executing"]
    attempt: int
    worker: str | None
    updatedTime: Time
    ageSeconds: float
    decision: Literal["retry", "fail", "cancel"]
    code: str
    why: str


class ReclaimReport(Struct):
    """What a run did; `reclaimed` is the sum of the three below it."""

    scanned: int
    reclaimed: int
    retried: int
    failed: int
    cancelled: int
    lostRaces: Annotated[int, said("Moved on before they were written to; left alone.")]
    anomalies: Annotated[int, said("Last updated in the future; left alone.")]
    warnings: list[str]
    endedBy: Literal["end", "time"]
    wouldReclaim: Annotated[
        list[WouldReclaim] | UnsetType, said("With `logReclaimOnly`, the first 1,000.")
    ] = UNSET
    wouldReclaimCount: int | UnsetType = UNSET


Seen = (
    Annotated[
        str,
        said("As it was told; or send `If-Match`.", format="date-time", pattern=MOMENT_PATTERN),
    ]
    | Annotated[int, said("Milliseconds since 1970 will do, too.")]
)
Event = Annotated[
    dict[str, Any],
    said(
        "Those that are new are kept.",
        required=["message"],
        properties={
            "message": {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT, **NO_NUL},
            "code": {"type": "string", "pattern": "^[a-z_]{1,40}$"},
        },
        additionalProperties={"$ref": "#/components/schemas/Json"},
    ),
]


class AgendaProgressWrite(Body):
    """What the job is to become. Members that are the server's to say are read over."""

    processingState: Literal["WAITING", "EXECUTING", "COMPLETE"]
    processingStateMessage: (
        Annotated[Line, said("With COMPLETE: `succeeded` or `failed`.")] | None
    ) = None
    updatedTime: Seen | None = None
    diagnosticEvents: Annotated[list[Event], Meta(max_length=2 * DIAGNOSTICS_KEPT + EVENTS)] = (
        field(default_factory=list)
    )
    id: AnyJobId | None = None
    attemptsCompleted: Any = None
    maximumAttempts: Any = None
    operationProgress: Any = None


class OperationProgress(Struct):
    """One step of the job."""

    name: str
    processingState: Literal["EXECUTING", "COMPLETE"]
    processingStateMessage: str | None
    percent: float | None
    message: str | None
    result: Any
    updatedTime: Time


class DiagnosticEvent(Struct):
    """A recorded fact."""

    time: Time
    code: str
    message: str
    attempt: int
    details: dict[str, Any]


class AgendaProgress(Struct):
    """A job, as reclaimers made for other systems see it."""

    id: str
    processingState: Literal["WAITING", "DEQUEUED", "EXECUTING", "COMPLETE"]
    processingStateMessage: str | None
    updatedTime: Time
    attemptsCompleted: int
    maximumAttempts: int
    operationProgress: list[OperationProgress]
    diagnosticEvents: list[DiagnosticEvent]


RULES: dict[type[Struct], dict[str, Any]] = {
    AgendaProgressWrite: {
        "if": {"properties": {"processingState": {"const": "COMPLETE"}}},
        "then": {
            "required": ["processingStateMessage"],
            "properties": {"processingStateMessage": {"enum": ["succeeded", "failed"]}},
        },
    }
}
"""What members must be together, in words of JSON Schema."""
_write = msgspec.json.Decoder(AgendaProgressWrite)


async def reclaim(service: Service, request: Request) -> Answer:
    """Step by step, so that a run of minutes holds no thread, and ends when the server does."""
    request.query()
    body = await request.body()
    try:
        members = _read_any(body) if body else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise unreadable(body, problem) from None
    run = started(service.cue, reclaimwire.parameters(members))
    while (rest := await service.acue.call(run.step)) is not None:
        if await _is_ending(service, rest):
            run.stop()
            break
    return json_answer(reclaimwire.report_members(run.report))


async def _is_ending(service: Service, seconds: float) -> bool:
    """Whether the server is told to stop within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await service.ending.wait()
    except TimeoutError:
        return service.ending.is_set()
    return True


async def show(service: Service, request: Request) -> Answer:
    request.query()
    [request.job_id] = request.parameters
    return _answer(await service.read(agenda.read, service.cue, request.job_id))


async def change(service: Service, request: Request) -> Answer:
    request.query()
    [request.job_id] = request.parameters
    job_id = request.job_id
    wanted = _wanted(decoded(await request.body(), _write), job_id, request)
    return _answer(await service.acue.write(agenda.write, service.cue, job_id, wanted))


def _wanted(body: AgendaProgressWrite, job_id: str, request: Request) -> agenda.Write:
    if body.id not in (None, job_id):
        raise Conflict(f"what was seen is job {body.id}, and this is job {job_id}.")
    over = body.processingState == "COMPLETE"
    if over and body.processingStateMessage not in ("succeeded", "failed"):
        raise invalid("must be 'succeeded' or 'failed'.", "/processingStateMessage")
    matches, seen = request.header(b"if-match"), body.updatedTime
    return agenda.Write(
        body.processingState,
        body.processingStateMessage,
        parse(seen, "/updatedTime") if isinstance(seen, str) else seen,
        body.diagnosticEvents,
        None if matches is None else [one.strip() for one in matches.split(",")],
    )


def _answer(told: dict[str, Any]) -> Answer:
    return json_answer(told, etag=agenda.etag(told))


OPERATIONS = [
    Operation("POST", "/reclaim", reclaim, Scope.ADMIN, "Reclaim what was silent too long"),
    Operation("GET", "/agenda-progress/{id}", show, Scope.READ, "A job as an AgendaProgress"),
    Operation("PUT", "/agenda-progress/{id}", change, Scope.ADMIN, "Fail, retry or complete it"),
]
