"""Rules and events over HTTP: put rules, publish events, explain why a rule has not fired."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from oncue.api.paging import PAGE, read_page
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Answered, Routes
from oncue.core import stamp
from oncue.core.access import Scope
from oncue.core.checks import choice
from oncue.core.cursor import Cursor, Page, cursor_at, place_at
from oncue.core.errors import InvalidInput
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter
from oncue.core.rule import check_rule_name
from oncue.usecases.rules import new_rule, put
from oncue.wire import rules as shapes
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

_FORGOTTEN_PLUS = re.compile(r" (\d\d:\d\d)$", re.ASCII)

routes = Routes("Rules")


# -- rules -----------------------------------------------------------------------------------------


PUT = {200: shapes.Rule, 201: shapes.Rule}


@routes.add("POST /rules", Scope.ADMIN, PUT, shapes.NamedRule)
async def post_rule(service: Service, request: Request) -> HttpAnswer:
    """Create or replace the rule of the given name.

    As `PUT /rules/{rule}`, with the name in the body.
    """
    body = await request.decoded(shapes.NamedRule)
    return await _put(service, body.name, body)


@routes.add("PUT /rules/{rule}", Scope.ADMIN, PUT, shapes.NewRule)
async def put_rule(service: Service, request: Request) -> HttpAnswer:
    """Create or replace a rule.

    Replaces all fields. A rule that exists keeps its last instant, and the events of each
    dependency that keeps type and resource. Fires nothing by itself.
    """
    name = request.subject
    body = await request.decoded(shapes.NewRule)
    if body.name is not None and body.name != name:
        raise InvalidInput("is not the name in the path; write the same, or leave it out.", "/name")
    return await _put(service, name, body)


async def _put(service: Service, name: str, body: shapes.RuleFields) -> HttpAnswer:
    dependencies = [msgspec.structs.asdict(one) for one in body.dependencies]
    rule = new_rule(name, dependencies, body.enabled, body.queue, body.payload)
    stored, is_new = await service.acue.write(put, service.cue, rule)
    return json_answer(written(shapes.Rule, stored), 201 if is_new else 200)


@routes.add("GET /rules/{rule}", Scope.READ, shapes.Rule, problems=(404,))
async def get_rule(service: Service, request: Request) -> HttpAnswer:
    """Look at a rule.

    The rule, and the instant of its last job.
    """
    found = await service.read(service.cue.rule, request.subject)
    return json_answer(written(shapes.Rule, found))


@routes.add("GET /rules", Scope.READ, shapes.Rules, query=PAGE)
async def list_rules(service: Service, request: Request) -> HttpAnswer:
    """List rules.

    In the order of their names.
    """

    def page(after: Cursor | None, limit: int) -> Page[shapes.Rule]:
        last = None if after is None else str(place_at(after, (str,))[0])
        found = service.cue.store.rules(last, limit + 1)
        items = [written(shapes.Rule, rule) for rule in found[:limit]]
        return Page(items, cursor_at((items[-1].name,)) if found[limit:] else None)

    def read() -> HttpAnswer:
        found = read_page(request.query, page)
        return json_answer(shapes.Rules(items=found.items, next_cursor=found.next))

    return await service.read(read)


@routes.add("DELETE /rules/{rule}", Scope.ADMIN, {204: None}, problems=(404,))
async def delete_rule(service: Service, request: Request) -> HttpAnswer:
    """Delete a rule and its events.

    Its events and decisions are deleted; its jobs stay. Created again, it is another rule.
    """
    await service.acue.write(service.cue.delete_rule, request.subject)
    return HttpAnswer(204, b"")


@routes.add(
    "GET /rules/{rule}/explain", Scope.READ, shapes.Standing, query=("at",), problems=(404,)
)
async def explain_rule(service: Service, request: Request) -> HttpAnswer:
    """Explain why a rule has not fired.

    For each dependency: whether it is valid at a time, by which event, and until when. And which
    event would fire the rule.
    """
    at = None
    if "at" in request.query:
        # A plus sign in a query means a space; most clients forget to encode it.
        text = _FORGOTTEN_PLUS.sub(r"+\1", request.query["at"])
        at = stamp.to_datetime(stamp.parse(text, "?at"))
    stands = await service.read(service.cue.explain_rule, request.subject, at)
    return json_answer(shapes.Standing.of(stands))


# -- events ----------------------------------------------------------------------------------------


@routes.add(
    "POST /events",
    Scope.WRITE,
    {
        200: Answered(shapes.Published, "All were known, and nothing new was decided."),
        201: shapes.Published,
    },
    shapes.NewEvents,
    problems=(409,),
)
async def publish_events(service: Service, request: Request) -> HttpAnswer:
    """Publish events.

    One event, or a list of up to 1,000. All are checked before anything is stored; then each is
    applied in order, and the rules that it matches decide on it. Answered when all have decided.
    May be repeated: the same event changes nothing, and work that a crash interrupted is completed.
    Only event time counts: events of last year can be sent today, in any order.
    """
    body = await request.decoded(cast("type[Any]", shapes.NewEvents))
    if not isinstance(body, list):
        return await service.publish(msgspec.structs.asdict(body))
    if not 1 <= len(body) <= shapes.MOST_EVENTS:
        raise InvalidInput(
            f"a list of {len(body):,}; send 1 to {shapes.MOST_EVENTS:,} events at once."
        )
    return await service.publish([msgspec.structs.asdict(one) for one in body])


@routes.add(
    "GET /events",
    Scope.READ,
    shapes.LoggedEvents,
    query=("rule", "decision", *PAGE),
    problems=(404, 501),
)
async def list_events(service: Service, request: Request) -> HttpAnswer:
    """List events and the decisions on them.

    The newest arrivals first. With `rule` or `decision`: only events that have such a decision.
    """
    query = request.query
    rule, decision = query.get("rule"), _decision(query.get("decision"))
    if rule is not None:
        check_rule_name(rule, "?rule")

    def read() -> HttpAnswer:
        wanted = EventFilter(None if rule is None else service.cue.rule(rule).name, decision)
        page = read_page(query, partial(service.cue.event_page, wanted))
        return json_answer(shapes.LoggedEvents.of(page))

    return await service.read(read)


def _decision(text: str | None) -> Decision | None:
    return None if text is None else choice(Decision, text, "?decision")
