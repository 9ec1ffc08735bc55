"""All connections of a server: how many there may be, how long a client may take, and how much
memory may wait for those that do not read.

Nothing is done for each request but to note what its connection is doing. A look every second finds
those that take too long: each list is in the order in which they began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from typing import NamedTuple

from oncue.api.app import Service
from oncue.api.connection import HttpConnection

LOOK_SECONDS = 1.0
LINGER_SECONDS = 2.0
HALF_SECONDS = 5.0  # for which a server that stops waits for the rest of a request
LEAST_READ = 64 * 1024  # bytes that a client must read in `unread_seconds`


class ConnectionLimits(NamedTuple):
    connections: int = 10_000
    """At so many, the one that has been idle for longest is closed when another comes."""
    idle_seconds: float = 75.0
    """Between two requests."""
    head_seconds: float = 20.0
    """From the first byte of a head to its last."""
    unread_seconds: float = 20.0
    """How long a client may read hardly anything of an answer."""
    unread_bytes: int = 256 * 1024 * 1024
    """Of all answers that clients have not read yet. Beyond it, the connection that has not read
    for longest is broken. The same holds for bodies that have begun to arrive."""


class Connections:
    """Used by the thread of the loop alone, though any thread may make it."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, service: Service, limits: ConnectionLimits) -> None:
        self.service = service
        self.limits = limits
        self.open: set[HttpConnection] = set()
        self.busy: dict[HttpConnection, None] = {}
        """Those with a request that is being answered, in the order in which that began; also if
        the client has left."""
        self.date = ""
        """The header of all answers, as it is sent."""
        self._idle: dict[HttpConnection, float] = {}  # since when, as in the others
        self._heads: dict[HttpConnection, float] = {}
        self._unread: dict[HttpConnection, tuple[float, int]] = {}  # and with how many bytes
        self._lingering: dict[HttpConnection, float] = {}
        self._body_bytes = 0
        self._ending = False

    def connect(self) -> HttpConnection:
        return HttpConnection(self)

    # -- what a connection does --------------------------------------------------------------------

    def admit(self, connection: HttpConnection) -> bool:
        """Whether there is room for a new connection; room is made if that is possible."""
        full = len(self.open) >= self.limits.connections
        admitted = not self._ending and not (full and not self._make_room())
        self.open.add(connection)
        if admitted:
            self.is_idle(connection)
        return admitted

    def forget(self, connection: HttpConnection) -> None:
        """It is closed. In `busy` it stays until its request is answered."""
        self.open.discard(connection)
        self.is_active(connection)
        self._lingering.pop(connection, None)

    def is_idle(self, connection: HttpConnection) -> None:
        """Since its last request: empty lines do not count."""
        self._idle.setdefault(connection, self.loop.time())

    def is_active(self, connection: HttpConnection) -> None:
        self._idle.pop(connection, None)
        self._heads.pop(connection, None)
        self._unread.pop(connection, None)

    def sends_head(self, connection: HttpConnection) -> None:
        """Only its first byte counts."""
        self._idle.pop(connection, None)
        self._heads.setdefault(connection, self.loop.time())

    def does_not_read(self, connection: HttpConnection) -> None:
        self._unread[connection] = self.loop.time(), connection.held_bytes
        waiting = sum(one.held_bytes for one in self._unread)
        for one in list(self._unread):
            if waiting <= self.limits.unread_bytes:
                break
            waiting -= one.held_bytes
            self._break(one)

    def receives(self, connection: HttpConnection, size: int) -> None:
        """A part of the body of the request that it answers."""
        connection.body_bytes += size
        self._body_bytes += size
        if self._body_bytes > self.limits.unread_bytes:
            self._break_slow()

    def is_answered(self, connection: HttpConnection) -> None:
        self.busy.pop(connection, None)
        self._body_bytes -= connection.body_bytes
        connection.body_bytes = 0

    def lingers(self, connection: HttpConnection) -> None:
        self._lingering[connection] = self.loop.time()

    # -- what is done about it ---------------------------------------------------------------------

    def look(self) -> None:
        """Close what takes too long."""
        now = self.loop.time()
        self.date = f"date: {formatdate(self.service.clock.now() / 1000, usegmt=True)}\r\n"
        limits = self.limits
        for connection in _since(self._idle, now - limits.idle_seconds):
            connection.is_idle_for_long()
        for connection in _since(self._heads, now - limits.head_seconds):
            connection.head_is_late()
        for connection in _since(self._lingering, now - LINGER_SECONDS):
            connection.transport.abort()
        self._look_at_unread(now - limits.unread_seconds)

    def _look_at_unread(self, before: float) -> None:
        for connection, (since, size) in list(self._unread.items()):
            if since > before:
                break
            del self._unread[connection]
            if size - connection.held_bytes < LEAST_READ:
                self._break(connection)
            else:
                self._unread[connection] = self.loop.time(), connection.held_bytes

    def _make_room(self) -> bool:
        for group in (self._idle, self._heads, self._lingering, self._unread):
            if group:
                self._break(next(iter(group)))
                return True
        return self._break_slow()

    def _break_slow(self) -> bool:
        """The connection whose body has been arriving for longest, if there is one."""
        waiting = (one for one in self.busy if one in self.open and one.waits_for_body)
        slow = next(waiting, None)
        if slow is not None:
            self._break(slow)
        return slow is not None

    def _break(self, connection: HttpConnection) -> None:
        self.forget(connection)
        connection.transport.abort()

    async def end(self, seconds: float) -> bool:
        """Let all requests be answered that were begun; then close. Whether that took no longer."""
        self._ending = True
        for connection in list(self.open):
            connection.end()
        began = self.loop.time()
        while (self.open or self.busy) and self.loop.time() < began + seconds:
            self.look()
            if self.loop.time() >= began + HALF_SECONDS:
                self._cancel(one for one in self.busy if one.waits_for_body)
            await asyncio.sleep(0.02)
        in_time = not (self.open or self.busy)
        if tasks := self._cancel(self.busy):
            await asyncio.wait(tasks, timeout=1.0)
        for connection in list(self.open):
            connection.transport.close()
        return in_time

    @staticmethod
    def _cancel(connections: Iterable[HttpConnection]) -> list[asyncio.Task[None]]:
        """Cut their requests short; they are told."""
        tasks = [one.task for one in connections if one.task is not None]
        for task in tasks:
            task.cancel()
        return tasks


def _since(group: dict[HttpConnection, float], before: float) -> Iterator[HttpConnection]:
    """Those in the group since this time or earlier. Each is removed just before it is dealt with:
    if that fails, the others are still there for the next look."""
    while group:
        connection, since = next(iter(group.items()))
        if since > before:
            return
        del group[connection]
        yield connection
