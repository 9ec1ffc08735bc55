"""The description is complete, valid, and the same for programs and people."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import jsonschema_rs
import msgspec
import pytest
import schemathesis
from markupsafe import escape

from oncue.api.docs.openapi import document
from oncue.api.docs.page import curl, page
from oncue.api.docs.parameters import ID
from oncue.api.docs.samples import kept_samples, sample
from oncue.api.request import JSON_TYPE
from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from oncue.core import payload
from oncue.usecases import intake
from oncue.wire.jobs import NewJob
from oncue.wire.problems import PREFIX, TITLES
from oncue.wire.tasks import NewTask, Task
from tests.http.server import Server

DOCUMENT = document(ROUTES)
PAGE = page(DOCUMENT)
DESCRIBED = [
    (method.upper(), path, told)
    for path, methods in DOCUMENT["paths"].items()
    for method, told in methods.items()
]
REFUSALS = DOCUMENT["components"]["responses"]
NAMES = [f"{method} {path}" for method, path, _ in DESCRIBED]
each_route = pytest.mark.parametrize(("method", "path", "told"), DESCRIBED, ids=NAMES)


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    whole = {**schema, "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def examples(response: dict[str, Any]) -> dict[str, Any]:
    """The problems that a response is shown with, by kind."""
    [content] = response["content"].values()
    return {kind: one["value"] for kind, one in content["examples"].items()}


def accepts(shape: str, **fields: Any) -> bool:
    return validator({"$ref": f"#/components/schemas/{shape}"}).is_valid(fields)


# -- completeness ----------------------------------------------------------------------------------


def test_every_route_is_described_and_nothing_else() -> None:
    there_are = [(one.method, one.path) for one in ROUTES]
    assert {(method, path) for method, path, _ in DESCRIBED} == set(there_are)
    assert len(there_are) == len(set(there_are))


def test_the_names_of_routes_are_unique() -> None:
    names = [route.id for route in ROUTES]
    assert len(names) == len(set(names))


def test_every_kind_of_problem_that_a_status_stands_for_has_an_example() -> None:
    shown = {kind for response in REFUSALS.values() for kind in examples(response)}
    nobodys = {"no-such-route", "method-not-allowed", "internal"}
    assert shown | nobodys == set(TITLES)
    assert not shown & nobodys


def test_the_examples_of_conflicts_are_what_the_server_says(server: Server) -> None:
    event = {"eventType": "FILE", "eventResourceId": "/in/a", "eventId": "42"}
    server.post("/events", {**event, "eventTimestamp": "2021-01-01T12:00:00Z"})
    server.post("/jobs", {"id": "order-1001"})
    server.post("/jobs", {"id": ID, "queue": "conflicts", "key": "digest-ada"})
    [job] = server.post("/queues/conflicts/claim").json["items"]
    token = {"token": job["token"]}
    step, done = f"/jobs/{ID}/operations/charge", {**token, "state": "succeeded"}
    server.put(step, {**done, "result": 1})
    again = {"queue": "conflicts", "key": "digest-ada", "if_exists": "replace"}
    replies = [
        server.put(step, {**done, "result": 2}),
        server.post("/jobs", again),
        server.post("/jobs", {"id": "order-1001", "priority": 1}),
        server.post("/events", {**event, "eventTimestamp": "2021-01-01T13:00:00Z"}),
    ]
    server.post(f"/jobs/{ID}/complete", token)
    replies.append(server.delete(f"/jobs/{ID}"))
    told = {reply.json["type"].rpartition("/")[2]: reply.json for reply in replies}
    shown = examples(REFUSALS["Conflict"])
    shown.pop("fenced")
    assert told == shown


def test_the_fields_of_a_new_job_are_those_that_are_read() -> None:
    assert list(NewJob.__struct_fields__) == intake.FIELDS


# -- validity --------------------------------------------------------------------------------------


def test_the_size_of_a_payload_is_described_as_it_is_checked() -> None:
    described = DOCUMENT["components"]["schemas"]["Json"]["description"]
    assert described.endswith(f"at most {payload.LIMIT_BYTES:,} bytes.")


def test_it_is_valid_openapi() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_a_shape_is_valid_json_schema(name: str) -> None:
    assert jsonschema_rs.meta.is_valid(DOCUMENT["components"]["schemas"][name])
    validator({"$ref": f"#/components/schemas/{name}"})


def test_every_reference_leads_somewhere() -> None:
    for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(DOCUMENT))):
        place: Any = DOCUMENT
        for part in reference.split("/"):
            place = place[part]


@each_route
def test_the_examples_are_what_the_shapes_say(method: str, path: str, told: dict[str, Any]) -> None:
    contents = list(told.get("requestBody", {}).get("content", {}).values())
    for response in told["responses"].values():
        if "$ref" in response:
            response = DOCUMENT["components"]["responses"][response["$ref"].split("/")[-1]]
        contents += response.get("content", {}).values()
    for content in [*contents, *told.get("parameters", [])]:
        examples = [one["value"] for one in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for example in examples:
            validator(content["schema"]).validate(example)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.id)
def test_a_sample_has_the_fields_of_its_shape_and_no_others(route: Route) -> None:
    bodies = route.body if isinstance(route.body, dict) else {JSON_TYPE: route.body}
    shapes = {f"{route.id} {status}": one.shape for status, one in route.answers.items()}
    shapes |= {f"{route.id} {media_type}": shape for media_type, shape in bodies.items()}
    for place, shape in shapes.items():
        if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
            found = sample(shape, place)
            decoded = msgspec.json.decode(json.dumps(found), type=shape)
            written = msgspec.json.decode(msgspec.json.encode(decoded))
            free = {"text"} if shape in (Task, NewTask) else set()  # a task has any other fields
            assert found.keys() - free <= written.keys()


def test_every_sample_is_shown_somewhere() -> None:
    shapes = set(DOCUMENT["components"]["schemas"])
    places = {
        f"{told['operationId']} {place}"
        for _, _, told in DESCRIBED
        for place in [*told["responses"], *told.get("requestBody", {}).get("content", {})]
    }
    assert kept_samples().keys() <= shapes | places


@each_route
def test_a_route_is_told_in_full(method: str, path: str, told: dict[str, Any]) -> None:
    assert told["summary"]
    assert told["description"]
    assert told["tags"][0] in [tag["name"] for tag in DOCUMENT["tags"]]
    assert any(status < "400" for status in told["responses"])
    in_path = {one["name"] for one in told.get("parameters", []) if one["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", path))


@each_route
def test_what_needs_a_scope_says_so(method: str, path: str, told: dict[str, Any]) -> None:
    [route] = [one for one in ROUTES if (one.method, one.path) == (method, path)]
    if route.scope is not None:
        assert told["security"] == [{"bearer": []}]
        assert told["x-oncue-scope"] == route.scope
        assert "401" in told["responses"]
    else:
        assert {"bearer": []} not in told["security"] or {} in told["security"]


# -- what the shapes say ---------------------------------------------------------------------------


def test_a_job_has_a_due_time_or_a_delay_but_not_both() -> None:
    moment = "2026-12-01T12:00:00Z"
    assert accepts("NewJob")
    assert accepts("NewJob", due_at=moment)
    assert accepts("NewJob", delay=5, due_at=None)
    assert not accepts("NewJob", delay=5, due_at=moment)


@pytest.mark.parametrize(
    "fields",
    [
        {"due_at": "2026-12-01T12:00:00"},
        {"due_at": "tomorrow"},
        {"delay": -1},
        {"delay": "1 hour"},
        {"delay": "P1M"},
        {"delay": "P1DT"},
        {"priority": 10},
        {"priority": 0.5},
        {"queue": "a b"},
        {"queue": "-a"},
        {"id": "batch"},
        {"id": "a" * 81},
        {"owner": ""},
        {"owner": "a\nb"},
        {"payload": {"a": ["\0"]}},
        {"payload": {"\0": 1}},
        {"max_attempts": 21},
        {"timeout_seconds": 0},
        {"timeout_seconds": "PT0S"},
        {"if_exists": "fail"},
        {"nonsense": 1},
    ],
    ids=str,
)
def test_what_the_server_refuses_the_shape_forbids(fields: dict[str, Any], server: Server) -> None:
    assert not accepts("NewJob", **fields)
    assert server.post("/jobs", fields).status == 422


@pytest.mark.parametrize(
    "fields",
    [
        {"due_at": "2026-12-01t12:00:00.1234567+01:00"},
        {"delay": "P1W2DT3H4M5.5S"},
        {"delay": 0.25},
        {"queue": "a.b-c_d"},
        {"owner": "Ada Lovelace, née Byron"},
        {"payload": [None, True, 1e300, "ü", {"": {}}]},
        {"timeout_seconds": "PT0.5S"},
        dict.fromkeys(intake.FIELDS),
    ],
    ids=str,
)
def test_what_the_shape_allows_the_server_accepts(fields: dict[str, Any], server: Server) -> None:
    assert accepts("NewJob", **fields)
    assert server.post("/jobs", fields).status == 201


def test_a_queue_without_a_sink_cannot_complete_by_delivery() -> None:
    assert accepts("QueueSettings", sink="log:", completion="delivery")
    assert accepts("QueueSettings", completion="worker")
    assert not accepts("QueueSettings", completion="delivery")
    assert not accepts("QueueSettings", completion="delivery", sink=None)


def test_a_task_has_a_date_or_a_number_of_days_and_any_other_fields() -> None:
    assert accepts("NewTask", userId="ada", afterDays=3, text="tea")
    assert accepts("NewTask", userId=7, dueDate="2026-12-01")
    assert not accepts("NewTask", userId="ada")
    assert not accepts("NewTask", userId="ada", afterDays=3, dueDate="2026-12-01")
    assert not accepts("NewTask", userId="ada", afterDays=3, status="DONE")


# -- served ----------------------------------------------------------------------------------------


def test_programs_get_the_description(server: Server) -> None:
    reply = server.get("/openapi.json")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/docs/style.css", "/docs/script.js"])
def test_what_is_known_already_is_not_sent_again(path: str, server: Server) -> None:
    tag = server.get(path).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = server.get(path, headers={"If-None-Match": known})
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == tag
        assert "content-length" not in again.headers
    assert server.get(path, headers={"If-None-Match": '"other"'}).status == 200


def test_the_start_leads_to_the_page(server: Server) -> None:
    reply = server.get("/")
    assert (reply.status, reply.headers["location"]) == (307, "/docs")


@pytest.mark.parametrize("kind", TITLES)
def test_the_type_of_a_problem_is_an_address(kind: str, server: Server) -> None:
    assert server.get(PREFIX + kind).json == {"type": PREFIX + kind, "title": TITLES[kind]}


# -- the page --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids += [told["id"] or ""] if told.get("id") else []
        self.targets += [told[name] or "" for name in ("href", "src") if name in told]
        assert not [name for name in told if name.startswith("on") or name == "style"]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_its_links_lead_somewhere(server: Server) -> None:
    found = Page(server.get("/docs").body.decode())
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    inside = [target[1:] for target in found.targets if target.startswith("#")]
    assert set(inside) <= set(found.ids)
    outside = {target for target in found.targets if not target.startswith("#")}
    assert outside == {"/docs/style.css", "/docs/script.js", "/openapi.json"}
    assert [server.get(target).status for target in outside] == [200, 200, 200]


@each_route
def test_the_page_shows_a_route(method: str, path: str, told: dict[str, Any]) -> None:
    assert f'id="{told["operationId"]}"' in PAGE
    assert f"<code>{path}</code>" in PAGE
    assert f"<code>{escape(curl(method.lower(), path, told))}</code>" in PAGE


def test_the_page_takes_nothing_from_elsewhere_and_runs_nothing_but_its_own(server: Server) -> None:
    policy = server.get("/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "frame-ancestors 'none'" in policy


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    components = DOCUMENT["components"]
    schemas = {'"><script>': {"properties": {"x": {"const": "<u>"}}}, "y": {"enum": ["<s>"]}}
    text = page(
        {
            **DOCUMENT,
            "info": {"title": "<b>", "version": "&", "description": "`<i>`"},
            "components": {**components, "schemas": schemas | components["schemas"]},
        }
    )
    assert not {"<b>", "<i>", "<u>", "<s>", '"><script>'} & set(re.findall(r'"?>?<\w+>', text))
    assert "<code>&lt;i&gt;</code>" in text
    assert "<code>&lt;u&gt;</code>" in text
