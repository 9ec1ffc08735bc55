"""Recurring schedules over HTTP: their settings, coming runs and outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.paging import PAGE, limit_of, name_after, number_of
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Answered, Routes
from oncue.core.access import Scope
from oncue.core.schedule import Schedule
from oncue.usecases import schedules
from oncue.usecases.schedules import RUNS_LIMIT
from oncue.wire import schedules as wire
from oncue.wire.converting import written
from oncue.wire.formats import Nothing
from oncue.wire.schedules import ScheduleSettings

if TYPE_CHECKING:
    from oncue.api.app import Service

COUNT = 20

routes = Routes("Schedules")


@routes.add("GET /schedules", Scope.READ, wire.Schedules, query=PAGE)
async def list_schedules(service: Service, request: Request) -> HttpAnswer:
    """List schedules.

    In the order of their names.
    """
    limit, after = limit_of(request.query), name_after(request.query)

    def read() -> wire.Schedules:
        store = service.cue.store
        items = [wire.Schedule.of(one) for one in store.schedules(after, limit)]
        last = items[-1].name if items else None  # a page may be short and have a next
        more = last is not None and store.schedules(last, 1)
        return wire.Schedules(items=items, next_cursor=last if more else None)

    return json_answer(await service.read(read))


@routes.add("GET /schedules/{schedule}", Scope.READ, wire.Schedule, problems=(404,))
async def get_schedule(service: Service, request: Request) -> HttpAnswer:
    """Look at a schedule.

    Its settings, the next occurrence, and the last one that became a job or an event.
    """
    found = await service.read(service.cue.schedule_named, request.subject)
    return json_answer(wire.Schedule.of(found))


@routes.add(
    "PUT /schedules/{schedule}",
    Scope.ADMIN,
    {200: wire.Schedule, 201: Answered(wire.Schedule, headers=("Location",))},
    ScheduleSettings,
    problems=(409,),
)
async def put_schedule(service: Service, request: Request) -> HttpAnswer:
    """Create or replace a schedule.

    Every occurrence becomes one job, or one event if it `emits`, whatever the number of nodes.
    Replaces all settings; `paused` stays unless given. Due jobs stay; jobs that were made ahead of
    their time are removed and made again. The same settings again change nothing.
    """
    name = request.subject
    fields = _fields(await request.decoded(ScheduleSettings))
    # Not together with other writes: creating the jobs that are due may take several commits.
    stored, is_new = await service.acue.call(schedules.put, service.cue, name, fields)
    place = {"location": f"/schedules/{name}"} if is_new else {}
    return json_answer(wire.Schedule.of(stored), 201 if is_new else 200, **place)


@routes.add("DELETE /schedules/{schedule}", Scope.ADMIN, {204: None}, problems=(404, 409))
async def delete_schedule(service: Service, request: Request) -> HttpAnswer:
    """Delete a schedule.

    Its jobs that are due stay; jobs that were made ahead of their time are removed.
    """
    await service.acue.call(service.cue.delete_schedule, request.subject)
    return HttpAnswer(204, b"")


@routes.add(
    "POST /schedules/{schedule}/pause", Scope.ADMIN, wire.Schedule, Nothing, problems=(404, 409)
)
async def pause_schedule(service: Service, request: Request) -> HttpAnswer:
    """Pause a schedule.

    It creates nothing until it is resumed; jobs that are due stay.
    """
    return await _changed(service, request, service.cue.pause_schedule)


@routes.add(
    "POST /schedules/{schedule}/resume", Scope.ADMIN, wire.Schedule, Nothing, problems=(404, 409)
)
async def resume_schedule(service: Service, request: Request) -> HttpAnswer:
    """Resume a schedule.

    It continues with the next occurrence; those during the pause are recorded as left out.
    """
    return await _changed(service, request, service.cue.resume_schedule)


async def _changed(
    service: Service, request: Request, change: Callable[[str], Schedule]
) -> HttpAnswer:
    await request.decoded(Nothing)
    return json_answer(wire.Schedule.of(await service.acue.call(change, request.subject)))


@routes.add(
    "GET /schedules/{schedule}/next", Scope.READ, wire.Runs, query=("count",), problems=(404,)
)
async def next_runs(service: Service, request: Request) -> HttpAnswer:
    """The coming runs.

    In UTC and local time, with the effects of gaps and overlaps of the local clock. Of a paused
    schedule, as if it were resumed.
    """
    count = number_of(request.query, "count", COUNT, RUNS_LIMIT)
    runs = await service.read(service.cue.next_runs, request.subject, count)
    return json_answer(wire.Runs(items=[wire.Run.of(run) for run in runs], next_cursor=None))


@routes.add(
    "POST /schedules/{schedule}/preview",
    Scope.READ,
    wire.RunChanges,
    ScheduleSettings,
    query=("count",),
    problems=(404,),
)
async def preview_schedule(service: Service, request: Request) -> HttpAnswer:
    """Preview other settings.

    The runs that these settings would remove and add; nothing is changed. Of a schedule that does
    not exist, all runs are added.
    """
    count = number_of(request.query, "count", COUNT, RUNS_LIMIT)
    name = request.subject
    fields = _fields(await request.decoded(ScheduleSettings))
    found = await service.read(service.cue.preview_schedule, name, count=count, **fields)
    return json_answer(written(wire.RunChanges, found))


@routes.add("GET /schedules/{schedule}/outcomes", Scope.READ, wire.Outcomes, problems=(404,))
async def list_outcomes(service: Service, request: Request) -> HttpAnswer:
    """The outcomes of occurrences.

    Of the last hundred: `created` or `emitted`; `missed` in an outage; `overlapped` by the job
    before; `paused`; `withdrawn` by a change before they were due.
    """
    found = await service.read(service.cue.schedule_outcomes, request.subject)
    items = [written(wire.Outcome, one) for one in found]
    return json_answer(wire.Outcomes(items=items, next_cursor=None))


def _fields(body: ScheduleSettings) -> dict[str, Any]:
    """The settings as `put_schedule` takes them."""
    emits = None if body.emits is None else msgspec.to_builtins(body.emits)
    return msgspec.structs.asdict(body) | {"emits": emits}
