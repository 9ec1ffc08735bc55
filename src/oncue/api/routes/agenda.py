"""Reclaim runs, and jobs as AgendaProgress: for reclaimers made for other systems."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from oncue.api.problems import invalid
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Answered, Routes
from oncue.core.access import Scope
from oncue.core.errors import Conflict
from oncue.core.moment import parse
from oncue.core.text import quoted
from oncue.usecases import agenda
from oncue.usecases.reclaim import started
from oncue.wire.agenda import OUTCOMES_WRITTEN, STATES_WRITTEN, AgendaProgress, AgendaProgressWrite
from oncue.wire.reclaim import ReclaimParameters, ReclaimReport, parameters

if TYPE_CHECKING:
    from oncue.api.app import Service

routes = Routes("Reclaiming")


@routes.add("POST /reclaim", Scope.ADMIN, ReclaimReport, ReclaimParameters)
async def reclaim(service: Service, request: Request) -> HttpAnswer:
    """Reclaim jobs whose worker sent no heartbeat for too long.

    Looks once through the claims that workers hold, and takes away those without a heartbeat for
    longer than `reclaimAgeMinutes`: the job is retried if attempts remain, else it fails.
    Leases and timeouts are checked all the time, without this request. The answer comes when the
    reclaim run is over; two runs at the same time do no harm.
    """
    # Step by step, so that a run of minutes holds no thread, and ends when the server does or the
    # time of the request is over.
    run = started(service.cue, parameters(await request.json()))
    while (rest := await service.acue.call(run.step)) is not None:
        if request.seconds_left(service.clock) <= rest or await _is_ending(service, rest):
            await service.acue.call(run.stop)
            break
    return json_answer(ReclaimReport.of(run.report))


async def _is_ending(service: Service, seconds: float) -> bool:
    """Whether the server is told to stop within so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await service.ending.wait()
    return service.ending.is_set()


@routes.add(
    "GET /agenda-progress/{id}",
    Scope.READ,
    Answered(AgendaProgress, headers=("ETag",)),
    problems=(404,),
)
async def get_agenda_progress(service: Service, request: Request) -> HttpAnswer:
    """A job as an AgendaProgress.

    WAITING is scheduled, DEQUEUED dispatched, EXECUTING executing; COMPLETE has the message
    `succeeded` or `failed`, the latter for cancelled jobs as well.
    """
    return _answer(await service.read(agenda.read, service.cue, request.subject))


@routes.add(
    "PUT /agenda-progress/{id}",
    Scope.ADMIN,
    Answered(AgendaProgress, headers=("ETag",)),
    AgendaProgressWrite,
    headers=("If-Match",),
    problems=(404, 409),
)
async def put_agenda_progress(service: Service, request: Request) -> HttpAnswer:
    """Fail, retry or complete it.

    COMPLETE with `failed` fails the job, with `succeeded` completes it; WAITING retries it, if
    attempts remain; EXECUTING is a heartbeat. Only if the job is still as it was seen, else 409.
    Attempts and operations cannot be written. It ends claims of others, so it needs the scope
    `admin`.
    """
    job_id = request.subject
    wanted = _wanted(await request.decoded(AgendaProgressWrite), job_id, request)
    return _answer(await service.acue.write(agenda.write, service.cue, job_id, wanted))


def _wanted(body: AgendaProgressWrite, job_id: str, request: Request) -> agenda.AgendaWrite:
    if body.id not in (None, job_id):
        raise Conflict(
            f"the body is that of job {quoted(body.id)}, and the path names {quoted(job_id)}."
        )
    state, message = body.processingState.upper(), body.processingStateMessage
    if state not in STATES_WRITTEN:
        raise invalid(f"must be one of {', '.join(STATES_WRITTEN)}.", "/processingState")
    if state == "COMPLETE":
        message = (message or "").lower()
        if message not in OUTCOMES_WRITTEN:
            raise invalid("must be 'succeeded' or 'failed'.", "/processingStateMessage")
    matches, seen = request.header(b"if-match"), body.updatedTime
    return agenda.AgendaWrite(
        state,
        message,
        parse(seen, "/updatedTime") if isinstance(seen, str) else seen,
        body.diagnosticEvents,
        None if matches is None else [one.strip() for one in matches.split(",")],
    )


def _answer(progress: AgendaProgress) -> HttpAnswer:
    return json_answer(progress, etag=agenda.etag(progress))
