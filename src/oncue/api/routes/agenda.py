"""Reclaim runs, and jobs as AgendaProgress: for reclaimers made for other systems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from oncue.api.docs.about import Answered, Parameter, json
from oncue.api.docs.samples import ID
from oncue.api.problems import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Routes
from oncue.api.unreadable import unreadable
from oncue.core.access import Scope
from oncue.core.errors import Conflict
from oncue.core.moment import parse
from oncue.usecases import agenda
from oncue.usecases.reclaim import started
from oncue.wire.agenda import AgendaProgress, AgendaProgressWrite
from oncue.wire.reclaim import ReclaimParameters, ReclaimReport, parameters

if TYPE_CHECKING:
    from oncue.api.app import Service

_read_any = msgspec.json.Decoder().decode

routes = Routes("Reclaiming")
_EVENT = {
    "time": "2026-12-01T12:05:00.000Z",
    "code": "timeout_executing",
    "message": "Nothing was heard from the worker for 300 s. Due again at once.",
    "attempt": 1,
    "details": {"worker": "encoder-1", "age_seconds": 300.0, "decision": "reclaim"},
}
_PROGRESS = {
    "id": ID,
    "processingState": "EXECUTING",
    "processingStateMessage": "frame 1,200 of 5,000",
    "updatedTime": "2026-12-01T12:06:00.000Z",
    "attemptsCompleted": 1,
    "maximumAttempts": 3,
    "operationProgress": [
        {
            "name": "download",
            "processingState": "COMPLETE",
            "processingStateMessage": "succeeded",
            "percent": 100.0,
            "message": None,
            "result": {"bytes": 73_400_320},
            "updatedTime": "2026-12-01T12:01:00.000Z",
        }
    ],
    "diagnosticEvents": [_EVENT],
}
_REPORT = {
    "scanned": 3,
    "reclaimed": 2,
    "retried": 1,
    "failed": 1,
    "cancelled": 0,
    "lostRaces": 1,
    "anomalies": 0,
    "warnings": [],
    "endedBy": "end",
}
_IF_MATCH = Parameter(
    "If-Match",
    "The `ETag` of what was seen; or send its `updatedTime` in the body.",
    str,
    '"2f8a41d09c7be653a1f04d27"',
    "header",
)


_write = msgspec.json.Decoder(AgendaProgressWrite)


@routes.add(
    "POST /reclaim",
    Scope.ADMIN,
    {200: Answered("What it did.", ReclaimReport, _REPORT)},
    json(ReclaimParameters, {"reclaimAgeMinutes": 4320, "maximumExecutionSeconds": 120}),
)
async def reclaim(service: Service, request: Request) -> Answer:
    """Reclaim what was silent too long.

    Looks once through the claims that workers hold, and takes away those that were silent for
    longer than `reclaimAgeMinutes`: retried if attempts remain, else failed. Leases and timeouts
    are looked after all the time and need no run. The answer comes when the run is over; two runs
    at once do no harm.
    """
    # Step by step, so that a run of minutes holds no thread, and ends when the server does.
    request.query()
    body = await request.body()
    try:
        fields = _read_any(body) if body else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise unreadable(body, problem) from None
    run = started(service.cue, parameters(fields))
    while (rest := await service.acue.call(run.step)) is not None:
        if await _is_ending(service, rest):
            run.stop()
            break
    return json_answer(ReclaimReport.of(run.report))


async def _is_ending(service: Service, seconds: float) -> bool:
    """Whether the server is told to stop within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await service.ending.wait()
    except TimeoutError:
        return service.ending.is_set()
    return True


@routes.add(
    "GET /agenda-progress/{id}",
    Scope.READ,
    {200: Answered("The job.", AgendaProgress, _PROGRESS, headers=("ETag",))},
    problems=(404,),
)
async def get_agenda_progress(service: Service, request: Request) -> Answer:
    """A job as an AgendaProgress.

    WAITING is scheduled, DEQUEUED dispatched, EXECUTING executing; COMPLETE has the message
    `succeeded` or `failed`, the latter for cancelled jobs as well.
    """
    request.query()
    [request.job_id] = request.parameters
    return _answer(await service.read(agenda.read, service.cue, request.job_id))


@routes.add(
    "PUT /agenda-progress/{id}",
    Scope.ADMIN,
    {200: Answered("The job now.", AgendaProgress, _PROGRESS, headers=("ETag",))},
    json(
        AgendaProgressWrite,
        {
            "processingState": "COMPLETE",
            "processingStateMessage": "failed",
            "updatedTime": "2026-12-01T12:06:00.000Z",
            "diagnosticEvents": [{"message": "AgendaProgress timed out."}],
        },
        required=True,
    ),
    (_IF_MATCH,),
    problems=(404, 409),
)
async def put_agenda_progress(service: Service, request: Request) -> Answer:
    """Fail, retry or complete it.

    COMPLETE with `failed` fails the job, with `succeeded` completes it; WAITING retries it, if
    attempts remain; EXECUTING is a sign of life. Only if the job is still as it was seen, else 409.
    Attempts and operations are the server's to tell. It ends claims of others, so it takes the
    scope `admin`.
    """
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


def _answer(told: AgendaProgress) -> Answer:
    return json_answer(told, etag=agenda.etag(told))
