"""Bulk verbs over HTTP. A request does as much as it can in a few seconds; the cursor it answers
with goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.request import Gone, HttpAnswer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.bulk import FILTERS, BulkOrder, BulkOutcome, BulkVerb
from oncue.core.errors import InvalidInput
from oncue.core.queue import check_queue_name
from oncue.usecases import intake
from oncue.usecases.bulk import BulkVerbs, in_parts, order_of
from oncue.wire import jobs as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

SECONDS = 2.0  # after which a request begins nothing more
SHAPES: dict[BulkVerb, type[wire.Bulk]] = {
    BulkVerb.CANCEL: wire.BulkCancel,
    BulkVerb.RUN: wire.BulkRun,
    BulkVerb.RETRY: wire.BulkRetry,
    BulkVerb.MOVE: wire.BulkMove,
    BulkVerb.REPRIORITISE: wire.BulkReprioritise,
}

routes = Routes("Jobs")


def _add(verb: BulkVerb, shape: type[wire.Bulk]) -> None:
    """The route of a verb, described by the method that does the same in Python."""

    async def run(service: Service, request: Request) -> HttpAnswer:
        body = await request.decoded(shape)
        order = _order(verb, body, service.clock.now())
        outcome = await _carried_out(service, request, order)
        return json_answer(written(wire.BulkOutcome, outcome))

    run.__name__ = f"{verb}_jobs"
    run.__doc__ = f"""{verb.capitalize()} all jobs that fit.

    {getattr(BulkVerbs, f"{verb}_all").__doc__}

    A request works for a few seconds at most and leaves others time to write; send its
    `next_cursor` as `cursor`, with the same fields, until that is null. With `dry_run` it only
    counts. Without any filter, say `everything`.
    """
    routes.add(f"POST /jobs/{verb}", Scope.WRITE, wire.BulkOutcome, shape, problems=(501,))(run)


for verb, shape in SHAPES.items():
    _add(verb, shape)


async def _carried_out(service: Service, request: Request, order: BulkOrder) -> BulkOutcome:
    """Part by part, in turn with other requests. Ends with the part under way if the client leaves
    or the server is about to end."""
    parts = in_parts(service.cue, order)
    outcome = await service.change(next, parts)
    while outcome.next_cursor is not None and not service.ending.is_set():
        if request.has_left():
            raise Gone
        if await service.change(next, parts, None) is None:
            break
    return outcome


def _order(verb: BulkVerb, body: wire.Bulk, now: moment.Moment) -> BulkOrder:
    how = msgspec.structs.asdict(body)
    options: Any = {name: how.pop(name) for name in wire.Bulk.__struct_fields__}
    options |= msgspec.structs.asdict(options.pop("filter")) | {"seconds": SECONDS}
    for name in ("due_after", "due_before"):
        if (text := options[name]) is not None:
            options[name] = moment.to_datetime(moment.parse(text, f"/filter/{name}"))
    if "queue" in how:
        check_queue_name(how["queue"])
    if "priority" in how:
        intake.check_priority(how["priority"])
    try:
        return order_of(verb, options, now, **how)
    except InvalidInput as problem:
        within = "/filter" if problem.pointer[1:] in FILTERS else ""
        raise InvalidInput(problem.detail, within + problem.pointer) from None
