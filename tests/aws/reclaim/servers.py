"""The servers of another system: one that signs users in, and one that keeps AgendaProgress."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote

USER = "reclaimer"
PASSWORD = "correct horse, battery & stäple"


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Told(NamedTuple):
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class JsonServer:
    """A live HTTP server in a thread; `asked` is what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.hanging: set[str] = set()
        """What is asked about these is answered when the server closes."""
        self._lock = threading.RLock()
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                text = self.rfile.read(length)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(text) if text else None
                told = outer._answered(Asked(self.command, self.path, headers, body))
                with suppress(ConnectionError):  # who asked may be gone
                    self.tell(told)

            def tell(self, told: Told) -> None:
                self.send_response(told.status)
                for name, value in told.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(told.body)))
                self.end_headers()
                self.wfile.write(told.body)

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answered(self, asked: Asked) -> Told:
        if asked.path.rsplit("/", 1)[-1] in self.hanging:
            self._closing.wait()
        with self._lock:
            self.asked.append(asked)
            return self.answer(asked)

    def answer(self, asked: Asked) -> Told:
        raise NotImplementedError


class IdentityServer(JsonServer):
    """Gives out tokens; `granted` are those that are good."""

    def __init__(self) -> None:
        self.granted: list[str] = []
        self.answers_with: Told | None = None
        super().__init__()

    def answer(self, asked: Asked) -> Told:
        if self.answers_with is not None:
            return self.answers_with
        if asked.body != {"username": USER, "password": PASSWORD}:
            return Told(401)
        self.granted.append(f"token-{len(self.granted) + 1}-s3cret")
        return Told(200, json.dumps({"token": self.granted[-1]}).encode())


class AgendaServer(JsonServer):
    """AgendaProgress by id. `before_put` lets something happen just before a write."""

    def __init__(self, identity: IdentityServer) -> None:
        self.identity = identity
        self.records: dict[str, Any] = {}
        self.troubles: dict[tuple[str, str], Told] = {}
        self.before_put: Callable[[str], None] = lambda _: None
        self.has_etags = True
        super().__init__()

    def refuse(self, status: int, record_id: str, method: str = "GET", body: bytes = b"") -> None:
        self.troubles[method, record_id] = Told(status, body)

    def puts(self) -> dict[str, Any]:
        return {
            unquote(one.path[len("/progress/") :]): one.body
            for one in self.asked
            if one.method == "PUT"
        }

    def answer(self, asked: Asked) -> Told:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.identity.granted:
            return Told(401)
        record_id = unquote(asked.path[len("/progress/") :])
        if trouble := self.troubles.get((asked.method, record_id)):
            return trouble
        if record_id not in self.records:
            return Told(404)
        if asked.method == "PUT":
            self.before_put(record_id)
            given = asked.headers.get("if-match")
            if given not in (None, self._tag(record_id)):
                return Told(412)
            self.records[record_id] = asked.body
        tag = {"ETag": self._tag(record_id)} if self.has_etags else {}
        return Told(200, json.dumps(self.records[record_id]).encode(), tag)

    def _tag(self, record_id: str) -> str:
        text = json.dumps(self.records[record_id], sort_keys=True)
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'
