"""A request as it arrives: its head is known, its body comes in parts."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any, Protocol

Message = MutableMapping[str, Any]

BODY_AHEAD = 64 * 1024  # bytes of a body that are kept before its route asks for them
_LEFT: Message = {"type": "http.disconnect"}


class Sender(Protocol):
    """The connection by which a body comes."""

    def await_body(self) -> None:
        """More of the body is wanted, or the news that the client has left."""

    def hold_body(self) -> None:
        """Nothing more is wanted for now."""


class Incoming:
    """The body of a request. `receive` is the one of ASGI, and is for the route."""

    __slots__ = ("_has_begun", "_news", "_parts", "_sender", "_size", "_told", "complete", "gone")

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._parts: list[bytes] = []
        self._size = 0
        self._has_begun = False  # to be told
        self._told = False  # that it is complete
        self._news: asyncio.Future[None] | None = None
        self.complete = False
        """All of the body has arrived."""
        self.gone = False
        """The client has left."""

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > BODY_AHEAD:
            self._sender.hold_body()
        self._wake()

    def finish(self) -> None:
        self.complete = True
        self._wake()

    def leave(self) -> None:
        self.gone = True
        self._wake()

    @property
    def wants_body(self) -> bool:
        """Whether a route waits for more of the body."""
        return self._news is not None and not self._news.done() and not self._told

    async def receive(self) -> Message:
        """What has arrived; waits for it. Once the body was told: waits until the client leaves."""
        while not self._has_news():
            self._news = asyncio.get_running_loop().create_future()
            self._sender.await_body()
            await self._news
        if self._told or not (self._parts or self.complete):
            return _LEFT
        self._has_begun, self._told = True, self.complete
        return {"type": "http.request", "body": self._taken(), "more_body": not self.complete}

    def at_hand(self) -> bytes | None:
        """The whole body, if it has arrived and nothing of it was told."""
        if not self.complete or self._told or self._has_begun:
            return None
        self._told = True
        return self._taken()

    def _taken(self) -> bytes:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return body

    def _has_news(self) -> bool:
        return self.gone or (not self._told and bool(self._parts or self.complete))

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
