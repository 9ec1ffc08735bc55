"""A proxy that gets in the way: it loses answers, or gives its own."""

from __future__ import annotations

import http.client
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Said(NamedTuple):
    """An answer of the proxy's own; the server is not asked."""

    status: int
    body: bytes = b""
    media_type: str = "text/html"
    headers: Mapping[str, str] = MappingProxyType({})


AWAY = Said(
    503,
    b'{"type": "/problems/store-unavailable", "status": 503, "detail": "The store cannot answer '
    b'now; nothing was lost. Try again in a moment."}',
    "application/problem+json",
)
"""A server whose store is away."""
LOSE = "lose"
"""Ask the server, and break off before its answer is passed on."""
HOLD = "hold"
"""Do not answer, and ask nobody, until `let_go` is set."""
SPOIL = "spoil"
"""Ask the server, and pass on that something went wrong."""


class Meddler(ThreadingHTTPServer):
    """Does with each request what `plan` says; when that is used up, what `always` says, or else it
    passes everything on. `seen` is every request that came, as (method, path)."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Meddling)
        self.target = target
        self.plan: deque[str | Said] = deque()
        self.always: str | Said | None = None
        self.alter: Callable[[bytes], bytes] | None = None
        """Makes other bodies of those that are passed on."""
        self.let_go = threading.Event()
        self.seen: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections break here on purpose."""


@contextmanager
def meddling(target: str) -> Iterator[Meddler]:
    """A proxy before the server at `target`."""
    proxy = Meddler(target)
    thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


class _Meddling(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Meddler

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, self.path))
        what = self.server.plan.popleft() if self.server.plan else self.server.always
        if isinstance(what, Said):
            self._answer(what)
            return
        if what == HOLD:
            self.server.let_go.wait(60)
        answer = self._forward(body)
        if what == LOSE:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif what == SPOIL:
            self._answer(Said(502))
        else:
            self._answer(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def _forward(self, body: bytes) -> Said:
        parts = urlsplit(self.server.target)
        assert parts.hostname is not None
        line = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        try:
            line.request(self.command, self.path, body, dict(self.headers))
            answer = line.getresponse()
            told, alter = answer.read(), self.server.alter or bytes
            return Said(
                answer.status, alter(told), answer.headers.get("content-type", "text/plain")
            )
        finally:
            line.close()

    def _answer(self, said: Said) -> None:
        self.send_response(said.status)
        self.send_header("content-type", said.media_type)
        self.send_header("content-length", str(len(said.body)))
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""
