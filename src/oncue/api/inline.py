"""Routes of the HTTP interface for servers that have threads instead of an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from oncue.api.app import problem_of
from oncue.api.arrival import PENDING, at_once
from oncue.api.guard import Guard
from oncue.api.publishing import Fields, published_answer
from oncue.api.request import HttpAnswer, Request, problem_answer
from oncue.api.routing import Route, Router

if TYPE_CHECKING:
    from oncue.api.app import Service
    from oncue.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")


class InlineService:
    """A `Service` that runs routes in the calling thread. Only for routes that wait for nothing but
    the store. Without a `guard`, every caller may do everything."""

    def __init__(self, cue: Scheduler, routes: Iterable[Route], guard: Guard | None = None) -> None:
        self.cue = cue
        self.clock = cue.clock
        self.acue = self
        self.router = Router(routes)
        self._guard = guard

    def answer(self, request: Request) -> HttpAnswer:
        """The same answer that a `Service` would give."""
        answer: HttpAnswer
        try:
            route = self.router.find(request)
            if self._guard is not None and route.scope is not None:
                at_once(self._guard.require(request, route.scope))
            request.read_query(route.query)
            answer = at_once(route.run(cast("Service", self), request))
            if answer is PENDING:
                raise RuntimeError("a route waits, and there is no event loop to wait in")
        except Exception as error:
            answer = problem_answer(problem_of(error, request))
        return answer._replace(headers={**answer.headers, "x-request-id": request.id})

    async def read(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return method(*args, **kwargs)

    write = read

    async def publish(self, fields: Fields) -> HttpAnswer:
        return published_answer(self.cue.publish(fields))


def whole_request(
    method: str, path: str, query: bytes, headers: Mapping[bytes, bytes], body: bytes
) -> Request:
    """A request that has arrived as a whole. `path` is percent-encoded: an encoded slash belongs to
    its segment. The names of headers are in lower case."""

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(method, path.encode(), query, headers, receive)
