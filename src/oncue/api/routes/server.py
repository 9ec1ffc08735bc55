"""For those who run the server: is it alive, is it ready, what does it measure, what can it do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue import __version__
from oncue.api import answers
from oncue.api.docs.about import Answered
from oncue.api.guard import identified
from oncue.api.problems import Problem
from oncue.api.request import Answer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core.access import Scope, allows
from oncue.wire.problems import TITLES, ProblemKind

if TYPE_CHECKING:
    from oncue.api.app import Service

routes = Routes("Server")


@routes.add(
    "GET /livez",
    None,
    {200: Answered("It is.", answers.Alive, {"status": "alive", "version": "0.1.0"})},
    static=True,
)
async def is_alive(service: Service, request: Request) -> Answer:
    """Is the process alive?

    The process answers. Restart it if it does not.
    """
    request.query()
    return json_answer({"status": "alive", "version": __version__})


@routes.add(
    "GET /readyz",
    None,
    {200: Answered("It can.", answers.Ready, {"status": "ready", "store": "sqlite", "schema": 3})},
)
async def is_ready(service: Service, request: Request) -> Answer:
    """Can it do its work?

    The store can be reached and its schema is the one this version wants. Send no traffic while it
    is not.
    """
    request.query()
    facts = await service.read(service.cue.store.describe)
    return json_answer({"status": "ready", "store": facts.kind, "schema": facts.schema})


@routes.add(
    "GET /access",
    None,
    {200: Answered("What is allowed.", answers.Allowed, {"scopes": ["read", "write"]})},
    problems=(401,),
)
async def get_access(service: Service, request: Request) -> Answer:
    """What a token allows.

    The scopes of the token that is sent; 'admin' includes the others. A server that has no tokens
    allows this machine everything.
    """
    request.query()
    # Asked anew: a store that cannot say who asks must not look like a token that is unknown.
    known = identified(service.guard.scopes(request))
    return json_answer({"scopes": [scope.value for scope in Scope if allows(known, scope)]})


@routes.add(
    "GET /metrics",
    Scope.READ,
    {
        200: Answered(
            "The measurements.",
            example='oncue_jobs{queue="mail",state="scheduled"} 12.0\n',
            media_type="text/plain",
        )
    },
)
async def get_metrics(service: Service, request: Request) -> Answer:
    """Measurements for Prometheus.

    In the text format of Prometheus.
    """
    from oncue.telemetry.prometheus import CONTENT_TYPE, render

    request.query()
    text = await service.read(render, service.cue)
    return Answer(200, text, CONTENT_TYPE)


@routes.add(
    "GET /problems/{kind}",
    None,
    {
        200: Answered(
            "What it means.",
            ProblemKind,
            {
                "type": "/problems/fenced",
                "title": "The claim is no longer the current one",
            },
        )
    },
    problems=(404,),
    static=True,
)
async def get_problem_kind(service: Service, request: Request) -> Answer:
    """What a kind of problem means.

    Every problem's `type` is an address here.
    """
    request.query()
    [kind] = request.parameters
    if kind not in TITLES:
        raise Problem("not-found", "There is no such kind of problem.")
    return json_answer({"type": f"/problems/{kind}", "title": TITLES[kind]})
