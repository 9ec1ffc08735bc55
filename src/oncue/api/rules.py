"""Rules and events over HTTP: say what must hold, send what happened, ask why nothing happens."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.jobs import limit_of
from oncue.api.problem import invalid
from oncue.api.request import Answer, Request, decoded, json_answer
from oncue.api.routing import Operation
from oncue.core import stamp
from oncue.core.access import Scope
from oncue.core.errors import InvalidInput
from oncue.core.firing import Decision
from oncue.core.publication import EventFilter
from oncue.core.rule import Rule, check_rule_name
from oncue.rules import new_rule
from oncue.wire import rules as shapes
from oncue.wire.converting import written

if TYPE_CHECKING:
    from oncue.api.service import Service

_FORGOTTEN_PLUS = re.compile(r" (\d\d:\d\d)$", re.ASCII)

_rule = msgspec.json.Decoder(shapes.NewRule)
_events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shapes.NewEvents)


# -- rules -----------------------------------------------------------------------------------------


async def put(service: Service, request: Request) -> Answer:
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


async def show(service: Service, request: Request) -> Answer:
    request.query()
    [name] = request.parameters
    return json_answer(written(shapes.Rule, await service.read(service.cue.rule, name)))


async def listing(service: Service, request: Request) -> Answer:
    """By name; the cursor is the last name on the page, in plain letters."""
    query = request.query(("limit", "cursor"))
    limit, after = limit_of(query), _name_after(query.get("cursor"))

    def read() -> bytes:
        found = service.cue.store.rules(after, limit + 1)
        more = len(found) > limit
        items = [written(shapes.Rule, rule) for rule in found[:limit]]
        cursor = _cursor(found[limit - 1].name) if more else None
        return msgspec.json.encode(shapes.Rules(items=items, next_cursor=cursor))

    return Answer(200, await service.read(read))


async def delete(service: Service, request: Request) -> Answer:
    request.query()
    [name] = request.parameters
    await service.acue.write(service.cue.delete_rule, name)
    return Answer(204, b"")


async def explain(service: Service, request: Request) -> Answer:
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


async def publish(service: Service, request: Request) -> Answer:
    request.query()
    body = decoded(await request.body(), _events)
    if not isinstance(body, list):
        return await service.publish(msgspec.structs.asdict(body))
    if not 1 <= len(body) <= shapes.MOST_EVENTS:
        raise InvalidInput(
            f"a list of {len(body):,}; send 1 to {shapes.MOST_EVENTS:,} events at once."
        )
    return await service.publish([msgspec.structs.asdict(one) for one in body])


async def log(service: Service, request: Request) -> Answer:
    """The last that arrived first; the cursor is the number of the last event on the page."""
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


OPERATIONS = [
    Operation("GET", "/rules", listing, Scope.READ, "List rules by name"),
    Operation("GET", "/rules/{rule}", show, Scope.READ, "Look at a rule"),
    Operation("PUT", "/rules/{rule}", put, Scope.ADMIN, "Create or replace a rule"),
    Operation("DELETE", "/rules/{rule}", delete, Scope.ADMIN, "Forget a rule and its events"),
    Operation("GET", "/rules/{rule}/explain", explain, Scope.READ, "Why a rule has not fired"),
    Operation("POST", "/events", publish, Scope.WRITE, "Send what happened"),
    Operation("GET", "/events", log, Scope.READ, "List events and what was decided on them"),
]
