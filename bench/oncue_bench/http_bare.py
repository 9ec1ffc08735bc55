"""What an HTTP server could do at best: a bare ASGI application that reads a job, commits its row
together with those of the others that wait, and answers. No routes, checks or history."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any

import msgspec

from oncue.clock import SystemClock
from oncue.core import ids
from oncue_bench import raw
from oncue_bench.seeds import INSERT, Row

Message = dict[str, Any]
Group = list[tuple[Row, "asyncio.Future[None]"]]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class BareApp:
    def __init__(self, path: str) -> None:
        self._connection = raw.opened(path)
        self._clock = SystemClock()
        self._group: Group = []
        self._busy = False
        self._groups: SimpleQueue[tuple[asyncio.AbstractEventLoop, Group]] = SimpleQueue()
        threading.Thread(target=self._write, daemon=True).start()

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        fields = _decode((await receive())["body"])
        now = self._clock.now()
        due_at = now + 1000 * fields["delay"]
        job_id = ids.mint(now, due_at, fields["queue"], 0)
        payload = _encode(fields["payload"])
        await self._stored((job_id, fields["queue"], due_at, payload, 0, now, *(None,) * 6, 0))
        body = b'{"id":"%s"}' % job_id.encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _stored(self, row: Row) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not self._group and not self._busy:
            loop.call_soon(self._flush, loop)
        self._group.append((row, done))
        return done

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._group:
            self._busy = True
            self._groups.put((loop, self._group))
            self._group = []

    def _write(self) -> None:
        execute = self._connection.execute
        while True:
            loop, group = self._groups.get()
            execute("BEGIN IMMEDIATE")
            self._connection.executemany(INSERT, [row for row, _ in group])
            execute("COMMIT")
            loop.call_soon_threadsafe(self._answer, loop, group)

    def _answer(self, loop: asyncio.AbstractEventLoop, group: Group) -> None:
        self._busy = False
        self._flush(loop)
        for _, done in group:
            done.set_result(None)
