"""Requests as routes read them, and answers."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, MutableMapping
from functools import cache
from itertools import count
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec

from oncue.api.arrival import PENDING, at_once, in_time
from oncue.api.incoming import Incoming
from oncue.api.inflating import Inflating, inflating, too_large
from oncue.api.problems import HttpProblem, invalid
from oncue.api.unreadable import UNREADABLE, read_json, unreadable
from oncue.core.text import quoted
from oncue.ports.clock import Clock
from oncue.wire.jobs import CONTENT
from oncue.wire.problems import MEDIA_TYPE as PROBLEM_TYPE

JSON_TYPE = "application/json"
WITHOUT_CONTENT = (204, 304)  # statuses of answers that have no body by definition
BODY_LIMIT = 2 * 1024 * 1024  # a payload of 256 KiB may be written with many escapes and spaces
NO_ROUTE = "-"
QUERY_LIMIT = 100  # parameters
BODY_SECONDS = 60.0  # how long a body may take to arrive, or its next part where it is streamed

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")

write_json = msgspec.json.Encoder().encode
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_raw_items = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decoder: Any = cache(msgspec.json.Decoder)  # one for each shape
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._=-]{1,64}")  # those of API Gateway end in "="
_PROCESS = secrets.token_hex(4)  # with a number it makes an id: chance for each costs a system call
_numbers = count(1)


def _shown(job: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    return {name: value for name, value in job.items() if name not in CONTENT}


class HttpAnswer(NamedTuple):
    status: int
    body: bytes
    media_type: str = JSON_TYPE
    headers: Mapping[str, str] = {}
    unread: Callable[[], None] | None = None
    """Called instead of sending the answer if the client has left by then."""
    is_own: bool = False
    """It has no more content of jobs than the caller has just sent."""

    def without_content(self) -> HttpAnswer:
        """For a caller who may not read jobs: what they are and where, but not what is in them."""
        fields = _raw_fields(self.body)
        if (sample := fields.get("sample")) is not None:
            fields["sample"] = msgspec.Raw(write_json(list(map(_shown, _raw_items(sample)))))
        return self._replace(body=write_json(_shown(fields)))

    def head(self, request_id: str) -> str:
        """Its headers, as they are sent: a line for each."""
        lines = f"x-request-id: {request_id}\r\n"
        if self.status not in WITHOUT_CONTENT:
            size = len(self.body)
            lines += f"content-type: {self.media_type}\r\ncontent-length: {size}\r\n"
        for name, value in self.headers.items():
            if not value.isprintable():
                raise ValueError(f"the header {name} has a control character")
            lines += f"{name.replace('_', '-')}: {value}\r\n"
        return lines


def json_answer(fields: Any, status: int = 200, **headers: str) -> HttpAnswer:
    return HttpAnswer(status, write_json(fields), JSON_TYPE, headers)


def problem_answer(problem: HttpProblem) -> HttpAnswer:
    return HttpAnswer(
        problem.fields.status, write_json(problem.fields), PROBLEM_TYPE, problem.headers
    )


class Request:
    """`path` is as it was sent, percent-encoded; `parameters` are the parts of it that the route
    leaves open, decoded."""

    __slots__ = (
        *("_body", "_headers", "_query", "_receive", "answer_by", "began", "id", "job_id"),
        *("is_streamed", "may_read", "method", "parameters", "path", "query", "route"),
    )

    def __init__(
        self,
        method: str,
        path: bytes,
        query: bytes,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        body: Incoming | None = None,
    ) -> None:
        """The names of `headers` are in lower case. `receive` is the one of ASGI; `body` is what it
        receives, if that is known."""
        self.method = method
        self.path = path.decode("ascii", "backslashreplace")
        self.parameters: tuple[str, ...] = ()
        self.query: dict[str, str] = {}
        self.id = _id_of(headers)
        self.job_id: str | None = None
        """The job it is about, once known; for the log."""
        self.route = NO_ROUTE
        """The path of its route, once known."""
        self.began = 0.0
        """When the service began with it, monotonic."""
        self.answer_by = math.inf
        """When the host of the service needs the answer, monotonic."""
        self.may_read = True
        """Whether the caller may see what is in jobs."""
        self.is_streamed = False
        """Whether its body is read part by part, and not kept."""
        self._query = query
        self._headers = headers
        self._receive = receive
        self._body = body

    @property
    def subject(self) -> str:
        """The first parameter in the path: the name of a job, queue, rule or schedule."""
        return self.parameters[0]

    def header(self, name: bytes) -> str | None:
        """The header of this (lower-case) name."""
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def seconds_left(self, clock: Clock) -> float:
        """How long the answer may take: any time, unless the host of the service has set an end."""
        return max(0.0, self.answer_by - clock.monotonic())

    def read_query(self, allowed: Collection[str]) -> None:
        """Set `query`; parameters that are unknown or repeated are refused."""
        if not self._query:
            return
        try:
            pairs = parse_qsl(
                self._query.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_LIMIT,
            )
        except UnicodeError:
            raise HttpProblem("malformed", "The query is not percent-encoded UTF-8.") from None
        except ValueError:
            raise invalid(f"at most {QUERY_LIMIT} parameters are read.", "?") from None
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
        except UNREADABLE as problem:
            raise unreadable(text, problem) from None

    async def json(self) -> Any:
        """The body, any JSON; no body is an empty object."""
        text = await self.body()
        try:
            return read_json(text) if text else {}
        except UNREADABLE as problem:
            raise unreadable(text, problem) from None

    async def body(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole body, which must be JSON if there is any."""
        text = None if self._body is None else self._body.at_hand()
        if text is None:
            text = await _in_time(self._whole(limit))
        elif len(text) > limit:
            raise too_large(limit)
        if text and (inflating := self.inflating(limit)) is not None:
            text = inflating.whole(text)
        if text and self.header(b"content-type") != JSON_TYPE:
            self.require_media_type((JSON_TYPE,))
        return text

    async def _whole(self, limit: int) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = _there(await self._receive())
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > limit or (more and self._announced() > limit):
                raise too_large(limit)
        return b"".join(parts)

    def _announced(self) -> int:
        """How long the body will be, if its head says it."""
        text = self.header(b"content-length") or ""
        return int(text) if text.isdecimal() else 0

    def inflating(self, limit: int) -> Inflating | None:
        """What inflates the body to at most so many bytes; None: it was sent as it is."""
        return inflating(self.header(b"content-encoding"), limit)

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it arrives, part by part, and as it was sent."""
        self.is_streamed = more = True
        while more:
            message = _there(await _in_time(self._receive()))
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

    @property
    def is_gone(self) -> bool:
        """Whether the client is known to have left; at any time."""
        return self._body is not None and self._body.gone

    def require_media_type(self, allowed: Collection[str]) -> str:
        """The media type of the body, one of these."""
        given = (self.header(b"content-type") or "").partition(";")[0].strip().lower()
        if given not in allowed:
            found = f"is {quoted(given)}" if given else "is missing"
            raise HttpProblem(
                "unsupported-media-type",
                f"The body's media type {found}; send Content-Type: {' or '.join(allowed)}.",
                headers={"accept": ", ".join(allowed)},
            )
        return given


def new_request_id() -> str:
    return f"{_PROCESS}{next(_numbers):08x}"


def _id_of(headers: Mapping[bytes, bytes]) -> str:
    """The caller's own, if it sent a plain one; else a new one."""
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return new_request_id()


class Gone(Exception):
    """The client left before the request was complete: no answer can be sent."""


def _there(message: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The message, unless it is that the client has left."""
    if message["type"] == "http.disconnect":
        raise Gone
    return message


async def _in_time(arriving: Awaitable[T]) -> T:
    try:
        return await in_time(arriving, BODY_SECONDS)
    except TimeoutError:
        raise HttpProblem("request-timeout", "The body did not arrive in time.") from None
