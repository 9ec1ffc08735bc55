"""One connection: HTTP/1.1 on the wire. httptools reads it; this decides what is answered, in which
order, and when a client has had enough time.

Requests are answered one at a time. While one is answered, no more is parsed than the next one,
with those that came in the same `PIECE`: a little of what follows is kept, the rest waits with the
client. An answer is written as a whole; as long as the client does not read it, nothing else is
done for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httptools

from oncue.api.heads import Head
from oncue.api.incoming import BODY_AHEAD, Incoming
from oncue.api.problems import HttpProblem
from oncue.api.request import HttpAnswer, Request, new_request_id, problem_answer

if TYPE_CHECKING:
    from oncue.api.connections import Connections

HEAD_LIMIT = 64 * 1024  # bytes of a request's line and headers, checked after each read
PIECE = 4 * 1024  # bytes that are read at once: each request may be very short
LINGER_LIMIT = 4 * 1024 * 1024  # bytes that are thrown away after the last answer
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n" for one in HTTPStatus}
_HEAD_TOO_LARGE = HttpProblem(
    "too-large",
    f"The request's line and headers are too large; at most {HEAD_LIMIT:,} bytes are read.",
    status=431,
)
_HEAD_TOO_LATE = HttpProblem("request-timeout", "The head of the request did not arrive in time.")
_FULL = HttpProblem(
    "too-many-connections",
    "The server has as many connections as it may. Close those that are not needed, or try again.",
    headers={"retry-after": "1"},
)

logger = logging.getLogger("oncue.http")


class _Asked(Incoming):
    """A request, and whether the connection goes on after it."""

    __slots__ = ("expects", "keeps_alive", "request")

    request: Request

    def __init__(self, connection: HttpConnection, keeps_alive: bool, expects: bool) -> None:
        super().__init__(connection)
        self.keeps_alive = keeps_alive
        self.expects = expects  # to be told that its body is wanted


class HttpConnection(asyncio.Protocol):
    """Made by `Connections`, which counts it among those it belongs to."""

    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._service = connections.service
        self._loop = connections.loop
        self._parser: Any = _parser(self)
        self._head = Head()
        self._reading: _Asked | None = None  # whose body the parser is in
        self._answering: _Asked | None = None
        self._waiting: deque[_Asked | HttpProblem] = deque()
        self._unread = b""  # by the parser
        self._moved = False  # the parser, past a head or into a body
        self._withheld = 0  # bytes that the parser keeps
        self._is_in_head = False  # of a request that has begun
        self._is_held = False  # nothing is read from the socket
        self._is_full = False  # the client does not read
        self._is_last = False  # what arrives now is thrown away
        self._thrown_away = 0
        self.body_bytes = 0
        """That have arrived of the body of the request that is answered, unless it is streamed."""
        self.task: asyncio.Task[None] | None = None
        """That answers the request."""

    # -- the connection ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._all.admit(self):
            self._is_last = True
            self._write_problem(_FULL)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        for one in (self._answering, *self._waiting):
            if isinstance(one, _Asked):
                one.leave()
        self._waiting.clear()
        self._unread = b""
        self._is_last = True
        self._parser = None

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            self._throw_away(data)
        elif self._waiting:
            self._keep(self._unread + data)
        else:
            self._read(data)

    def pause_writing(self) -> None:
        self._is_full = True
        self._all.does_not_read(self)

    def resume_writing(self) -> None:
        if self.transport.is_closing():  # the rest of its last answer has the same deadline
            return
        self._is_full = False
        self._all.is_active(self)
        if self._answering is None:
            self._go_on()

    def end(self) -> None:
        """Answer what was begun, and no more."""
        self._waiting.clear()
        self._unread = b""
        if self._answering is None:
            self._close(True)
        else:
            self._answering.keeps_alive = False
            self._is_last = self._reading is not self._answering

    def is_idle_for_long(self) -> None:
        if self.transport.get_write_buffer_size():  # it has not read its last answer either
            self.transport.abort()
        else:
            self.transport.close()

    def head_is_late(self) -> None:
        self._refuse(_HEAD_TOO_LATE)

    @property
    def held_bytes(self) -> int:
        """How much memory it takes."""
        return self.transport.get_write_buffer_size() + len(self._unread)

    @property
    def waits_for_body(self) -> bool:
        """Whether its client keeps a request waiting."""
        return self._answering is not None and self._answering.wants_body

    # -- reading -----------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        """Read requests, until one waits for the one before it."""
        left = memoryview(data)
        while left and not self._is_last:
            if self._waiting:
                self._keep(bytes(left))
                break
            piece, left = left[:PIECE], left[PIECE:]
            try:
                if again := self._parse(piece):
                    left = memoryview(again + left)
            except httptools.HttpParserError as error:
                self._refuse(self._head.fault or _not_http(error))
                return
            if self._withheld > HEAD_LIMIT:
                self._refuse(_HEAD_TOO_LARGE)
                return
        self._tell()

    def _keep(self, data: bytes) -> None:
        """Until the requests before it are answered. Reading goes on for a while: that is how the
        end of the connection is noticed."""
        self._unread = data
        if len(data) > BODY_AHEAD:
            self.hold_body()

    def _tell(self) -> None:
        """What its client keeps it waiting for."""
        if self._is_full:  # until it reads, nothing else counts that it does
            return
        if self._answering is not None or self._waiting or self._is_last:
            self._all.is_active(self)
        elif self._is_in_head:
            self._all.sends_head(self)
        else:
            self._all.is_idle(self)

    def _parse(self, data: memoryview) -> bytes:
        """The bytes that are to be read again: after an offer of another protocol (`Upgrade`), the
        request without it."""
        self._moved = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # The parser takes everything behind such a head for the other protocol, the body, too.
            rest = self._head.without_offer(self._parser) + data[offer.args[0] :]
            self._parser = _parser(self)
            return rest
        # The parser keeps all bytes that neither end a head nor belong to a body.
        self._withheld = 0 if self._moved else self._withheld + len(data)
        return b""

    # The parser calls:

    def on_message_begin(self) -> None:
        self._head = Head()
        self._is_in_head = True

    def on_url(self, url: bytes) -> None:
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # trailers are ignored: they must not change what was decided
            self._head.add(name.lower(), value)

    def on_headers_complete(self) -> None:
        self._moved = True
        self._is_in_head = False
        head, parser = self._head, self._parser
        if head.fault is not None:
            raise httptools.HttpParserError
        if parser.should_upgrade():
            return
        asked = _Asked(self, head.keeps_alive(parser), head.expects_continue)
        asked.request = head.request(parser, asked)
        self._reading = asked
        if self._answering is None and not self._is_full:
            self._begin(asked)
        else:
            self._waiting.append(asked)

    def on_body(self, body: bytes) -> None:
        self._moved = True
        asked = self._reading
        if asked is not None:
            asked.add(body)
            if asked is self._answering and not asked.request.is_streamed:
                self._all.receives(self, len(body))

    def on_message_complete(self) -> None:
        self._moved = True
        asked, self._reading = self._reading, None
        if asked is not None:
            asked.finish()
            self._is_last = not asked.keeps_alive

    # The body that is arriving calls:

    def await_body(self) -> None:
        asked = self._answering
        if asked is not None and asked.expects and not asked.complete:
            asked.expects = False
            self.transport.write(_CONTINUE)
        if len(self._unread) <= BODY_AHEAD:
            self._resume()

    def hold_body(self) -> None:
        if not self._is_held:
            self._is_held = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._is_held and not self.transport.is_closing():
            self._is_held = False
            self.transport.resume_reading()

    # -- answering ---------------------------------------------------------------------------------

    def _begin(self, asked: _Asked | HttpProblem) -> None:
        if isinstance(asked, HttpProblem):
            self._refuse(asked)
            return
        self._answering = asked
        self._all.busy[self] = None
        self.task = self._loop.create_task(self._answer(asked))

    async def _answer(self, asked: _Asked) -> None:
        goes_on = False
        try:
            answer = await self._service.respond(asked.request)
            if answer is not None and not asked.gone:
                goes_on = self._send(asked, answer)
        finally:
            self._answering = self.task = None
            self._all.is_answered(self)
            if not goes_on:
                self._close(asked.complete)
            elif not self._is_full:
                self._go_on()
        if answer is not None:
            self._service.note(asked.request, answer.status)

    def _send(self, asked: _Asked, answer: HttpAnswer) -> bool:
        """Whether the connection goes on after it."""
        request, goes_on = asked.request, asked.keeps_alive and asked.complete
        body = b"" if request.method == "HEAD" else answer.body
        self.transport.write(self._written(answer, request.id, not goes_on) + body)
        return goes_on

    def _written(self, answer: HttpAnswer, request_id: str, ends: bool) -> bytes:
        """The head of an answer."""
        last = "connection: close\r\n\r\n" if ends else "\r\n"
        text = f"{_LINES[answer.status]}{self._all.date}{answer.head(request_id)}{last}"
        return text.encode("latin-1", "replace")

    def _go_on(self) -> None:
        """With what arrived meanwhile."""
        if self._waiting:
            self._begin(self._waiting.popleft())
        if not self._waiting:
            data, self._unread = self._unread, b""
            self._resume()
            self._read(data)

    def _refuse(self, problem: HttpProblem) -> None:
        """Answer what is no request, after those before it, and read no more."""
        self._is_last = True
        self._tell()
        broken, self._reading = self._reading, None  # its head was good, its body is not
        if broken is not None and broken is self._answering:
            broken.leave()
        else:
            if broken is not None:
                self._waiting.pop()
            if self._answering is not None or self._waiting or self._is_full:
                self._waiting.append(problem)
                return
        if not self.transport.is_closing():
            self._write_problem(problem)
            self._close(False)

    def _write_problem(self, problem: HttpProblem) -> None:
        request_id = new_request_id()
        logger.warning("%s: a request was refused: %s", request_id, problem.fields.detail)
        answer = problem_answer(problem)
        self.transport.write(self._written(answer, request_id, True) + answer.body)

    def _close(self, all_was_read: bool) -> None:
        """After the last answer. If the client may still be sending, what it sends is thrown away
        for a while: to close at once would break the connection before the client has read it."""
        self._is_last = True
        self._waiting.clear()
        if self.transport.is_closing():
            return
        if all_was_read or not self.transport.can_write_eof():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                self._all.does_not_read(self)
            return
        self._resume()
        self.transport.write_eof()
        self._all.lingers(self)

    def _throw_away(self, data: bytes) -> None:
        self._thrown_away += len(data)
        if self._thrown_away > LINGER_LIMIT:
            self.transport.abort()


def _not_http(error: httptools.HttpParserError) -> HttpProblem:
    """The parser's reasons are fixed texts: they repeat nothing of the request."""
    why = "" if isinstance(error, httptools.HttpParserCallbackError) else f": {error}"
    return HttpProblem("malformed", f"This is not a request that HTTP/1.1 knows{why}.")


def _parser(connection: HttpConnection) -> Any:
    parser = httptools.HttpRequestParser(connection)
    # Else what a client sends behind its last request would be an error of that request.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
