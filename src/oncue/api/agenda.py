"""Reclaim runs, and jobs as AgendaProgress: for reclaimers made for other systems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from oncue import agenda
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.api.unreadable import unreadable
from oncue.core.access import Scope
from oncue.core.errors import Conflict
from oncue.core.moment import parse
from oncue.reclaiming import started
from oncue.wire.agenda import AgendaProgress, AgendaProgressWrite
from oncue.wire.reclaim import ReclaimReport, parameters

if TYPE_CHECKING:
    from oncue.api.service import Service

_read_any = msgspec.json.Decoder().decode


_write = msgspec.json.Decoder(AgendaProgressWrite)


async def reclaim(service: Service, request: Request) -> Answer:
    """Step by step, so that a run of minutes holds no thread, and ends when the server does."""
    request.query()
    body = await request.body()
    try:
        members = _read_any(body) if body else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as problem:
        raise unreadable(body, problem) from None
    run = started(service.cue, parameters(members))
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


def _answer(told: AgendaProgress) -> Answer:
    return json_answer(told, etag=agenda.etag(told))


OPERATIONS = [
    Operation("POST", "/reclaim", reclaim, Scope.ADMIN, "Reclaim what was silent too long"),
    Operation("GET", "/agenda-progress/{id}", show, Scope.READ, "A job as an AgendaProgress"),
    Operation("PUT", "/agenda-progress/{id}", change, Scope.ADMIN, "Fail, retry or complete it"),
]
