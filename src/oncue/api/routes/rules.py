"""Rules and events over HTTP: say what must hold, send what happened, ask why nothing happens."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from oncue.api.docs.about import Answered, Parameter, json
from oncue.api.docs.parameters import CURSOR_PARAMETER, LIMIT_PARAMETER
from oncue.api.docs.samples import ID
from oncue.api.paging import limit_of
from oncue.api.problems import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Routes
from oncue.core import stamp
from oncue.core.access import Scope
from oncue.core.errors import InvalidInput
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter
from oncue.core.rule import Rule, check_rule_name
from oncue.usecases.rules import new_rule
from oncue.wire import formats
from oncue.wire import rules as shapes
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.app import Service

_FORGOTTEN_PLUS = re.compile(r" (\d\d:\d\d)$", re.ASCII)

_rule = msgspec.json.Decoder(shapes.NewRule)
_events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shapes.NewEvents)

routes = Routes("Rules")
_NAME = "hourly load"
_FILE = {"type": "FILE", "resourceId": "/in/", "lifeDuration": 3600}
_CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}
_RECEIVED = "2026-12-01T12:00:00.000Z"
_INSTANT = "2021-01-01T12:30:00.000000Z"
_RULE = {
    "name": _NAME,
    "dependencies": [_FILE, _CRON],
    "enabled": True,
    "queue": "rules",
    "payload": {"into": "warehouse"},
    "createdAt": "2026-12-01T10:00:00.000Z",
    "updatedAt": "2026-12-01T10:00:00.000Z",
    "lastInstant": _INSTANT,
    "lastJobId": ID,
}
_SENT = {
    "eventType": "TIME_BASED",
    "eventTimestamp": _INSTANT,
    "eventResourceId": "cron",
}
_EVENT = {"eventId": "8d0f3e51b8b44cb6a4a1b0f0d5a9c7e2", **_SENT}
_ARRIVED = {
    "eventId": "1f8a64c0b3ce4a52b7e9d6a1c0f4e3d2",
    "eventType": "FILE",
    "eventTimestamp": "2021-01-01T12:14:50.000000Z",
    "eventResourceId": "/in/a.csv",
}
_ACCEPTED = {"rule": _NAME, "dependency": _CRON, "decision": "ACCEPTED", "jobId": ID}
_PUBLISHED = {
    "eventId": _EVENT["eventId"],
    "duplicate": False,
    "decisions": [_ACCEPTED],
    "jobs": [{"rule": _NAME, "jobId": ID, "instant": _INSTANT}],
}
_AGAIN = {
    **_PUBLISHED,
    "duplicate": True,
    "decisions": [_ACCEPTED | {"decision": "DUPLICATE"}],
    "jobs": [],
}
_LOGGED = {
    **_EVENT,
    "receivedAt": _RECEIVED,
    "decisions": [{**_ACCEPTED, "decidedAt": _RECEIVED, "times": 1}],
}
_STANDING = {
    "rule": _NAME,
    "at": "2021-01-01T13:30:00.000000Z",
    "met": False,
    "enabled": True,
    "lastInstant": None,
    "lastJobId": None,
    "dependencies": [
        {
            **_FILE,
            "validity": "EXPIRED",
            "event": _ARRIVED,
            "validUntil": "2021-01-01T13:14:50.000000Z",
        },
        {**_CRON, "validity": "NEVER_SEEN", "event": None, "validUntil": None},
    ],
    "waitsFor": _CRON,
    "from": "2021-01-01T12:14:50.000000Z",
    "until": "2021-01-01T13:14:50.000000Z",
    "missedBySeconds": None,
    "sentence": "A TIME_BASED event `cron` stamped between 2021-01-01T12:14:50.000000Z and "
    "2021-01-01T13:14:50.000000Z would fire it.",
}


# -- rules -----------------------------------------------------------------------------------------


@routes.add(
    "PUT /rules/{rule}",
    Scope.ADMIN,
    {
        200: Answered("Replaced.", shapes.Rule, _RULE),
        201: Answered("Created.", shapes.Rule, _RULE | {"lastInstant": None, "lastJobId": None}),
    },
    json(
        shapes.NewRule,
        {"dependencies": [_FILE, _CRON], "payload": {"into": "warehouse"}},
        required=True,
    ),
)
async def put_rule(service: Service, request: Request) -> Answer:
    """Create or replace a rule.

    Replaces all fields. A rule that exists keeps its last instant, and the events of each
    dependency that keeps type and resource. Fires nothing by itself.
    """
    request.query()
    [name] = request.parameters
    body = decoded(await request.body(), _rule)
    if body.name is not None and body.name != name:
        raise InvalidInput("is not the name in the path; write the same, or leave it out.", "/name")
    dependencies = [msgspec.structs.asdict(one) for one in body.dependencies]
    rule = new_rule(name, dependencies, body.enabled, body.queue, body.payload)

    def stored() -> tuple[bool, Rule]:
        store = service.cue.store
        return store.rule(name) is None, store.put_rule(rule, service.clock.now())

    created, answer = await service.acue.write(stored)
    return json_answer(written(shapes.Rule, answer), 201 if created else 200)


@routes.add(
    "GET /rules/{rule}",
    Scope.READ,
    {200: Answered("The rule.", shapes.Rule, _RULE)},
    problems=(404,),
)
async def get_rule(service: Service, request: Request) -> Answer:
    """Look at a rule.

    The rule, and the instant of its last job.
    """
    request.query()
    [name] = request.parameters
    return json_answer(written(shapes.Rule, await service.read(service.cue.rule, name)))


@routes.add(
    "GET /rules",
    Scope.READ,
    {200: Answered("A page.", shapes.Rules, {"items": [_RULE], "next_cursor": None})},
    parameters=(LIMIT_PARAMETER, CURSOR_PARAMETER),
)
async def list_rules(service: Service, request: Request) -> Answer:
    """List rules by name.

    In the order of their names.
    """
    # The cursor is the last name on the page, in plain letters.
    query = request.query(("limit", "cursor"))
    limit, after = limit_of(query), _name_after(query.get("cursor"))

    def read() -> bytes:
        found = service.cue.store.rules(after, limit + 1)
        more = len(found) > limit
        items = [written(shapes.Rule, rule) for rule in found[:limit]]
        cursor = _cursor(found[limit - 1].name) if more else None
        return msgspec.json.encode(shapes.Rules(items=items, next_cursor=cursor))

    return Answer(200, await service.read(read))


@routes.add(
    "DELETE /rules/{rule}",
    Scope.ADMIN,
    {204: Answered("Forgotten.")},
    problems=(404,),
)
async def delete_rule(service: Service, request: Request) -> Answer:
    """Forget a rule and its events.

    Its events and decisions are forgotten; its jobs stay. Created again, it is another rule.
    """
    request.query()
    [name] = request.parameters
    await service.acue.write(service.cue.delete_rule, name)
    return Answer(204, b"")


@routes.add(
    "GET /rules/{rule}/explain",
    Scope.READ,
    {200: Answered("How it stands.", shapes.Standing, _STANDING)},
    parameters=(
        Parameter("at", "The time; now if left out.", shapes.Stamp, "2021-01-01 13:30:00"),
    ),
    problems=(404,),
)
async def explain_rule(service: Service, request: Request) -> Answer:
    """Why a rule has not fired.

    For each dependency: whether it is valid at a time, by which event, and until when. And which
    event would fire the rule.
    """
    query = request.query(("at",))
    [name] = request.parameters
    at = None
    if "at" in query:
        # A plus sign in a query means a space, and everybody forgets to encode it.
        at = stamp.to_datetime(stamp.parse(_FORGOTTEN_PLUS.sub(r"+\1", query["at"]), "?at"))
    stands = await service.read(service.cue.explain_rule, name, at)
    return json_answer(shapes.Standing.of(stands))


def _cursor(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _name_after(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return check_rule_name(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
    except (ValueError, InvalidInput):
        raise _no_cursor() from None


def _no_cursor() -> Exception:
    return invalid("this is not a cursor; send back the next_cursor of the page before.", "?cursor")


# -- events ----------------------------------------------------------------------------------------


@routes.add(
    "POST /events",
    Scope.WRITE,
    {
        200: Answered(
            "All were known, and nothing new was decided.",
            shapes.Published,
            {"events": [_AGAIN]},
        ),
        201: Answered(
            "Stored and decided.",
            shapes.Published,
            {"events": [_PUBLISHED]},
        ),
    },
    json(shapes.NewEvents, _SENT, required=True),
    problems=(409,),
)
async def publish_events(service: Service, request: Request) -> Answer:
    """Send what happened.

    One event, or a list of up to 1,000. All are checked before anything is stored; then each is
    applied in order, and the rules that it matches decide on it. Answered when all have decided.
    May be repeated: the same event changes nothing, and what a crash left undone is completed. All
    in event time: events of last year can be sent today, in any order.
    """
    request.query()
    body = decoded(await request.body(), _events)
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
    {200: Answered("A page.", shapes.LoggedEvents, {"items": [_LOGGED], "next_cursor": None})},
    parameters=(
        Parameter("rule", "Only what this rule decided.", formats.Label, _NAME),
        Parameter("decision", "Only what was so decided.", Decision, "ACCEPTED"),
        LIMIT_PARAMETER,
        Parameter(
            "cursor",
            "The `next_cursor` of the page before.",
            Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9]{1,18}$"})],
            "4711",
        ),
    ),
    problems=(404,),
)
async def list_events(service: Service, request: Request) -> Answer:
    """List events and what was decided on them.

    The last that arrived first, each with its decisions. With `rule` or `decision`: those that have
    one of it.
    """
    # The cursor is the number of the last event on the page.
    query = request.query(("rule", "decision", "limit", "cursor"))
    limit, after = limit_of(query), _number_after(query.get("cursor"))
    rule, decision = query.get("rule"), _decision(query.get("decision"))
    if rule is not None:
        check_rule_name(rule, "?rule")

    def read() -> bytes:
        wanted = EventFilter(None if rule is None else service.cue.rule(rule).name, decision)
        page = service.cue.event_page(wanted, after, limit)
        return msgspec.json.encode(shapes.LoggedEvents.of(page))

    return Answer(200, await service.read(read))


def _decision(text: str | None) -> Decision | None:
    try:
        return None if text is None else Decision(text)
    except ValueError:
        raise invalid(f"must be one of {', '.join(Decision)}.", "?decision") from None


def _number_after(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise _no_cursor()
    return int(cursor)
