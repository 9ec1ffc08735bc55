"""A request as the routes see it, and what they answer with."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote

import msgspec

from oncue.api.arrival import PENDING, at_once, in_time
from oncue.api.problems import Problem, invalid
from oncue.api.unreadable import unreadable
from oncue.core.access import Scope
from oncue.core.text import escaped
from oncue.wire.problems import MEDIA_TYPE as PROBLEM_TYPE

JSON_TYPE = "application/json"
BODY_LIMIT = 2 * 1024 * 1024  # a payload of 256 KiB may be written with many escapes and spaces
QUERY_LIMIT = 100  # parameters
BODY_SECONDS = 60.0  # how long a body may take to arrive, or its next part where it is streamed

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")

read_json = msgspec.json.Decoder().decode
_decoder: Any = cache(msgspec.json.Decoder)  # one for each shape
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Raised by `read_json` for what is not JSON."""


class Answer(NamedTuple):
    status: int
    body: bytes
    media_type: str = JSON_TYPE
    headers: Mapping[str, str] = {}
    unread: Callable[[], None] | None = None
    """Called instead of sending the answer if the client has left by then."""


def json_answer(fields: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, msgspec.json.encode(fields), JSON_TYPE, headers)


def problem_answer(problem: Problem) -> Answer:
    return Answer(problem.status, problem.body(), PROBLEM_TYPE, problem.headers)


class Request:
    """`path` is as it was sent, percent-encoded; `parameters` are the parts of it that the route
    leaves open, decoded."""

    __slots__ = (
        *("_headers", "_receive", "id", "job_id", "method", "parameters", "path", "query"),
        *("scope", "scopes"),
    )

    def __init__(self, scope: MutableMapping[str, Any], receive: Receive, request_id: str) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        self.path = raw.decode("ascii", "backslashreplace")
        self.parameters: tuple[str, ...] = ()
        self.query: dict[str, str] = {}
        self.id = request_id
        self.job_id: str | None = None
        """The job it is about, once known; for the log."""
        self.scopes: frozenset[Scope] | None = None
        """What the caller may do; None: nobody knows who it is."""
        self._receive = receive
        self._headers: dict[bytes, bytes] | None = None

    @property
    def subject(self) -> str:
        """What the path names first: a job, queue, rule or schedule."""
        return self.parameters[0]

    def header(self, name: bytes) -> str | None:
        """The header of this (lower-case) name."""
        if self._headers is None:
            self._headers = dict(self.scope["headers"])
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def read_query(self, allowed: Collection[str]) -> None:
        """Set `query`; parameters that are unknown or repeated are refused."""
        text: bytes = self.scope["query_string"]
        if not text:
            return
        try:
            pairs = parse_qsl(
                text.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_LIMIT,
            )
        except ValueError:
            raise invalid(
                f"must be percent-encoded UTF-8, at most {QUERY_LIMIT} parameters.", "?"
            ) from None
        for name, value in pairs:
            if name not in allowed:
                known = f"known are {', '.join(allowed)}" if allowed else "none is known here"
                raise invalid(f"there is no such query parameter; {known}.", f"?{name}")
            if name in self.query:
                raise invalid("give it once.", f"?{name}")
            self.query[name] = value

    async def decoded(self, shape: type[T]) -> T:
        """The body as the shape it must have; no body is an empty object."""
        text = await self.body()
        try:
            body: T = _decoder(shape).decode(text or b"{}")
            return body
        except msgspec.ValidationError as problem:
            raise _misshapen(text, problem) from None
        except UNREADABLE as problem:
            raise unreadable(text, problem) from None

    async def json(self) -> Any:
        """The body, whatever it says; no body is an empty object."""
        text = await self.body()
        try:
            return read_json(text) if text else {}
        except UNREADABLE as problem:
            raise unreadable(text, problem) from None

    async def body(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole body, which must be JSON if there is any."""
        message = await self._next()
        text: bytes = message.get("body", b"")
        if message.get("more_body"):
            text = await _in_time(self._rest(text, limit))
        if len(text) > limit:
            raise too_large(limit)
        if text:
            self.require_media_type((JSON_TYPE,))
        return text

    async def _rest(self, first: bytes, limit: int) -> bytes:
        announced = self.header(b"content-length") or ""
        if announced.isdecimal() and int(announced) > limit:
            raise too_large(limit)
        parts, size, more = [first], len(first), True
        while more:
            message = _there(await self._receive())
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise too_large(limit)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def _next(self) -> MutableMapping[str, Any]:
        return _there(await _in_time(self._receive()))

    async def parts(self) -> Any:
        """The body as it arrives, part by part."""
        more = True
        while more:
            message = await self._next()
            if part := message.get("body", b""):
                yield part
            more = message.get("more_body", False)

    async def gone(self) -> None:
        """Return when the client has left. Only after the body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            continue

    def has_left(self) -> bool:
        """Whether the client has left. Only after the body has been read, and without waiting."""
        message = at_once(self._receive())
        return message is not PENDING and bool(message["type"] == "http.disconnect")

    def require_media_type(self, allowed: Collection[str]) -> str:
        """The media type of the body, one of these."""
        given = (self.header(b"content-type") or "").partition(";")[0].strip().lower()
        if given not in allowed:
            told = f"is {given!r}" if given else "is not said"
            raise Problem(
                "unsupported-media-type",
                f"The body's media type {told}; send Content-Type: {' or '.join(allowed)}.",
                headers={"accept": ", ".join(allowed)},
            )
        return given


class Gone(Exception):
    """The client left before the request was complete: there is nobody to answer."""


def _there(message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The message, unless it is that the client has left."""
    if message["type"] == "http.disconnect":
        raise Gone
    return message


async def _in_time(arriving: Awaitable[T]) -> T:
    try:
        return await in_time(arriving, BODY_SECONDS)
    except TimeoutError:
        raise Problem("request-timeout", "The body did not arrive in time.") from None


def too_large(limit: int) -> Problem:
    return Problem("too-large", f"The body is too large; at most {limit:,} bytes are read here.")


_PLACE = re.compile(r"^(?P<text>.*?)(?: - at `(?P<key>key )?(?P<place>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(.*)`$", re.DOTALL)
_GOT = re.compile(r"^Expected `(.*)`, got `(.*)`$", re.DOTALL)


def _misshapen(text: bytes, problem: msgspec.ValidationError) -> Problem:
    """The shape is read as far as it is right; whether the rest is JSON at all comes first."""
    try:
        read_json(text or b"{}")
    except UNREADABLE as malformed:
        return unreadable(text, malformed)
    return _invalid_shape(problem)


def _invalid_shape(problem: msgspec.ValidationError) -> Problem:
    match = _PLACE.match(str(problem))
    assert match is not None  # it matches anything
    text, pointer = match["text"], _pointer(match["place"] or "")
    if unknown := _UNKNOWN.match(text):
        return invalid("there is no such field here.", f"{pointer}/{escaped(unknown[1])}")
    if missing := _MISSING.match(text):
        return invalid("this field is required.", f"{pointer}/{missing[1]}")
    if got := _GOT.match(text):
        wanted = re.sub(r"\bint\b", "a whole number", got[1]).replace(" | ", " or ")
        return invalid(f"must be {wanted}, not {got[2]}.", pointer)
    return invalid(f"{text[:1].lower()}{text[1:].replace('`', '')}.", pointer)


def _pointer(place: str) -> str:
    """A JSON pointer for msgspec's `$.items[0].id`."""
    return re.sub(r"\[(\d+)\]", r"/\1", place.removeprefix("$")).replace(".", "/")
