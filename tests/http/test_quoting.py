"""Errors that repeat what was sent: however much it was, the answer is short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oncue.api.request import BODY_LIMIT
from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from oncue.core.text import QUOTED_LIMIT
from tests.http.routes import filled, takes_body, title
from tests.http.server import Reply, Server

JSON = {"Content-Type": "application/json"}
LONG = "x" * 20_000  # in a path or a header
LONGER = "x" * 1_000_000  # in a body
SHORT_BYTES = 4000

each_route = pytest.mark.parametrize("route", ROUTES, ids=title)
each_open_route = pytest.mark.parametrize(
    "route", [route for route in ROUTES if "{" in route.path], ids=title
)
each_with_body = pytest.mark.parametrize("route", [*filter(takes_body, ROUTES)], ids=title)


def is_short(reply: Reply) -> bool:
    """Whether the answer is a problem that repeats little of the input."""
    assert 400 <= reply.status < 500, (reply.status, reply.body[:300])
    repeated = json.dumps("x" * (QUOTED_LIMIT + 1))[1:-1].encode()
    return len(reply.body) <= SHORT_BYTES and repeated not in reply.body


@each_open_route
def test_a_path_is_cut(server: Server, route: Route) -> None:
    reply = server.ask(route.method, filled(route.path, LONG))
    assert reply.status == 200 or is_short(reply)  # a page of a user who has no tasks


@each_route
def test_a_query_parameter_is_cut(server: Server, route: Route) -> None:
    assert is_short(server.ask(route.method, filled(route.path) + f"?{LONG}=1"))
    for name in route.query:
        reply = server.ask(route.method, filled(route.path) + f"?{name}={LONG}")
        assert is_short(reply)


@each_with_body
def test_a_header_is_cut(server: Server, route: Route) -> None:
    path = filled(route.path)
    assert is_short(server.ask(route.method, path, body=b"{}", headers={"Content-Type": LONG}))


@each_with_body
def test_the_name_of_a_field_is_cut(server: Server, route: Route) -> None:
    for fields in ({LONGER: 1}, {"a": [{LONGER: "\ud800"}]}, {"\ud800" + LONGER: 1}):
        assert is_short(server.ask(route.method, filled(route.path), fields))


def names_of(route: Route) -> list[str]:
    return list(getattr(route.body, "__struct_fields__", ()))


def around(text: str) -> list[Any]:
    return [text, [text], [{text: text}], {text: text}, {text: [text]}]


@each_with_body
def test_a_value_is_cut(server: Server, route: Route) -> None:
    for name in names_of(route):
        if name in ("payload", "result"):  # which may be long
            continue
        for value in around(LONGER):
            assert is_short(server.ask(route.method, filled(route.path), {name: value})), name


def test_a_name_inside_a_payload_is_cut(server: Server) -> None:
    deep: Any = "\0"
    for _ in range(100):
        deep = {"x" * 1000: deep}
    assert is_short(server.post("/jobs", {"payload": deep}))
    deep = "\ud800"
    for _ in range(900):
        deep = {"x" * 2000: deep}
    assert is_short(server.post("/jobs", {"payload": deep}))


def peak_bytes(server: Server) -> int:
    """The most memory that the process of the server has used."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def test_rejected_lines_are_cut_and_not_kept(server: Server) -> None:
    line = json.dumps({"x" * (BODY_LIMIT - 100): 1}).encode()
    server.post("/jobs/batch", body=line, headers=NDJSON)
    before = peak_bytes(server)
    reply = server.post("/jobs/batch", body=b"\n".join([line] * 40), headers=NDJSON)
    assert reply.status == 200
    assert reply.json["rejected_count"] == len(reply.json["rejected"]) == 40
    assert len(reply.body) < 40 * SHORT_BYTES
    assert peak_bytes(server) - before < 20 * BODY_LIMIT


def test_an_answer_to_many_rejected_lines_is_bounded(server: Server) -> None:
    line = json.dumps({"\U0001f600" * 300: 1}, ensure_ascii=False).encode()
    reply = server.post("/jobs/batch", body=b"\n".join([line] * 5000), headers=NDJSON)
    assert (reply.json["rejected_count"], len(reply.json["rejected"])) == (5000, 1000)
    assert len(reply.body) < 2_000_000


NDJSON = {"Content-Type": "application/x-ndjson"}
