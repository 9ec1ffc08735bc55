"""Bulk verbs over HTTP. A request does as much as it can in a few seconds; the cursor it answers
with goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from oncue import intake
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation, Run
from oncue.bulk import carry_out
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.bulk import BulkChange, BulkCursor, BulkOrder, BulkVerb, check_order
from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.core.queue import check_queue_name
from oncue.wire import jobs as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.service import Service

SECONDS = 2.0  # after which a request begins nothing more

_DECODERS: dict[BulkVerb, msgspec.json.Decoder[Any]] = {
    BulkVerb.CANCEL: msgspec.json.Decoder(wire.BulkCancel),
    BulkVerb.RUN: msgspec.json.Decoder(wire.BulkRun),
    BulkVerb.RETRY: msgspec.json.Decoder(wire.BulkRetry),
    BulkVerb.MOVE: msgspec.json.Decoder(wire.BulkMove),
    BulkVerb.REPRIORITISE: msgspec.json.Decoder(wire.BulkReprioritise),
}


def _doing(verb: BulkVerb) -> Run:
    async def run(service: Service, request: Request) -> Answer:
        request.query()
        body = decoded(await request.body(), _DECODERS[verb])
        order = _order(verb, body, service.clock.now())
        outcome = await service.change(carry_out, service.cue.store, service.clock, order)
        return json_answer(written(wire.BulkOutcome, outcome))

    return run


def _order(verb: BulkVerb, body: Any, now: moment.Moment) -> BulkOrder:
    cursor = None if body.cursor is None else BulkCursor.read(body.cursor)
    how: dict[str, Any] = {}
    match verb:
        case BulkVerb.CANCEL:
            how["running"] = body.running
        case BulkVerb.MOVE:
            how["queue"] = check_queue_name(body.queue)
        case BulkVerb.REPRIORITISE:
            how["priority"] = intake.check_priority(body.priority)
    order = BulkOrder(
        BulkChange(verb, now if cursor is None else cursor.begun_at, **how),
        _filter(body.filter),
        body.dry_run,
        None if cursor is None else cursor.after,
        body.limit,
        SECONDS,
    )
    try:
        return check_order(order, everything=body.everything)
    except InvalidInput as problem:
        raise _inside(problem) from None


def _filter(sent: wire.Filter) -> JobFilter:
    after, before = (
        None if text is None else moment.to_datetime(moment.parse(text, f"/filter/{name}"))
        for name, text in (("due_after", sent.due_after), ("due_before", sent.due_before))
    )
    try:
        return intake.job_filter(sent.queue, sent.state, sent.owner, sent.key, after, before)
    except InvalidInput as problem:
        raise _inside(problem) from None


def _inside(problem: InvalidInput) -> InvalidInput:
    """The same problem, its place named as in the body."""
    within = problem.pointer if problem.pointer == "/filter" else f"/filter{problem.pointer}"
    return InvalidInput(problem.detail, within)


_SUMMARIES = {
    BulkVerb.CANCEL: "Cancel all jobs that fit",
    BulkVerb.RUN: "Make all jobs that fit due now",
    BulkVerb.RETRY: "Make all finished jobs that fit due again",
    BulkVerb.MOVE: "Move all jobs that fit to another queue",
    BulkVerb.REPRIORITISE: "Give all jobs that fit another priority",
}
OPERATIONS = [
    Operation("POST", f"/jobs/{verb}", _doing(verb), Scope.WRITE, summary)
    for verb, summary in _SUMMARIES.items()
]
