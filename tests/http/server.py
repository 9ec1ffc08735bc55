"""A real server process on a free port, and a plain HTTP client to talk to it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import urllib3

from tests.program import Program

STARTED_SECONDS = 30.0
STOPPED_SECONDS = 30.0
_LISTENING = re.compile(r"Listening on (http://\S+?);")


class Reply(NamedTuple):
    status: int
    headers: urllib3.HTTPHeaderDict
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def pointer(self) -> str:
        """The first place that a problem names."""
        return str(self.json["errors"][0]["pointer"])


class Server:
    """`oncue serve` in a process of its own. What it says is in `said`. `weather`: on a hostile
    store, see `tests/stores/program.py`. `store`: its URL; a file in the folder if there is none.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        weather: str | None = None,
        store: str | None = None,
        **environment: str,
    ) -> None:
        self.folder = folder
        self.store = store or f"sqlite:///{folder / 'jobs.db'}"
        self.process = Program(
            *([] if weather is None else [weather]),
            *("--store", self.store, "serve", *arguments),
            module="oncue.cli" if weather is None else "tests.stores.program",
            cwd=folder,
            env={**_clean_environment(), **environment},
            stderr=subprocess.PIPE,
        )
        self.said: list[str] = []
        self.url = ""
        self._terminated = False
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._pool = urllib3.PoolManager(maxsize=64, retries=False)

    def wait_until_listening(self) -> None:
        if not self._listening.wait(STARTED_SECONDS) or not self.url:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.log}")

    @property
    def log(self) -> str:
        return "".join(self.said)

    def ask(
        self,
        method: str,
        path: str,
        fields: Any = None,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Reply:
        """One request: `fields` as JSON, or `body` as it is."""
        sent = dict(headers or {})
        if fields is not None:
            body = json.dumps(fields).encode()
            sent.setdefault("Content-Type", "application/json")
        answer = self._pool.request(
            method, self.url + path, body=body, headers=sent, timeout=timeout, redirect=False
        )
        return Reply(answer.status, answer.headers, answer.data)

    def get(self, path: str, **more: Any) -> Reply:
        return self.ask("GET", path, **more)

    def post(self, path: str, fields: Any = None, **more: Any) -> Reply:
        return self.ask("POST", path, fields, **more)

    def put(self, path: str, fields: Any = None, **more: Any) -> Reply:
        return self.ask("PUT", path, fields, **more)

    def patch(self, path: str, fields: Any = None, **more: Any) -> Reply:
        return self.ask("PATCH", path, fields, **more)

    def delete(self, path: str, **more: Any) -> Reply:
        return self.ask("DELETE", path, **more)

    def terminate(self) -> None:
        """As a supervisor would: SIGTERM. Once only, because a second one ends it at once."""
        if not self._terminated:
            self._terminated = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Have it stop in good order, and wait. The exit code."""
        self.terminate()
        code = self.process.wait(STOPPED_SECONDS)
        self._close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(STOPPED_SECONDS)
        self._pool.clear()
        self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.said.append(line)
            if found := _LISTENING.search(line):
                self.url = found[1]
                self._listening.set()
        self._listening.set()


@contextmanager
def running_server(
    folder: Path,
    *arguments: str,
    weather: str | None = None,
    store: str | None = None,
    **environment: str,
) -> Iterator[Server]:
    """A server, stopped in the end; `arguments` are those of `serve`, others those of `Server`."""
    port = () if "--port" in arguments else ("--port", "0")
    server = Server(folder, *port, *arguments, weather=weather, store=store, **environment)
    try:
        server.wait_until_listening()
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_")}


def bodies(connection: socket.socket, number: int) -> list[Any]:
    """The bodies of so many answers on a connection."""
    reading = connection.makefile("rb")
    found = []
    for _ in range(number):
        length = 0
        while (line := reading.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        found.append(json.loads(reading.read(length)))
    return found
