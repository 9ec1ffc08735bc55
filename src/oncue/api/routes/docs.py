"""The description of the HTTP interface for programs (`/openapi.json`) and people (`/docs`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from oncue.api.request import JSON_TYPE, HttpAnswer, Request
from oncue.api.routing import Answered, Routes

if TYPE_CHECKING:
    from oncue.api.app import Service
    from oncue.api.routing import Action

# Only the two files of this page are loaded or run: a name that looks like a script stays a name.
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

routes = Routes("Server")


def _add(path: str, shape: Any) -> Callable[[Action], Action]:
    """Decorates the function that answers with a part of the description."""
    answers = {200: Answered(shape, headers=("ETag",)), 304: Answered(None, headers=("ETag",))}
    return routes.add(f"GET {path}", None, answers, static=True)


@_add("/openapi.json", dict[str, Any])
async def get_description(service: Service, request: Request) -> HttpAnswer:
    """This description, for programs.

    OpenAPI 3.1. With an `ETag`; send it back as `If-None-Match` to learn whether anything has
    changed.
    """
    return _cached(request, _description(), JSON_TYPE)


@_add("/docs", "text/html")
async def get_docs(service: Service, request: Request) -> HttpAnswer:
    """This description, for people.

    One page, nothing from elsewhere.
    """
    return _cached(request, _page(), "text/html; charset=utf-8")


@_add("/docs/style.css", "text/css")
async def get_docs_style(service: Service, request: Request) -> HttpAnswer:
    """The page's style.

    The style sheet of `/docs`.
    """
    return _cached(request, _file("style.css"), "text/css; charset=utf-8")


@_add("/docs/script.js", "text/javascript")
async def get_docs_script(service: Service, request: Request) -> HttpAnswer:
    """The page's script.

    Copies commands. The page can be read without it.
    """
    return _cached(request, _file("script.js"), "text/javascript; charset=utf-8")


@routes.add("GET /", None, {307: Answered(None, headers=("Location",))}, static=True)
async def get_start(service: Service, request: Request) -> HttpAnswer:
    """Where to start.

    Leads to `/docs`.
    """
    return HttpAnswer(307, b"", headers={"location": "/docs"})


def load_docs() -> None:
    """Make the pages now: no file is opened for them later."""
    _description()
    _page()
    _file("style.css")
    _file("script.js")


def _cached(request: Request, body: bytes, media_type: str) -> HttpAnswer:
    """The body, unless the client says that it has it."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {**_HEADERS, "etag": tag}
    known = (request.header(b"if-none-match") or "").replace("W/", "")
    if tag in (one.strip() for one in known.split(",")):
        return HttpAnswer(304, b"", media_type, headers)
    return HttpAnswer(200, body, media_type, headers)


@cache
def _document() -> dict[str, Any]:
    from oncue.api.docs.openapi import document
    from oncue.api.routes import ROUTES

    return document(ROUTES)


@cache
def _description() -> bytes:
    return msgspec.json.encode(_document())


@cache
def _page() -> bytes:
    from oncue.api.docs.page import page

    return page(_document()).encode()


@cache
def _file(name: str) -> bytes:
    return files("oncue.api.docs").joinpath(name).read_bytes()
