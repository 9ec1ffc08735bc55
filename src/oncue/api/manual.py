"""What can be asked, told to programs (`/openapi.json`) and to people (`/docs`)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from oncue.api.request import JSON_TYPE, Answer, Request
from oncue.api.routing import Operation

if TYPE_CHECKING:
    from oncue.api.service import Service

# Nothing runs or is loaded but the two files of ours: a name that looks like a script stays a name.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
}


async def description(service: Service, request: Request) -> Answer:
    request.query()
    return _cached(request, _description(tuple(service.router.operations)), JSON_TYPE)


async def docs(service: Service, request: Request) -> Answer:
    request.query()
    return _cached(request, _page(tuple(service.router.operations)), "text/html; charset=utf-8")


async def style(service: Service, request: Request) -> Answer:
    request.query()
    return _cached(request, _file("style.css"), "text/css; charset=utf-8")


async def script(service: Service, request: Request) -> Answer:
    request.query()
    return _cached(request, _file("script.js"), "text/javascript; charset=utf-8")


async def start(service: Service, request: Request) -> Answer:
    request.query()
    return Answer(307, b"", headers={"location": "/docs"})


def _cached(request: Request, body: bytes, media_type: str) -> Answer:
    """The body, unless the client says that it has it."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {**_HEADERS, "etag": tag}
    known = (request.header(b"if-none-match") or "").replace("W/", "")
    if tag in (one.strip() for one in known.split(",")):
        return Answer(304, b"", media_type, headers)
    return Answer(200, body, media_type, headers)


@lru_cache(maxsize=1)
def _description(operations: tuple[Operation, ...]) -> bytes:
    from oncue.api.openapi import document

    return msgspec.json.encode(document(operations))


@lru_cache(maxsize=1)
def _page(operations: tuple[Operation, ...]) -> bytes:
    from oncue.api.openapi import document
    from oncue.api.pages.docs import page

    return page(document(operations)).encode()


@lru_cache(maxsize=2)
def _file(name: str) -> bytes:
    return files("oncue.api.pages").joinpath(name).read_bytes()


OPERATIONS = [
    Operation("GET", "/openapi.json", description, None, "This description, for programs"),
    Operation("GET", "/docs", docs, None, "This description, for people"),
    Operation("GET", "/docs/style.css", style, None, "The page's style"),
    Operation("GET", "/docs/script.js", script, None, "The page's script"),
    Operation("GET", "/", start, None, "Where to start"),
]
