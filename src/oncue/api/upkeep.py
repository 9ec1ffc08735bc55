"""For those who run the server: is it alive, is it ready, what does it measure, what can it do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue import __version__
from oncue.api.guard import identified
from oncue.api.problem import Problem
from oncue.api.request import Answer, Request, json_answer
from oncue.api.routing import Operation
from oncue.core.access import Scope, allows
from oncue.wire.problems import TITLES

if TYPE_CHECKING:
    from oncue.api.service import Service


async def alive(service: Service, request: Request) -> Answer:
    request.query()
    return json_answer({"status": "alive", "version": __version__})


async def ready(service: Service, request: Request) -> Answer:
    """The store answers, with the schema and the tables that it needs."""
    request.query()
    facts = await service.read(service.cue.store.describe)
    return json_answer({"status": "ready", "store": facts.kind, "schema": facts.schema})


async def access(service: Service, request: Request) -> Answer:
    """What the token allows; a server without tokens lets this machine do everything."""
    request.query()
    # Asked anew: a store that cannot say who asks must not look like a token that is unknown.
    known = identified(service.guard.scopes(request))
    return json_answer({"scopes": [scope.value for scope in Scope if allows(known, scope)]})


async def metrics(service: Service, request: Request) -> Answer:
    from oncue.metrics import CONTENT_TYPE, render

    request.query()
    text = await service.read(render, service.cue)
    return Answer(200, text, CONTENT_TYPE)


async def problem(service: Service, request: Request) -> Answer:
    """What a problem's `type` stands for."""
    request.query()
    [kind] = request.parameters
    if kind not in TITLES:
        raise Problem(404, "not-found", "There is no such kind of problem.")
    return json_answer({"type": f"/problems/{kind}", "title": TITLES[kind]})


OPERATIONS = [
    Operation("GET", "/livez", alive, None, "Is the process alive?"),
    Operation("GET", "/readyz", ready, None, "Can it do its work?"),
    Operation("GET", "/access", access, None, "What a token allows"),
    Operation("GET", "/metrics", metrics, Scope.READ, "Measurements for Prometheus"),
    Operation("GET", "/problems/{kind}", problem, None, "What a kind of problem means"),
]
