"""A light HTTP client for measuring: keep-alive connections that say prepared requests.

It knows as much of HTTP as the measured servers answer with, so that little of the machine goes to
asking.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Generator, Iterable
from typing import Any, NamedTuple, TypeVar, cast

import uvloop

from oncue_bench.http_server import HOST

T = TypeVar("T")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Reply(NamedTuple):
    status: int
    body: bytes


Script = Generator[bytes, Reply, None]
"""One connection's part: yields requests, and is sent the reply to each."""


def request(
    method: str, path: str, body: bytes = b"", media_type: str = "application/json"
) -> bytes:
    """A whole request as it goes over the wire."""
    return head(method, path, len(body), media_type) + body


def head(method: str, path: str, length: int, media_type: str) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {media_type}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def parsed(text: bytes) -> Reply | None:
    """What has arrived, if it is complete."""
    end = text.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    length = _LENGTH.search(text, 0, end)
    if length is None or len(text) < end + int(length[1]):
        return None
    return Reply(int(text[9:12]), text[end:])


def run(main: Coroutine[Any, Any, T]) -> T:
    return uvloop.run(main)


async def perform(port: int, scripts: Iterable[Script]) -> None:
    """Play all of these scripts at once, each on a connection of its own, to their ends."""
    loop = asyncio.get_running_loop()
    players = [_Player(script) for script in scripts]
    for player in players:
        await loop.create_connection(lambda player=player: player, HOST, port)  # type: ignore[misc]
    for player in players:
        player.begin()
    await asyncio.gather(*(player.ended for player in players))


class _Player(asyncio.Protocol):
    def __init__(self, script: Script) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._script = script
        self._text = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def begin(self) -> None:
        self._transport.write(next(self._script))

    def data_received(self, data: bytes) -> None:
        self._text += data
        reply = parsed(self._text)
        if reply is None:
            return
        self._text = b""
        try:
            self._transport.write(self._script.send(reply))
        except StopIteration:
            self.ended.set_result(None)
            self._transport.close()
        except Exception as error:
            self.ended.set_exception(error)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError("the server closed the connection"))
