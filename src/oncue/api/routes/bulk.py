"""Bulk verbs over HTTP. A request does as much as it can in a few seconds; the cursor it answers
with goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.api.request import Answer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core import moment
from oncue.core.access import Scope
from oncue.core.bulk import BulkChange, BulkCursor, BulkOrder, BulkVerb, check_order
from oncue.core.errors import InvalidInput
from oncue.core.job import JobFilter
from oncue.core.queue import check_queue_name
from oncue.usecases import intake
from oncue.usecases.bulk import carry_out
from oncue.wire import jobs as wire
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

SECONDS = 2.0  # after which a request begins nothing more

routes = Routes("Jobs")


def _add(verb: BulkVerb, shape: type[wire.Bulk], doc: str) -> None:
    """The route of a verb; `doc` describes it, as the docstrings of other routes do."""

    async def run(service: Service, request: Request) -> Answer:
        body = await request.decoded(shape)
        order = _order(verb, body, service.clock.now())
        outcome = await service.change(carry_out, service.cue.store, service.clock, order)
        return json_answer(written(wire.BulkOutcome, outcome))

    run.__name__ = f"{verb}_jobs"
    run.__doc__ = f"""{doc}

    A request works for a few seconds at most and leaves others time to write; send its
    `next_cursor` as `cursor`, with the same fields, until that is null. With `dry_run` it only
    counts. Without any filter, say `everything`.
    """
    routes.add(f"POST /jobs/{verb}", Scope.WRITE, wire.BulkOutcome, shape)(run)


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


_add(
    BulkVerb.CANCEL,
    wire.BulkCancel,
    """Cancel all jobs that fit.

    Scheduled jobs end cancelled. Taken ones can only be asked to stop, with `running`; those that
    a sink is just receiving are left alone.""",
)
_add(
    BulkVerb.RUN,
    wire.BulkRun,
    """Make all jobs that fit due now.

    For scheduled jobs. What is due already keeps its place in the line.""",
)
_add(
    BulkVerb.RETRY,
    wire.BulkRetry,
    """Make all finished jobs that fit due again.

    For jobs that had failed or been cancelled when the first request came. One whose key is taken
    is left alone.""",
)
_add(
    BulkVerb.MOVE,
    wire.BulkMove,
    """Move all jobs that fit to another queue.

    For scheduled jobs. The settings of the other queue hold for them then. One whose key is taken
    there stays.""",
)
_add(
    BulkVerb.REPRIORITISE,
    wire.BulkReprioritise,
    """Give all jobs that fit another priority.

    For scheduled jobs.""",
)
