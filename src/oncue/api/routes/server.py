"""Health, nodes, metrics, scopes and kinds of problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue import __version__
from oncue.api.problems import HttpProblem
from oncue.api.request import HttpAnswer, Request, json_answer
from oncue.api.routing import Routes
from oncue.core.access import Scope, allows
from oncue.wire import server as wire
from oncue.wire.converting import written
from oncue.wire.nodes import NodeReport, Nodes
from oncue.wire.problems import PREFIX, TITLES, ProblemKind

if TYPE_CHECKING:
    from oncue.api.app import Service

routes = Routes("Server")


@routes.add("GET /livez", None, wire.Alive, static=True)
async def is_alive(service: Service, request: Request) -> HttpAnswer:
    """Is the process alive?

    The process answers. Restart it if it does not.
    """
    return json_answer(wire.Alive(version=__version__))


@routes.add("GET /readyz", None, wire.Readiness)
async def is_ready(service: Service, request: Request) -> HttpAnswer:
    """Can it do its work?

    The store can be reached and its schema is the one this version wants. Send no traffic while it
    is not.
    """
    facts = await service.read(service.cue.store.describe)
    return json_answer(wire.Readiness(store=facts.kind, schema=facts.schema))


@routes.add("GET /access", None, wire.Allowed, problems=(401,))
async def get_access(service: Service, request: Request) -> HttpAnswer:
    """The scopes of an access token.

    The scopes of the access token that is sent; 'admin' includes the others. A server that has no
    tokens allows this machine everything.
    """
    known = await service.guard.scopes(request)
    return json_answer(wire.Allowed(scopes=[str(one) for one in Scope if allows(known, one)]))


@routes.add("GET /nodes", Scope.READ, Nodes)
async def list_nodes(service: Service, request: Request) -> HttpAnswer:
    """List the processes on the store.

    What each runs, since when, and its last sign of life, the oldest first; all of them at once. A
    process that was killed is listed for up to 30 seconds. Workers that work for a server over HTTP
    are not listed.
    """
    found = await service.read(service.cue.nodes)
    return json_answer(Nodes([written(NodeReport, one) for one in found]))


@routes.add("GET /metrics", Scope.READ, "text/plain")
async def get_metrics(service: Service, request: Request) -> HttpAnswer:
    """Measurements for Prometheus.

    In the text format of Prometheus.
    """
    from oncue.telemetry.prometheus import CONTENT_TYPE, render

    text = await service.read(render, service.cue)
    return HttpAnswer(200, text, CONTENT_TYPE)


@routes.add("GET /problems/{kind}", None, ProblemKind, problems=(404,), static=True)
async def get_problem_kind(service: Service, request: Request) -> HttpAnswer:
    """The meaning of a kind of problem.

    Every problem's `type` is an address here.
    """
    kind = request.subject
    if kind not in TITLES:
        raise HttpProblem("not-found", "There is no such kind of problem.")
    return json_answer(ProblemKind(type=PREFIX + kind, title=TITLES[kind]))
