"""The description of the HTTP interface in OpenAPI 3.1: `base.json`, completed with the routes and
the shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from oncue import __version__
from oncue.api.docs.parameters import HEADERS, PATH, QUERY, Parameter
from oncue.api.docs.samples import NONE, sample
from oncue.api.problems import HttpProblem
from oncue.api.request import JSON_TYPE
from oncue.api.routing import Answered, Route
from oncue.wire import formats
from oncue.wire import problems as wire
from oncue.wire.descriptions import descriptions


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """All of it, as JSON has it."""
    base = msgspec.json.decode(files("oncue.api.docs").joinpath("base.json").read_bytes())
    schemas = _Schemas(base["components"]["schemas"])
    refusals = base["components"]["responses"]
    names = {wire.KINDS[next(iter(one["examples"]))].status: name for name, one in refusals.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _route(route, schemas, names)
    responses = {name: _refusal(one, schemas) for name, one in refusals.items()}
    return {
        **base,
        "info": {**base["info"], "version": __version__},
        "paths": paths,
        "components": base["components"]
        | {"schemas": schemas.components(), "responses": responses},
        "x-oncue-problems": wire.TITLES,
    }


class _Schemas:
    """JSON Schema for shapes; those with a name are gathered as components."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def of(self, shape: Any) -> dict[str, Any]:
        [schema], named = msgspec.json.schema_components(
            [shape], ref_template="#/components/schemas/{name}"
        )
        self._named |= named
        return schema

    def components(self) -> dict[str, Any]:
        named = {**self._named, "IsoDuration": formats.ISO_DURATION}
        for shape in _shapes(Struct):
            if (schema := named.get(shape.__name__)) is not None:
                named[shape.__name__] = _completed(schema, shape)
        return dict(sorted(named.items()))


def _shapes(kind: type[Struct]) -> Iterator[type[Struct]]:
    for shape in kind.__subclasses__():
        yield shape
        yield from _shapes(shape)


def _completed(schema: dict[str, Any], shape: type[Struct]) -> dict[str, Any]:
    """The schema of a Struct with the texts of its fields and what they must be together."""
    rules = getattr(shape, "together", {})
    properties = {**schema["properties"], **rules.get("properties", {})}
    for name, text in descriptions(shape).items():
        properties[name]["description"] = text
    if not issubclass(shape, formats.Answer):
        return {**schema, **rules, "properties": properties}
    # The defaults of an answer's fields are for clients that read the answer of an older server.
    # This one leaves out only what is unset, and what the shape says is `optional`.
    for one in properties.values():
        one.pop("default", None)
    fields = msgspec.structs.fields(shape)
    optional = getattr(shape, "optional", ())
    required = [
        field.encode_name
        for field in fields
        if field.default is not msgspec.UNSET and field.encode_name not in optional
    ]
    return {**schema, "properties": properties, "required": required}


def _route(route: Route, schemas: _Schemas, refusals: dict[int, str]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": route.id,
        "summary": route.summary,
        "description": route.text,
        "tags": [route.tag],
        "x-oncue-scope": "claim" if route.claim else route.scope,
        "security": _security(route),
    }
    if parameters := [_parameter(*one, schemas) for one in _parameters(route)]:
        described["parameters"] = parameters
    if route.body is not None:
        described["requestBody"] = _body(route, schemas)
    described["responses"] = {
        str(status): _answer(f"{route.id} {status}", status, one, schemas)
        for status, one in route.answers.items()
    } | {
        str(status): {"$ref": f"#/components/responses/{refusals[status]}"}
        for status in _statuses(route)
    }
    return described


def _statuses(route: Route) -> list[int]:
    """The problems that a route can be answered with."""
    found = {400, 403, 422, *route.problems}
    if route.scope is not None or route.claim:
        found.add(401)
    if route.body is not None:
        found |= {408, 413, 415}
    if not route.static:
        found.add(503)
    return sorted(found)


def _security(route: Route) -> list[dict[str, list[str]]]:
    if route.claim:
        return [{}, {"bearer": []}]
    return [] if route.scope is None else [{"bearer": []}]


def _parameters(route: Route) -> Iterator[tuple[str, str, Parameter]]:
    for name in route.names:
        yield "path", name, PATH[name]
    for name in route.query:
        yield "query", name, QUERY.get(f"{route.path} {name}") or QUERY[name]
    for name in route.headers:
        yield "header", name, HEADERS[name]


def _parameter(place: str, name: str, parameter: Parameter, schemas: _Schemas) -> dict[str, Any]:
    described = {
        "name": name,
        "in": place,
        "description": parameter.text,
        "schema": schemas.of(parameter.shape),
        "example": parameter.example,
    }
    return described | ({"required": True} if place == "path" else {})


def _body(route: Route, schemas: _Schemas) -> dict[str, Any]:
    shapes = route.body if isinstance(route.body, dict) else {JSON_TYPE: route.body}
    content = {
        media_type: {
            "schema": schemas.of(shape),
            "example": sample(shape, f"{route.id} {media_type}"),
        }
        for media_type, shape in shapes.items()
    }
    return {"required": shapes is not route.body and _is_required(route.body), "content": content}


def _is_required(shape: Any) -> bool:
    """Whether an empty object, which stands for no body, lacks something."""
    try:
        msgspec.json.decode(b"{}", type=shape)
    except msgspec.ValidationError:
        return True
    return not {"oneOf", "anyOf", "allOf"}.isdisjoint(getattr(shape, "together", {}))


def _answer(place: str, status: int, answered: Answered, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": answered.text or HTTPStatus(status).phrase,
        "headers": _headers("X-Request-Id", *answered.headers),
    }
    if answered.shape is None:
        return described
    is_text = isinstance(answered.shape, str)
    content = {"schema": {"type": "string"} if is_text else schemas.of(answered.shape)}
    if (example := sample(answered.shape, place)) is not NONE:
        content["example"] = example
    return described | {"content": {answered.shape if is_text else JSON_TYPE: content}}


def _refusal(described: dict[str, Any], schemas: _Schemas) -> dict[str, Any]:
    examples = {
        kind: {"value": msgspec.to_builtins(HttpProblem(kind, **fields).fields)}
        for kind, fields in described["examples"].items()
    }
    return {
        "description": described["description"],
        "headers": _headers("X-Request-Id", *described.get("headers", [])),
        "content": {
            wire.MEDIA_TYPE: {"schema": schemas.of(wire.Problem), "examples": examples},
        },
    }


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
