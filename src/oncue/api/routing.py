"""Which route a method and a path name. The same table is what `/openapi.json` describes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from oncue.api.problems import HttpProblem
from oncue.api.request import HttpAnswer, Request
from oncue.core.access import Scope

if TYPE_CHECKING:
    from oncue.api.app import Service

    Action = Callable[[Service, Request], Awaitable[HttpAnswer]]

PROVED = "Authorised by the token of the claim. Repeating it with the same token is harmless."
_METHODS = object()  # the key of a path's routes in the tree: no segment equals it
_NAME = re.compile(r"\{(\w+)\}")


class Answered(NamedTuple):
    """One way in which a route succeeds, for the description."""

    shape: Any
    """The type of its JSON; a media type: its body is text of that type; None: no body."""
    text: str = ""
    """Instead of the phrase of the status."""
    headers: tuple[str, ...] = ()
    """Beside those that every answer has."""


class Route(NamedTuple):
    """A method and a path, the function that answers, and the description in `/openapi.json`.
    Parameters are given by name; `docs/parameters.py` describes them."""

    method: str
    path: str
    """With `{names}` for its parameters."""
    run: Action
    """Its name is the id of the route; its docstring describes it, the first line in short."""
    scope: Scope | None
    """The scope that a caller needs; None: no scope (the route itself may check more)."""
    tag: str
    names: tuple[str, ...]
    """Of the parameters in the path."""
    answers: Mapping[int, Answered]
    body: Any = None
    """The shape of the request's body, or shapes by media type; None: no body is read."""
    query: tuple[str, ...] = ()
    """Parameters in the query; others are refused."""
    headers: tuple[str, ...] = ()
    """Headers that are read."""
    problems: tuple[int, ...] = ()
    """Statuses of problems beside those that follow from scope and body."""
    claim: bool = False
    """The token of a claim, in the body, stands for itself: no access token is needed."""
    static: bool = False
    """Answered without the store."""

    @property
    def id(self) -> str:
        first, *others = self.run.__name__.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def summary(self) -> str:
        return self._paragraphs[0].removesuffix(".")

    @property
    def text(self) -> str:
        return " ".join([*self._paragraphs[1:], *([PROVED] if self.claim else [])])

    @property
    def _paragraphs(self) -> list[str]:
        assert self.run.__doc__
        return [" ".join(one.split()) for one in self.run.__doc__.split("\n\n")]


class Routes(list[Route]):
    """The routes of one tag, in the order in which they are added."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(
        self, place: str, scope: Scope | None, answers: Any, body: Any = None, **more: Any
    ) -> Callable[[Action], Action]:
        """Decorates the function that answers at `place`: a method and a path. `answers` are by
        status, each an `Answered` or only its shape; a shape alone is that of a 200. `more` are
        further fields of the `Route`."""
        if not isinstance(answers, dict):
            answers = {200: answers}
        described = {
            status: one if isinstance(one, Answered) else Answered(one)
            for status, one in answers.items()
        }

        def register(run: Action) -> Action:
            method, path = place.split()
            names = tuple(_NAME.findall(path))
            act = _discreet(run) if scope is Scope.WRITE else run
            self.append(Route(method, path, act, scope, self._tag, names, described, body, **more))
            return run

        return register


def _discreet(run: Action) -> Action:
    """The same, for callers who may change jobs: if they may not read them, their content is left
    out of the answer."""

    @wraps(run)
    async def act(service: Service, request: Request) -> HttpAnswer:
        answer = await run(service, request)
        if request.may_read or answer.is_own or not answer.body:
            return answer
        return answer.without_content()

    return act


class Router:
    """Finds the route of a request: in a tree of dicts, one for each segment of the path, whose
    key None leads on where the path has a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._plain: dict[tuple[str, str], Route] = {}
        self._tree: dict[Any, Any] = {}
        for route in routes:
            if not route.names:
                self._plain[route.method, route.path] = route
            node = self._tree
            for segment in route.path[1:].split("/"):
                node = node.setdefault(None if segment.startswith("{") else segment, {})
            node.setdefault(_METHODS, {})[route.method] = route

    def find(self, request: Request) -> Route:
        """The route, with the request's parameters set; or the problem that there is none."""
        plain = self._plain.get((request.method, request.path))
        if plain is not None:
            return plain
        methods, request.parameters = self._walk(request.path)
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
            path = next(iter(methods.values())).path
            raise HttpProblem(
                "method-not-allowed",
                f"{request.method} does not apply to {path}; it takes {allowed}.",
                headers={"allow": allowed},
            )
        if route.names[:1] == ("id",):
            request.job_id = request.subject
        return route

    def _walk(self, path: str) -> tuple[dict[str, Route], tuple[str, ...]]:
        """The routes of a path by method, and its parameters. The path is as it was sent: an
        encoded slash belongs to its segment."""
        node, parameters = self._tree, []
        for segment in path.removeprefix("/").split("/"):
            try:
                text = unquote_to_bytes(segment).decode()
            except UnicodeDecodeError:
                raise HttpProblem("malformed", "The path is not UTF-8.") from None
            found = node.get(text)
            if found is None and text:
                found = node.get(None)
                parameters.append(text)
            node = found or {}
        if _METHODS not in node:
            text = "There is nothing at this path; /docs lists the routes."
            raise HttpProblem("no-such-route", text)
        return node[_METHODS], tuple(parameters)
