"""Requests as bytes: right ones, and what Hypothesis makes of the description of each route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from oncue.api.docs.samples import NONE, sample
from oncue.api.routes import ROUTES
from oncue.api.routing import Route
from tests.fuzz.mutations import mutated
from tests.fuzz.shapes import NAMES, TEXTS, values, written
from tests.http.routes import filled

WORDS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\0",
        b" ",
        b":",
        b"\xff",
        b"\x80",
        b"%ff",
        b"%00",
        b"?",
    ),
    *(b"GET ", b"POST ", b"HEAD ", b"CONNECT ", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"PRI * "),
    *(b"Host: localhost\r\n", b"Host: evil.example\r\n", b"Origin: null\r\n", b"Cookie: a=b\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999\r\n"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    *(b"ffffffffffffffff\r\n", b"5;a=b\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n"),
    *(b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Content-Encoding: gzip\r\n", b"\x1f\x8b"),
    *(b"Authorization: Bearer \xff\r\n", b"If-None-Match: *\r\n", b"Range: bytes=0-\r\n"),
    *(b"{", b"}", b"[", b'"', b"\\ud800", b"1e999", b"null", b"/jobs", b"/..", b"//"),
)


def rendered(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """A whole request, after whose answer the connection is closed."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def right(route: Route) -> bytes:
    """The request in the example of the description."""
    shapes = route.body if isinstance(route.body, dict) else {"application/json": route.body}
    media_type, shape = next(iter(shapes.items()))
    if shape is None:
        return rendered(route.method, filled(route.path, "a"), {}, None)
    found = sample(shape, route.id)
    body = b"{}" if found is NONE else json.dumps(found).encode()
    return rendered(route.method, filled(route.path, "a"), {"Content-Type": media_type}, body)


RIGHT = [right(route) for route in ROUTES]


@st.composite
def calls(draw: DrawFn) -> bytes:
    """A well-formed request to some route, with any content."""
    route = draw(st.sampled_from(ROUTES))
    parts = st.sampled_from(NAMES) | st.sampled_from(TEXTS).map(_quoted)
    path = route.path
    for name in route.names:
        path = path.replace(f"{{{name}}}", draw(parts) or "a")
    text = "&".join(f"{name}={draw(parts)}" for name in route.query if not draw(st.integers(0, 3)))
    headers = {
        name: draw(st.sampled_from([*NAMES, '"a"', "*"]))
        for name in route.headers
        if draw(st.booleans())
    }
    body = None
    if route.body is not None:
        media_type, body = draw(_bodies(route))
        headers["Content-Type"] = media_type
    return rendered(route.method, f"{path}?{text}" if text else path, headers, body)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@st.composite
def _bodies(draw: DrawFn, route: Route) -> tuple[str, bytes]:
    shapes: dict[str, Any] = (
        route.body if isinstance(route.body, dict) else {"application/json": route.body}
    )
    media_type = draw(st.sampled_from(sorted(shapes)))
    if media_type != "application/json":  # one value a line
        items = draw(st.lists(values(_item(shapes["application/json"])), max_size=5))
        return media_type, b"\n".join(written(one) for one in items)
    return media_type, written(draw(values(shapes[media_type])))


def _item(shape: Any) -> Any:
    return shape.__args__[0]


def _raw() -> SearchStrategy[bytes]:
    parts = st.sampled_from(WORDS) | st.binary(max_size=30)
    begun = st.sampled_from([b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"])
    return st.tuples(begun, st.lists(parts, max_size=12).map(b"".join)).map(b"".join)


RAW = _raw()
MUTATED = mutated(
    st.lists(st.sampled_from(RIGHT), min_size=1, max_size=2).map(b"".join), words=WORDS
)
CALLS = calls()
