"""Queues over HTTP: settings, counts, pausing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.jobs import limit_of, moment_of, no_body
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.duration import seconds
from oncue.core.queue import Queue, check_queue_name
from oncue.intake import LONGEST_SECONDS
from oncue.wire import queues as wire

if TYPE_CHECKING:
    from oncue.api.service import Service

HOUR_MS = 3_600_000
MOST_STEPS = 100_000

_settings = msgspec.json.Decoder(wire.QueueSettings)


async def listing(service: Service, request: Request) -> Answer:
    """By name; the cursor is the last name of the page before."""
    query = request.query(("limit", "cursor"))
    limit, after = limit_of(query), query.get("cursor")
    if after is not None:
        check_queue_name(after, "?cursor")

    def read() -> wire.Queues:
        known = sorted(service.cue.queues(), key=lambda queue: queue.name)
        left = [queue for queue in known if after is None or queue.name > after]
        items = [_written(service, queue) for queue in left[:limit]]
        return wire.Queues(items, items[-1].name if left[limit:] else None)

    return json_answer(await service.read(read))


async def show(service: Service, request: Request) -> Answer:
    request.query()
    return await _answer(service, check_queue_name(request.parameters[0], "/queue"))


async def replace(service: Service, request: Request) -> Answer:
    request.query()
    name = check_queue_name(request.parameters[0], "/queue")
    body = decoded(await request.body(), _settings)
    settings = msgspec.structs.asdict(body)
    settings["retry"] = msgspec.structs.asdict(body.retry or wire.Retry())
    for setting in ("lease_seconds", "timeout_seconds", "retention_seconds"):
        if settings[setting] is not None:
            settings[setting] = seconds(settings[setting], f"/{setting}")

    def put() -> None:
        service.cue.set_queue(name, **settings)

    await service.acue.write(put)
    return await _answer(service, name)


async def delete(service: Service, request: Request) -> Answer:
    request.query()
    name = check_queue_name(request.parameters[0], "/queue")
    await service.change(service.cue.delete_queue, name)
    return Answer(204, b"")


async def pause(service: Service, request: Request) -> Answer:
    return await _set_paused(service, request, service.cue.pause)


async def resume(service: Service, request: Request) -> Answer:
    return await _set_paused(service, request, service.cue.resume)


async def _set_paused(service: Service, request: Request, change: Any) -> Answer:
    await no_body(request)
    name = check_queue_name(request.parameters[0], "/queue")
    await service.acue.write(change, name)
    return await _answer(service, name)


async def due_counts(service: Service, request: Request) -> Answer:
    """From now on for an hour, a minute at a time, unless told otherwise."""
    query = request.query(("from", "until", "step_seconds"))
    name = check_queue_name(request.parameters[0], "/queue")
    since = moment_of(query, "from")
    since = service.clock.now() if since is None else since
    until = moment_of(query, "until")
    until = since + HOUR_MS if until is None else until
    step_ms = _step_ms(query.get("step_seconds", "60"))
    if until <= since:
        raise invalid("must be later than 'from'.", "?until")
    if (until - since) / step_ms > MOST_STEPS:
        raise invalid(f"too short: at most {MOST_STEPS:,} steps are counted.", "?step_seconds")
    found = await service.read(service.cue.due_counts, name, since, until, step_ms)
    items = [wire.DueCount(moment.render(at), count) for at, count in sorted(found.items())]
    return json_answer(wire.DueCounts(items))


def _step_ms(text: str) -> int:
    try:
        step = seconds(float(text), "?step_seconds")
    except ValueError:
        raise invalid("must be a number of seconds.", "?step_seconds") from None
    if not 0.001 <= step <= LONGEST_SECONDS:
        raise invalid(f"must be from 0.001 to {LONGEST_SECONDS:,.0f}.", "?step_seconds")
    return round(step * 1000)


async def _answer(service: Service, name: str) -> Answer:
    def read() -> wire.Queue:
        return _written(service, service.cue.queue(name))

    return json_answer(await service.read(read))


def _written(service: Service, queue: Queue) -> wire.Queue:
    return wire.Queue.of(queue, service.cue.stats(queue.name))


OPERATIONS = [
    Operation("GET", "/queues", listing, Scope.READ, "List queues"),
    Operation("GET", "/queues/{queue}", show, Scope.READ, "Look at a queue"),
    Operation(
        "GET",
        "/queues/{queue}/due-counts",
        due_counts,
        Scope.READ,
        "How many jobs are due when",
    ),
    Operation("PUT", "/queues/{queue}", replace, Scope.ADMIN, "Replace a queue's settings"),
    Operation("DELETE", "/queues/{queue}", delete, Scope.ADMIN, "Delete a queue"),
    Operation("POST", "/queues/{queue}/pause", pause, Scope.ADMIN, "Hand nothing over"),
    Operation("POST", "/queues/{queue}/resume", resume, Scope.ADMIN, "Hand over again"),
]
