"""Between a store and its server: passes on what they say, and cuts the line where it is told.

It reads the messages of the client as far as it takes to know which statement is about to be run.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal, Self

from oncue.stores.postgresql.address import PgAddress

Moment = Literal["before", "during", "after"]
"""Before the server is told; when it was told, without waiting for its answer; when it is done."""
Strikes = Callable[[bytes], Moment | None]
"""Whether, and when, a connection is cut at a statement."""
ENDS = (b"S", b"Q")
"""The kinds of messages at which the server acts upon all that it was told."""
IDLE = b"Z\0\0\0\5I"
"""The server says that it is ready, outside a transaction."""


def port_of(address: PgAddress) -> int:
    found = re.search(r":(\d+)/", address.conninfo)
    assert found
    return int(found[1])


def behind(proxy: Proxy, address: PgAddress) -> PgAddress:
    """The same store, through the proxy."""
    server = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
    return address._replace(conninfo=f"{server}?sslmode=disable&gssencmode=disable")


class Proxy:
    """`with` opens it. Connections are cut at every statement that matches, until so many were."""

    def __init__(self, port: int) -> None:
        """`port`: of the server."""
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock = threading.Lock()
        self._wanted: re.Pattern[bytes] | None = None
        self._moment: Moment = "before"
        self._left = 0
        self.cuts = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        with self._lock:
            sockets = list(self._open)
        for one in sockets:
            _close(one)

    def cut(self, statement: str, moment: Moment, times: int = 1) -> None:
        """From now on, at statements in which the expression is found."""
        with self._lock:
            self._wanted, self._moment = re.compile(statement.encode()), moment
            self._left, self.cuts = times, 0

    def _strikes(self, statement: bytes) -> Moment | None:
        with self._lock:
            if self._left <= 0 or self._wanted is None or not self._wanted.search(statement):
                return None
            self._left -= 1
            self.cuts += 1
            return self._moment

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._open += [client, server]
            _Line(self._strikes, client, server).start()


class _Line:
    """One connection."""

    def __init__(self, strikes: Strikes, client: socket.socket, server: socket.socket) -> None:
        self._strikes = strikes
        self._client, self._server = client, server
        self._silent = False
        """The client hears nothing any more, and is cut when the server is done."""
        self._prepared: dict[bytes, bytes] = {}

    def start(self) -> None:
        for run in (self._from_client, self._from_server):
            threading.Thread(target=run, daemon=True).start()

    def _from_client(self) -> None:
        moment: Moment | None = None
        with suppress(OSError):
            for message in _messages(self._client):
                moment = self._at(message) or moment
                if moment == "before":
                    break
                if moment == "after":
                    self._silent = True
                self._server.sendall(message)
                if moment == "during" and message[:1] in ENDS:
                    break
        self._cut()

    def _at(self, message: bytes) -> Moment | None:
        """What is to be done at this message."""
        kind, body = message[:1], message[5:]
        statement = b""
        if kind == b"P":
            name, text, *_ = body.split(b"\0")
            self._prepared[name] = text
        elif kind == b"B":
            statement = self._prepared.get(body.split(b"\0")[1], b"")
        elif kind == b"Q":
            statement = body
        return self._strikes(statement) if statement else None

    def _from_server(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65536):
                if not self._silent:
                    self._client.sendall(data)
                elif data.endswith(IDLE):
                    break
        self._cut()

    def _cut(self) -> None:
        _close(self._client)
        _close(self._server)


def _messages(client: socket.socket) -> Iterator[bytes]:
    """What a client says, message by message. The first one has no letter for its kind."""
    kind = b""
    while True:
        head = kind + _read(client, 4)
        [length] = struct.unpack("!I", head[-4:])
        yield head + _read(client, length - 4)
        kind = _read(client, 1)


def _read(client: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = client.recv(length)
        if not part:
            raise OSError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
