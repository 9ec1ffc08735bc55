"""Schedules over HTTP: what comes again and again, what is coming, what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from oncue import schedules
from oncue.api.jobs import limit_of, no_body
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.core.access import Scope
from oncue.core.queue import check_queue_name
from oncue.core.schedule import Schedule
from oncue.schedules import RUNS_LIMIT
from oncue.wire import schedules as wire
from oncue.wire.converting import written
from oncue.wire.schedules import ScheduleSettings

if TYPE_CHECKING:
    from oncue.api.service import Service

COUNT = 20

_settings = msgspec.json.Decoder(ScheduleSettings)


async def listing(service: Service, request: Request) -> Answer:
    """By name; the cursor is the last name of the page before."""
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


async def show(service: Service, request: Request) -> Answer:
    request.query()
    found = await service.read(service.cue.schedule_named, request.parameters[0])
    return json_answer(wire.Schedule.of(found))


async def put(service: Service, request: Request) -> Answer:
    request.query()
    [name] = request.parameters
    members = _members(decoded(await request.body(), _settings))
    paused = members.pop("paused")
    # Not together with the writes of others: making first what is due may take several commits.
    stored, is_new = await service.acue.call(
        schedules.put, service.cue.engine.recurrer, name, members, paused
    )
    place = {"location": f"/schedules/{name}"} if is_new else {}
    return json_answer(wire.Schedule.of(stored), 201 if is_new else 200, **place)


async def delete(service: Service, request: Request) -> Answer:
    request.query()
    await service.acue.call(service.cue.delete_schedule, request.parameters[0])
    return Answer(204, b"")


async def pause(service: Service, request: Request) -> Answer:
    return await _changed(service, request, service.cue.pause_schedule)


async def resume(service: Service, request: Request) -> Answer:
    return await _changed(service, request, service.cue.resume_schedule)


async def _changed(service: Service, request: Request, change: Callable[[str], Schedule]) -> Answer:
    await no_body(request)
    return json_answer(wire.Schedule.of(await service.acue.call(change, request.parameters[0])))


async def coming(service: Service, request: Request) -> Answer:
    count = _count(request)
    runs = await service.read(service.cue.next_runs, request.parameters[0], count)
    return json_answer(wire.Runs(items=[wire.Run.of(run) for run in runs], next_cursor=None))


async def preview(service: Service, request: Request) -> Answer:
    count = _count(request)
    [name] = request.parameters
    members = _members(decoded(await request.body(), _settings))
    del members["paused"]  # the coming runs are told as if it were not
    found = await service.read(service.cue.preview_schedule, name, count=count, **members)
    return json_answer(written(wire.RunChanges, found))


async def outcomes(service: Service, request: Request) -> Answer:
    request.query()
    found = await service.read(service.cue.schedule_outcomes, request.parameters[0])
    items = [written(wire.Outcome, one) for one in found]
    return json_answer(wire.Outcomes(items=items, next_cursor=None))


def _members(body: ScheduleSettings) -> dict[str, Any]:
    """The settings as `put_schedule` takes them."""
    emits = None if body.emits is None else msgspec.to_builtins(body.emits)
    return msgspec.structs.asdict(body) | {"emits": emits}


def _count(request: Request) -> int:
    text = request.query(("count",)).get("count", str(COUNT))
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and 0 < int(text) <= RUNS_LIMIT):
        raise invalid(f"must be a whole number from 1 to {RUNS_LIMIT:,}.", "?count")
    return int(text)


_ONE = "/schedules/{schedule}"
OPERATIONS = [
    Operation("GET", "/schedules", listing, Scope.READ, "List schedules by name"),
    Operation("GET", _ONE, show, Scope.READ, "Look at a schedule"),
    Operation("PUT", _ONE, put, Scope.ADMIN, "Create or replace a schedule"),
    Operation("DELETE", _ONE, delete, Scope.ADMIN, "Forget a schedule"),
    Operation("GET", f"{_ONE}/next", coming, Scope.READ, "The coming runs"),
    Operation("POST", f"{_ONE}/preview", preview, Scope.READ, "What other settings would change"),
    Operation("GET", f"{_ONE}/outcomes", outcomes, Scope.READ, "What became of occurrences"),
    Operation("POST", f"{_ONE}/pause", pause, Scope.ADMIN, "Let nothing happen"),
    Operation("POST", f"{_ONE}/resume", resume, Scope.ADMIN, "Go on with the next occurrence"),
]
