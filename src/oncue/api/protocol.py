"""HTTP/1.1 on the wire: refuses malformed and oversized heads, and declines upgrades."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oncue.api.heads import check_head
from oncue.api.problems import HttpProblem
from oncue.api.request import problem_answer

HEAD_LIMIT = 64 * 1024  # bytes of a request's line and headers, checked after each read
_NOT_HTTP = HttpProblem("malformed", "This is not a request that HTTP/1.1 knows.")
_HEAD_TOO_LARGE = HttpProblem(
    "too-large",
    f"The request's line and headers are too large; at most {HEAD_LIMIT:,} bytes are read.",
    status=431,
)


class Protocol(HttpToolsProtocol):
    """Bytes that are not HTTP are answered with a problem, like all other errors. Heads
    are bounded, and so is the time they take. An offer to change to another protocol is declined by
    going on in this one."""

    _moved = False
    _withheld = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The same time as between requests: a client must send a complete head within it.
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def data_received(self, data: bytes) -> None:
        self._moved = False
        rest = data
        try:
            while rest and not self.transport.is_closing():
                rest = self._feed(rest)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause if isinstance(cause, HttpProblem) else _NOT_HTTP)
            return
        if self._moved:
            self._unset_keepalive_if_required()
            self._withheld = 0
            return
        # The parser keeps all bytes that neither end a head nor belong to a body.
        self._withheld += len(data)
        if self._withheld > HEAD_LIMIT:
            self._refuse(_HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        self._moved = True
        problem = check_head(self.headers)
        if problem is not None:
            raise problem  # the parser stops here
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._moved = True
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _feed(self, data: bytes) -> bytes:
        """Feed the parser; the bytes left to feed: after an offer, the request without it."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # The parser takes everything behind such a head for the other protocol, the body, too.
            return self._without_offer() + data[offer.args[0] :]
        return b""

    def _without_offer(self) -> bytes:
        method = self.parser.get_method()
        if method == b"CONNECT":  # is an offer by itself
            raise httptools.HttpParserError("CONNECT")
        version = self.parser.get_http_version().encode()
        self.parser = httptools.HttpRequestParser(self)
        kept = [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        line = b"%b %b HTTP/%b" % (method, self.url, version)
        return b"\r\n".join([line, *kept, b"", b""])

    def _refuse(self, problem: HttpProblem) -> None:
        if self.transport.is_closing():
            return
        self.logger.warning("a request was refused: %s", problem.fields.detail)
        answer = problem_answer(problem)
        head = [
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
            f"content-type: {answer.media_type}",
            f"content-length: {len(answer.body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode() + answer.body)
        self.transport.close()
