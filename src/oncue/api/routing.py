"""Which operation a method and a path name. The same table is what `/openapi.json` describes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from oncue.api.problem import Problem
from oncue.api.request import Answer, Request
from oncue.core.access import Scope

if TYPE_CHECKING:
    from oncue.api.service import Service

Run = Callable[["Service", Request], Awaitable[Answer]]


class Operation(NamedTuple):
    """One thing that can be asked over HTTP."""

    method: str
    path: str
    """With `{names}` for what is left open."""
    run: Run
    scope: Scope | None
    """What a caller must be allowed to; None: anybody (the route itself may look closer)."""
    summary: str
    """What `description` says more of, by method and path."""


class _Node:
    __slots__ = ("literal", "operations", "parameter", "path")

    def __init__(self) -> None:
        self.literal: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.operations: dict[str, Operation] = {}
        self.path = ""


class Router:
    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        self._root = _Node()
        self._plain: dict[tuple[str, str], Operation] = {}
        for operation in self.operations:
            self._add(operation)

    def find(self, request: Request) -> Operation:
        """The operation, with the request's parameters set; or the problem that there is none."""
        plain = self._plain.get((request.method, request.path))
        if plain is not None:
            return plain
        node, parameters = self._walk(request)
        method = "GET" if request.method == "HEAD" else request.method
        operation = node.operations.get(method)
        if operation is None:
            allowed = sorted(node.operations)
            raise Problem(
                405,
                "method-not-allowed",
                f"{request.method} does not apply to {node.path}; it takes {', '.join(allowed)}.",
                headers={"allow": ", ".join(allowed)},
            )
        request.parameters = parameters
        return operation

    def _add(self, operation: Operation) -> None:
        node = self._root
        for segment in operation.path.strip("/").split("/"):
            if segment.startswith("{"):
                if node.parameter is None:
                    node.parameter = _Node()
                node = node.parameter
            else:
                node = node.literal.setdefault(segment, _Node())
        node.operations[operation.method] = operation
        node.path = operation.path
        if "{" not in operation.path:
            self._plain[operation.method, operation.path] = operation

    def _walk(self, request: Request) -> tuple[_Node, tuple[str, ...]]:
        """By the path as it was sent: an encoded slash belongs to its segment."""
        node, parameters = self._root, []
        for segment in request.path.removeprefix("/").split("/"):
            try:
                text = unquote_to_bytes(segment).decode()
            except UnicodeDecodeError:
                raise Problem(400, "malformed", "The path is not UTF-8.") from None
            if (literal := node.literal.get(text)) is not None:
                node = literal
            elif node.parameter is not None and text:
                node = node.parameter
                parameters.append(text)
            else:
                raise _no_such_route(request)
        if not node.operations:
            raise _no_such_route(request)
        return node, tuple(parameters)


def _no_such_route(request: Request) -> Problem:
    return Problem(
        404, "no-such-route", "There is nothing at this path; /docs lists what there is."
    )
