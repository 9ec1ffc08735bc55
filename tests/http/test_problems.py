"""Hostile input on every route: a problem that says what is wrong, and nothing stored."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from tests.http.errand import count
from tests.http.routes import filled, takes_body, title
from tests.http.server import Reply, Server

JSON = {"Content-Type": "application/json"}
WITH_BODY = [route for route in ROUTES if takes_body(route)]
DEEP = 10_000

each_route = pytest.mark.parametrize("route", ROUTES, ids=title)
each_open_route = pytest.mark.parametrize(
    "route", [route for route in ROUTES if "{" in route.path], ids=title
)
each_with_body = pytest.mark.parametrize("route", WITH_BODY, ids=title)


@pytest.fixture(autouse=True)
def _nothing_is_stored(server: Server) -> Iterator[None]:
    before = count(server)
    yield
    assert server.get("/livez").status == 200
    assert count(server) == before


def problem(reply: Reply, *statuses: int) -> Any:
    """The fields of a problem, which must look like one."""
    assert reply.status in statuses, (reply.status, reply.body[:300])
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["x-request-id"]
    fields = reply.json
    assert fields["status"] == reply.status
    assert fields["type"].startswith("/problems/")
    assert fields["title"]
    assert fields["detail"]
    if reply.status == 422:
        assert all(error.keys() == {"pointer", "detail"} for error in fields["errors"])
        assert fields["errors"]
    return fields


def sent(server: Server, route: Route, body: bytes, media_type: str = "") -> Reply:
    headers = {"Content-Type": media_type} if media_type else JSON
    return server.ask(route.method, filled(route.path), body=body, headers=headers)


@each_with_body
def test_what_is_not_json_is_a_400(server: Server, route: Route) -> None:
    nonsense = (
        b"{",
        b'{"a":1,}',
        b"text",
        b"\xff\xfe",
        b'{"a":"\xc3"}',
        b'{"a":NaN}',
        b"{}{}",
        b"\0",
    )
    for body in nonsense:
        problem(sent(server, route, body), 400)


@each_with_body
def test_another_media_type_is_a_415(server: Server, route: Route) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
        reply = sent(server, route, b"{}", media_type)
        assert "application/json" in problem(reply, 415)["detail"]


@each_with_body
def test_json_that_is_no_object_is_a_422(server: Server, route: Route) -> None:
    for body in (b"[]", b"null", b'"text"', b"7", b"true", b"[[1]]"):
        problem(sent(server, route, body), 422)


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/claim", "/queues"),
        ("/settle", "/items"),
        ("/tasks", "/userId"),
        ("/jobs/a/fail", "/token"),
    ],
)
def test_no_body_lacks_what_is_required(server: Server, path: str, pointer: str) -> None:
    assert problem(server.post(path), 422)["errors"][0]["pointer"] == pointer


@each_with_body
def test_a_field_that_is_unknown_is_a_422(server: Server, route: Route) -> None:
    fields = problem(sent(server, route, b'{"colour/~": 1}'), 422)
    if route.path != "/tasks":  # where it is content, and the user is missing
        assert fields["errors"][0]["pointer"] == "/colour~1~0"


@each_with_body
def test_lone_surrogates_are_refused_by_name(server: Server, route: Route) -> None:
    for body in (rb'{"a":"\ud800"}', rb'{"a":"\udc00 x"}', rb'{"a":["\ud83dx"]}'):
        fields = problem(sent(server, route, body), 422)
        assert fields["errors"][0]["pointer"].startswith("/a")
    problem(sent(server, route, rb'{"\ud800":1}'), 422)


@each_with_body
def test_numbers_beyond_all_bounds_are_refused_by_name(server: Server, route: Route) -> None:
    for number in (b"1e999", b"-1e999", b"9" * 5000, b"-" + b"9" * 100_000, b"9" * 400 + b".5"):
        fields = problem(sent(server, route, b'{"a": {"b": %b}}' % number), 422)
        assert fields["errors"][0]["pointer"].startswith("/a")


@each_with_body
def test_ten_thousand_levels_are_refused(server: Server, route: Route) -> None:
    for body in (
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"payload":' + b"[" * DEEP + b"]" * DEEP + b"}",
    ):
        problem(sent(server, route, body), 400)


@each_with_body
def test_ten_megabytes_are_a_413(server: Server, route: Route) -> None:
    large = json.dumps({"payload": "a" * 10_000_000}).encode()
    problem(sent(server, route, large), 413)


@pytest.mark.parametrize("path", ["/jobs", "/tasks"])
def test_a_large_body_of_unknown_length_is_a_413(server: Server, path: str) -> None:
    parts = (b" " * 65_536 for _ in range(160))
    problem(server.ask("POST", path, body=parts, headers=JSON), 413)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (rb'{"payload":"a\u0000b"}', "/payload"),
        (rb'{"payload":{"a":["\u0000"]}}', "/payload/a/0"),
        (rb'{"payload":{"\u0000":1}}', "/payload"),
        (rb'{"payload":{"a":"\ud800"}}', "/payload/a"),
        (rb'{"payload":[1e999]}', "/payload/0"),
        (rb'{"owner":"\u0000"}', "/owner"),
        (rb'{"key":"\u0000"}', "/key"),
        (rb'{"queue":"\u0000"}', "/queue"),
        (rb'{"id":"\u0000"}', "/id"),
        (rb'{"owner":"\udfff"}', "/owner"),
        (rb'{"delay":1' + b"0" * 400 + b"}", "/delay"),
        (rb'{"priority":1' + b"0" * 400 + b"}", "/priority"),
        (rb'{"payload":{"a":[' + b"9" * 5000 + b"]}}", "/payload/a/0"),
        (rb'{"max_attempts":' + b"9" * 5000 + b"}", "/max_attempts"),
    ],
)
def test_what_no_store_can_keep_is_named(server: Server, body: bytes, pointer: str) -> None:
    reply = server.ask("POST", "/jobs", body=body, headers=JSON)
    assert problem(reply, 422)["errors"][0]["pointer"] == pointer


# -- routes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/jobs/", "/jobs/a/b", "/jobs/a/operation", "//jobs", "/queues//claim", "/%00"],
)
def test_an_unknown_route_is_a_404(server: Server, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        problem(server.ask(method, path), 404)


@each_route
def test_another_method_is_a_405_that_names_those_it_takes(server: Server, route: Route) -> None:
    reply = server.ask("PROPFIND", filled(route.path))
    problem(reply, 405)
    allowed = reply.headers["allow"].split(", ")
    assert route.method in allowed
    assert ("HEAD" in allowed) == ("GET" in allowed)
    if "HEAD" in allowed:
        assert server.ask("HEAD", filled(route.path)).status != 405


@each_route
def test_a_query_that_is_not_utf_8_is_a_400(server: Server, route: Route) -> None:
    for query in ("%ff", "limit=%FF", "%c3=1", "queue=%ED%A0%80"):
        problem(server.ask(route.method, f"{filled(route.path)}?{query}"), 400)


@each_open_route
def test_hostile_paths_are_refused_or_not_found(server: Server, route: Route) -> None:
    problem(server.ask(route.method, filled(route.path, "%FF")), 400)
    for part in ("%00", "a" * 300, "%F0%9F%98%80", "'%3B--", "%ED%A0%80"):
        reply = server.ask(route.method, filled(route.path, part))
        if route.path != "/tasks/{userId}" or reply.status != 200:  # who may be called so
            problem(reply, 400, 404, 422)


@pytest.mark.parametrize(
    "text",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /jobs/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_not_http_is_a_problem_too(server: Server, text: bytes) -> None:
    head, _, body = exchanged(server, text).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["type"] == "/problems/malformed"


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, chunked", b"chunked\r\nHost: a"])
def test_a_request_behind_an_ambiguous_head_is_not_carried_out(
    server: Server, coding: bytes
) -> None:
    smuggled = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: %b\r\n\r\n" % coding
    answer = exchanged(server, head + b"0\r\n\r\n" + smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"content-length: ") == 1


@pytest.mark.parametrize(
    "text",
    [
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_nobody_is_connected_elsewhere(server: Server, text: bytes) -> None:
    assert exchanged(server, text).startswith(b"HTTP/1.1 400 ")


ENDLESS = {
    "a header": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 1024),
    "headers": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n" * 200),
    "a path": (b"GET /", b"a" * 1024),
    "a trailer": (
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"a" * 1024,
    ),
}


@pytest.mark.parametrize(("head", "part"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_is_not_kept(server: Server, head: bytes, part: bytes) -> None:
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port), 30) as connection:
        connection.sendall(head)
        with suppress(ConnectionError):
            for _ in range(20_000):
                connection.sendall(part)
            pytest.fail("the server goes on reading")
        with suppress(ConnectionError):  # the answer, if it is not lost with the connection
            assert connection.recv(65_536).startswith(b"HTTP/1.1 431 ")


def test_a_body_that_ends_too_soon_is_not_acted_upon(server: Server) -> None:
    head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    assert exchanged(server, head + b'Content-Length: 99\r\n\r\n{"queue":"half"}') == b""
    assert server.get("/jobs?queue=half").json["items"] == []


def exchanged(server: Server, text: bytes) -> bytes:
    """Everything that is answered to these bytes."""
    place = urlsplit(server.url)
    answer = b""
    with socket.create_connection((place.hostname, place.port), 30) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65_536):
            answer += part
    return answer
