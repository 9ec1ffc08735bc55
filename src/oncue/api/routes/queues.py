"""Queues over HTTP: settings, counts, pausing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.paging import PAGE, limit_of, moment_of, name_after
from oncue.api.problems import invalid
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.duration import seconds
from oncue.usecases.intake import LONGEST_SECONDS
from oncue.wire import queues as wire
from oncue.wire.formats import Nothing

if TYPE_CHECKING:
    from oncue.api.app import Service

HOUR_MS = 3_600_000
MOST_STEPS = 100_000

routes = Routes("Queues")


@routes.add("GET /queues", Scope.READ, wire.Queues, query=PAGE)
async def list_queues(service: Service, request: Request) -> HttpAnswer:
    """List queues.

    Queues that were set, and queues that have jobs, in the order of their names.
    """
    limit, after = limit_of(request.query), name_after(request.query)

    def read() -> wire.Queues:
        left = [queue for queue in service.cue.queues() if after is None or queue.name > after]
        items = [wire.Queue.of(queue, service.cue.stats(queue.name)) for queue in left[:limit]]
        return wire.Queues(items, items[-1].name if left[limit:] else None)

    return json_answer(await service.read(read))


@routes.add("GET /queues/{queue}", Scope.READ, wire.Queue)
async def get_queue(service: Service, request: Request) -> HttpAnswer:
    """Look at a queue.

    A queue that was never set has the default settings: queues need not be created.
    """
    return await _answer(service, request.subject)


@routes.add("PUT /queues/{queue}", Scope.ADMIN, wire.Queue, wire.QueueSettings)
async def replace_queue(service: Service, request: Request) -> HttpAnswer:
    """Replace a queue's settings.

    Replaces all settings, except whether it is paused. `completion` is `delivery` for queues with a
    sink and `worker` for others, unless given. `rate_per_second` and `concurrency` hold for all
    workers and dispatchers together.
    """
    body = await request.decoded(wire.QueueSettings)
    settings = msgspec.structs.asdict(body)
    settings["retry"] = msgspec.structs.asdict(body.retry or wire.Retry())
    for setting in ("lease_seconds", "timeout_seconds", "retention_seconds"):
        if settings[setting] is not None:
            settings[setting] = seconds(settings[setting], f"/{setting}")
    await service.acue.write(service.cue.set_queue, request.subject, **settings)
    return await _answer(service, request.subject)


@routes.add("DELETE /queues/{queue}", Scope.ADMIN, {204: None}, problems=(404, 409))
async def delete_queue(service: Service, request: Request) -> HttpAnswer:
    """Delete a queue.

    Its settings and its finished jobs go with it. Refused while it has unfinished jobs, while a
    schedule or a rule makes jobs for it, and if it is built in; the detail says which. The name may
    be used again, with default settings. Very many finished jobs take a while: they are removed in
    parts, and a job that arrives meanwhile stops it.
    """
    await service.change(service.cue.delete_queue, request.subject)
    return HttpAnswer(204, b"")


@routes.add("POST /queues/{queue}/pause", Scope.ADMIN, wire.Queue, Nothing)
async def pause_queue(service: Service, request: Request) -> HttpAnswer:
    """Pause a queue.

    Nothing is claimed or delivered while it is paused; due jobs wait. Jobs that were taken before
    go on.
    """
    return await _set_paused(service, request, service.cue.pause)


@routes.add("POST /queues/{queue}/resume", Scope.ADMIN, wire.Queue, Nothing)
async def resume_queue(service: Service, request: Request) -> HttpAnswer:
    """Resume a queue.

    Jobs that have become due meanwhile are handed over at once.
    """
    return await _set_paused(service, request, service.cue.resume)


async def _set_paused(service: Service, request: Request, change: Any) -> HttpAnswer:
    await request.decoded(Nothing)
    await service.acue.write(change, request.subject)
    return await _answer(service, request.subject)


@routes.add(
    "GET /queues/{queue}/due-counts",
    Scope.READ,
    wire.DueCounts,
    query=("from", "until", "step_seconds"),
    problems=(501,),
)
async def count_due(service: Service, request: Request) -> HttpAnswer:
    """Count the jobs that will be due.

    How many scheduled jobs are due in each step from `from` up to `until`: at most 100,000 steps.
    Overdue jobs are counted at their due time, in the past.
    """
    since = moment_of(request.query, "from")
    since = service.clock.now() if since is None else since
    until = moment_of(request.query, "until")
    until = since + HOUR_MS if until is None else until
    step_ms = _step_ms(request.query.get("step_seconds", "60"))
    if until <= since:
        raise invalid("must be later than 'from'.", "?until")
    if (until - since) / step_ms > MOST_STEPS:
        raise invalid(f"too short: at most {MOST_STEPS:,} steps are counted.", "?step_seconds")
    found = await service.read(service.cue.due_counts, request.subject, since, until, step_ms)
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


async def _answer(service: Service, name: str) -> HttpAnswer:
    def read() -> wire.Queue:
        return wire.Queue.of(service.cue.queue(name), service.cue.stats(name))

    return json_answer(await service.read(read))
