"""The head of a request as it arrives, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import httptools

from oncue.api.incoming import Incoming
from oncue.api.problems import HttpProblem
from oncue.api.request import Request

ONCE = frozenset(
    {
        *(b"host", b"authorization", b"content-type", b"content-encoding", b"content-length"),
        *(b"transfer-encoding", b"idempotency-key", b"origin", b"expect"),
    }
)
"""Headers that two programs could read in two ways if they were repeated: a proxy in front of this
server, and this server. Such a connection is closed."""
LENGTHS = frozenset({b"content-length", b"transfer-encoding"})


class Head:
    __slots__ = ("_headers", "fault", "url")

    def __init__(self) -> None:
        self.url = b""
        self._headers: dict[bytes, bytes] = {}
        self.fault: HttpProblem | None = None

    def add(self, name: bytes, value: bytes) -> None:
        """`name` is in lower case."""
        headers = self._headers
        if name in ONCE:
            if name in headers:
                self._refuse(f"The request has several {name.decode().title()} headers; send one.")
            elif name == b"transfer-encoding" and value.strip(b" \t").lower() != b"chunked":
                self._refuse(
                    "The only Transfer-Encoding is chunked. Send Content-Encoding for gzip."
                )
            elif name in LENGTHS and not LENGTHS.isdisjoint(headers):
                self._refuse(
                    "The request has both Content-Length and Transfer-Encoding; send one of them."
                )
        headers[name] = value

    def _refuse(self, detail: str) -> None:
        self.fault = HttpProblem("malformed", detail)

    @property
    def expects_continue(self) -> bool:
        return self._headers.get(b"expect", b"").lower() == b"100-continue"

    def keeps_alive(self, parser: Any) -> bool:
        """HTTP/1.0 does not, whatever it says."""
        if b"connection" not in self._headers:
            return bool(parser.should_keep_alive())
        return bool(parser.should_keep_alive()) and parser.get_http_version() != "1.0"

    def request(self, parser: Any, body: Incoming) -> Request:
        url = self.url
        if url[:1] == b"/" and b"#" not in url:
            path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            path, query = parsed.path or b"/", parsed.query or b""
        method = parser.get_method().decode("ascii")
        return Request(method, path, query, self._headers, body.receive, body)

    def without_offer(self, parser: Any) -> bytes:
        """The same head without its offer of another protocol (`Upgrade`), which is declined."""
        method = parser.get_method()
        if method == b"CONNECT":  # is an offer by itself
            raise httptools.HttpParserError("CONNECT")
        version = parser.get_http_version().encode()
        kept = [b"%b: %b" % one for one in self._headers.items() if one[0] != b"upgrade"]
        return b"\r\n".join([b"%b %b HTTP/%b" % (method, self.url, version), *kept, b"", b""])
