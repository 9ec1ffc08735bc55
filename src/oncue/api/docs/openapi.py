"""The description of the HTTP interface in OpenAPI 3.1, made from the table of routes and the
shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from oncue import __version__
from oncue.api.docs.about import NONE, Answered, Parameter, Sent
from oncue.api.docs.problems import REFUSALS, statuses
from oncue.api.docs.samples import ID
from oncue.api.routing import Route
from oncue.wire import agenda, formats, jobs, queues, schedules, tasks
from oncue.wire.descriptions import descriptions
from oncue.wire.problems import MEDIA_TYPE, TITLES, Problem

TAGS = {
    "Jobs": "Work for later: create, look, change.",
    "Workers": "Pulled queues: claim due jobs, show signs of life, report how they ended.",
    "Queues": "Where jobs wait, and by which rules they are handed over.",
    "Rules": "Jobs that events create: what must hold, what happened, why nothing happens.",
    "Schedules": "Recurring jobs: by cron in a time zone, or at an interval.",
    "Tasks": "Work for a user on a date.",
    "Reclaiming": "What was silent too long: taken back, retried or failed.",
    "Server": "For those who run it.",
}
INFO = """A durable scheduler for deferred work.

Answers are JSON in UTF-8; errors are RFC 9457 problems. Every answer carries `X-Request-Id`: \
yours, if you sent one, else a new one; the server's log has it too. Methods that do not apply \
are answered with 405 and `Allow`; every GET can be asked with HEAD.

Send an access token (`oncue token create`) as `Authorization: Bearer …`. A server without any \
token listens on this machine only and needs none."""
PATH = {
    "id": Parameter("id", "The id of the job.", formats.AnyJobId, ID, "path"),
    "queue": Parameter("queue", "The name of the queue.", formats.QueueName, "mail", "path"),
    "name": Parameter("name", "The name of the step.", formats.QueueName, "charge", "path"),
    "rule": Parameter("rule", "The name of the rule.", formats.Label, "hourly load", "path"),
    "schedule": Parameter(
        "schedule", "The name of the schedule.", formats.QueueName, "nightly", "path"
    ),
    "userId": Parameter("userId", "Whose tasks.", formats.Label, "ada", "path"),
    "requestId": Parameter("requestId", "The id of the task.", formats.AnyJobId, ID, "path"),
    "kind": Parameter(
        "kind", "The last part of a problem's `type`.", formats.AnyJobId, "fenced", "path"
    ),
}
HEADERS = {
    "X-Request-Id": ("Names the request, in the log too.", {"type": "string"}),
    "Location": ("Where it is.", {"type": "string", "format": "uri-reference"}),
    "ETag": ("Changes when the content does.", {"type": "string"}),
    "Retry-After": ("Seconds.", {"type": "string"}),
    "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """All of it, as JSON has it."""
    schemas = _Schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _route(route, schemas)
    responses = {refusal.name: _refusal(status, schemas) for status, refusal in REFUSALS.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "oncue", "version": __version__, "description": INFO},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components(),
            "responses": responses,
            "headers": {
                name: {"description": text, "schema": schema}
                for name, (text, schema) in HEADERS.items()
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An access token. It carries scopes: `read`, `write`, `work`; "
                    "`admin` includes them.",
                }
            },
        },
        "x-oncue-problems": TITLES,
    }


class _Schemas:
    """JSON Schema for shapes; those with a name are gathered as components."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, shape: Any) -> dict[str, Any]:
        [schema], named = msgspec.json.schema_components(
            [shape], ref_template="#/components/schemas/{name}"
        )
        self._named |= named
        return schema

    def components(self) -> dict[str, Any]:
        named = {**self._named, "Json": formats.PLAIN_JSON, "IsoDuration": formats.ISO_DURATION}
        for shape in _shapes(Struct):
            if (schema := named.get(shape.__name__)) is not None:
                for name, text in descriptions(shape).items():
                    schema["properties"][name]["description"] = text
        for answer in _shapes(formats.Answer):
            if (schema := named.get(answer.__name__)) is not None:
                named[answer.__name__] = _written_in_full(schema, answer)
        described = {
            **tasks.RULES,
            **jobs.RULES,
            **queues.RULES,
            **agenda.RULES,
            **schedules.RULES,
        }
        for shape, rules in described.items():
            if (schema := named.get(shape.__name__)) is not None:
                both = {**schema["properties"], **rules.get("properties", {})}
                named[shape.__name__] = {**schema, **rules, "properties": both}
        return dict(sorted(named.items()))


def _shapes(kind: type[Struct]) -> Iterator[type[Struct]]:
    for shape in kind.__subclasses__():
        yield shape
        yield from _shapes(shape)


def _written_in_full(schema: dict[str, Any], shape: type[Struct]) -> dict[str, Any]:
    """The schema of an answer: the defaults of its fields are for clients that read the answer of
    an older server. This one leaves out only what is unset."""
    fields = msgspec.structs.fields(shape)
    required = [field.encode_name for field in fields if field.default is not msgspec.UNSET]
    properties = {
        name: {key: value for key, value in told.items() if key != "default"}
        for name, told in schema["properties"].items()
    }
    return {**schema, "properties": properties, "required": required}


def _route(route: Route, schemas: _Schemas) -> dict[str, Any]:
    in_path = [PATH[name] for name in re.findall(r"\{(\w+)\}", route.path)]
    told: dict[str, Any] = {
        "operationId": route.id,
        "summary": route.summary,
        "description": route.text,
        "tags": [route.tag],
        "x-oncue-scope": "claim" if route.claim else route.scope,
        "security": _security(route),
    }
    if in_path or route.parameters:
        every = [*in_path, *route.parameters]
        told["parameters"] = [_parameter(one, schemas) for one in every]
    if route.sent is not None:
        told["requestBody"] = _body(route.sent, schemas)
    told["responses"] = {
        str(status): _answer(one, schemas) for status, one in route.answers.items()
    } | {
        str(status): {"$ref": f"#/components/responses/{REFUSALS[status].name}"}
        for status in statuses(route)
    }
    return told


def _security(route: Route) -> list[dict[str, list[str]]]:
    if route.claim:
        return [{}, {"bearer": []}]
    return [] if route.scope is None else [{"bearer": []}]


def _parameter(parameter: Parameter, schemas: _Schemas) -> dict[str, Any]:
    told = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "schema": schemas.of(parameter.shape),
        "example": parameter.example,
    }
    return told | ({"required": True} if parameter.place == "path" else {})


def _body(sent: Sent, schemas: _Schemas) -> dict[str, Any]:
    content = {
        media_type: {"schema": schemas.of(one.shape), "example": one.example}
        for media_type, one in sent.contents.items()
    }
    return {"required": sent.required, "content": content}


def _answer(answered: Answered, schemas: _Schemas) -> dict[str, Any]:
    told: dict[str, Any] = {
        "description": answered.text,
        "headers": _headers("X-Request-Id", *answered.headers),
    }
    content: dict[str, Any] = {}
    if answered.shape is not None:
        content["schema"] = schemas.of(answered.shape)
    elif answered.media_type.startswith("text/"):
        content["schema"] = {"type": "string"}
    if answered.example is not NONE:
        content["example"] = answered.example
    return told | ({"content": {answered.media_type: content}} if content else {})


def _refusal(status: int, schemas: _Schemas) -> dict[str, Any]:
    refusal = REFUSALS[status]
    examples = {kind: {"value": fields} for kind, fields in refusal.fields().items()}
    return {
        "description": refusal.text,
        "headers": _headers("X-Request-Id", *refusal.headers),
        "content": {
            MEDIA_TYPE: {"schema": schemas.of(Problem), "examples": examples},
        },
    }


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
