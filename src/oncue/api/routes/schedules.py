"""Recurring schedules over HTTP: their settings, coming runs and outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from oncue.api.docs.about import Answered, Parameter, json
from oncue.api.paging import limit_of, no_body
from oncue.api.problems import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Routes
from oncue.core.access import Scope
from oncue.core.queue import check_queue_name
from oncue.core.schedule import Schedule
from oncue.usecases import schedules
from oncue.usecases.schedules import RUNS_LIMIT
from oncue.wire import schedules as wire
from oncue.wire.converting import written
from oncue.wire.formats import Nothing, QueueName
from oncue.wire.schedules import ScheduleSettings

if TYPE_CHECKING:
    from oncue.api.app import Service

COUNT = 20

_settings = msgspec.json.Decoder(ScheduleSettings)

routes = Routes("Schedules")
_SENT = {
    "cron": "30 2 * * *",
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"report": "nightly"},
}
_SCHEDULE: dict[str, Any] = {
    "name": "nightly",
    **_SENT,
    "every_seconds": None,
    "owner": None,
    "emits": None,
    "catch_up": "once",
    "overlap": "allow",
    "paused": False,
    "anchor_at": None,
    "next_at": "2026-03-28T01:30:00.000Z",
    "last_at": None,
    "last_job_id": None,
    "created_at": "2026-03-27T12:00:00.000Z",
    "updated_at": "2026-03-27T12:00:00.000Z",
}
_RUN = {
    "at": "2026-03-28T01:30:00.000Z",
    "local": "2026-03-28T02:30:00.000+01:00",
    "mark": "normal",
    "note": None,
}
_IN_A_GAP = {
    "at": "2026-03-29T01:00:00.000Z",
    "local": "2026-03-29T03:00:00.000+02:00",
    "mark": "gap",
    "note": "02:30 does not exist on this day: at the end of the gap",
}
_OUTCOME = {
    "fate": "created",
    "at": "2026-03-28T01:30:00.000Z",
    "until": "2026-03-28T01:30:00.000Z",
    "count": 1,
    "job_id": "s019d33b5a0c0b3e1f0a2d4c6e8f00112233",
    "decided_at": "2026-03-28T01:29:45.000Z",
}
_COUNT = Parameter(
    "count",
    "How many; 20 if left out.",
    Annotated[int, Meta(ge=1, le=RUNS_LIMIT)],
    20,
)
_GONE = {204: Answered("It is gone.")}


def _one(text: str, **changes: Any) -> Answered:
    return Answered(text, wire.Schedule, _SCHEDULE | changes)


@routes.add(
    "GET /schedules",
    Scope.READ,
    {200: Answered("A page.", wire.Schedules, {"items": [_SCHEDULE], "next_cursor": None})},
    parameters=(
        Parameter("limit", "How many, at most.", Annotated[int, Meta(ge=1, le=500)], 50),
        Parameter("cursor", "The `next_cursor` of the page before.", QueueName, "nightly"),
    ),
)
async def list_schedules(service: Service, request: Request) -> Answer:
    """List schedules by name.

    All schedules by name.
    """
    # The cursor is the last name of the page before.
    query = request.query(("limit", "cursor"))
    limit, after = limit_of(query), query.get("cursor")
    if after is not None:
        check_queue_name(after, "?cursor")

    def read() -> wire.Schedules:
        store = service.cue.store
        items = [wire.Schedule.of(one) for one in store.schedules(after, limit)]
        last = items[-1].name if items else None  # a page may be short and have a next
        more = last is not None and store.schedules(last, 1)
        return wire.Schedules(items=items, next_cursor=last if more else None)

    return json_answer(await service.read(read))


@routes.add(
    "GET /schedules/{schedule}",
    Scope.READ,
    {200: _one("The schedule.")},
    problems=(404,),
)
async def get_schedule(service: Service, request: Request) -> Answer:
    """Look at a schedule.

    Its settings, the next occurrence, and the last one that became a job or an event.
    """
    request.query()
    found = await service.read(service.cue.schedule_named, request.parameters[0])
    return json_answer(wire.Schedule.of(found))


@routes.add(
    "PUT /schedules/{schedule}",
    Scope.ADMIN,
    {
        200: _one("The schedule, replaced."),
        201: _one("The schedule, new.")._replace(headers=("Location",)),
    },
    json(wire.ScheduleSettings, _SENT, required=True),
    problems=(409,),
)
async def put_schedule(service: Service, request: Request) -> Answer:
    """Create or replace a schedule.

    Every occurrence becomes one job, or one event if it `emits`, whatever the number of nodes.
    Replaces all settings; `paused` stays unless given. What is due stays: jobs that were made ahead
    of their time are taken away and made anew. The same settings again change nothing.
    """
    request.query()
    [name] = request.parameters
    fields = _fields(decoded(await request.body(), _settings))
    # Not together with the writes of others: making first what is due may take several commits.
    recurrer = service.cue.engine.recurrer
    stored, is_new = await service.acue.call(schedules.put, recurrer, name, fields)
    place = {"location": f"/schedules/{name}"} if is_new else {}
    return json_answer(wire.Schedule.of(stored), 201 if is_new else 200, **place)


@routes.add(
    "DELETE /schedules/{schedule}",
    Scope.ADMIN,
    _GONE,
    problems=(404, 409),
)
async def delete_schedule(service: Service, request: Request) -> Answer:
    """Forget a schedule.

    Its jobs that are due stay; those that were made ahead of their time are taken away.
    """
    request.query()
    await service.acue.call(service.cue.delete_schedule, request.parameters[0])
    return Answer(204, b"")


@routes.add(
    "POST /schedules/{schedule}/pause",
    Scope.ADMIN,
    {200: _one("The schedule, paused.", paused=True)},
    json(Nothing, {}),
    problems=(404, 409),
)
async def pause_schedule(service: Service, request: Request) -> Answer:
    """Let nothing happen.

    Nothing of it happens until it is resumed; jobs that are due stay.
    """
    return await _changed(service, request, service.cue.pause_schedule)


@routes.add(
    "POST /schedules/{schedule}/resume",
    Scope.ADMIN,
    {200: _one("The schedule, going on.")},
    json(Nothing, {}),
    problems=(404, 409),
)
async def resume_schedule(service: Service, request: Request) -> Answer:
    """Go on with the next occurrence.

    It goes on with the next occurrence; those during the pause are recorded as left out.
    """
    return await _changed(service, request, service.cue.resume_schedule)


async def _changed(service: Service, request: Request, change: Callable[[str], Schedule]) -> Answer:
    await no_body(request)
    return json_answer(wire.Schedule.of(await service.acue.call(change, request.parameters[0])))


@routes.add(
    "GET /schedules/{schedule}/next",
    Scope.READ,
    {
        200: Answered(
            "The coming runs.", wire.Runs, {"items": [_RUN, _IN_A_GAP], "next_cursor": None}
        )
    },
    parameters=(_COUNT,),
    problems=(404,),
)
async def next_runs(service: Service, request: Request) -> Answer:
    """The coming runs.

    In UTC and local time, with what gaps and overlaps of the local clock do to them. Of a paused
    schedule, as if it were resumed.
    """
    count = _count(request)
    runs = await service.read(service.cue.next_runs, request.parameters[0], count)
    return json_answer(wire.Runs(items=[wire.Run.of(run) for run in runs], next_cursor=None))


@routes.add(
    "POST /schedules/{schedule}/preview",
    Scope.READ,
    {
        200: Answered(
            "The difference.",
            wire.RunChanges,
            {"removed": [_RUN], "added": [], "kept": [_IN_A_GAP]},
        )
    },
    json(wire.ScheduleSettings, _SENT, required=True),
    parameters=(_COUNT,),
    problems=(404,),
)
async def preview_schedule(service: Service, request: Request) -> Answer:
    """What other settings would change.

    What putting these settings would change about the coming runs; nothing is changed. Of a
    schedule that does not exist, all runs are added.
    """
    count = _count(request)
    [name] = request.parameters
    fields = _fields(decoded(await request.body(), _settings))
    found = await service.read(service.cue.preview_schedule, name, count=count, **fields)
    return json_answer(written(wire.RunChanges, found))


@routes.add(
    "GET /schedules/{schedule}/outcomes",
    Scope.READ,
    {200: Answered("The outcomes.", wire.Outcomes, {"items": [_OUTCOME], "next_cursor": None})},
    problems=(404,),
)
async def list_outcomes(service: Service, request: Request) -> Answer:
    """What became of occurrences.

    What became of the last hundred occurrences: `created` or `emitted`; `missed` in an outage;
    `overlapped` by the job before; `paused`; `withdrawn` by a change before they were due.
    """
    request.query()
    found = await service.read(service.cue.schedule_outcomes, request.parameters[0])
    items = [written(wire.Outcome, one) for one in found]
    return json_answer(wire.Outcomes(items=items, next_cursor=None))


def _fields(body: ScheduleSettings) -> dict[str, Any]:
    """The settings as `put_schedule` takes them."""
    emits = None if body.emits is None else msgspec.to_builtins(body.emits)
    return msgspec.structs.asdict(body) | {"emits": emits}


def _count(request: Request) -> int:
    text = request.query(("count",)).get("count", str(COUNT))
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 0 < int(text) <= RUNS_LIMIT):
        raise invalid(f"must be a whole number from 1 to {RUNS_LIMIT:,}.", "?count")
    return int(text)


_ONE = "/schedules/{schedule}"
