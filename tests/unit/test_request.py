"""A request as the routes see it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from oncue.api.problems import HttpProblem
from oncue.api.request import BODY_SECONDS, Request


class Trickle:
    """A client that sends a byte every so often, by the loop's own clock, and never ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: self.now)

    async def receive(self) -> MutableMapping[str, Any]:
        self.now += BODY_SECONDS * 0.4
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b" ", "more_body": True}


def test_a_body_that_trickles_in_is_given_up_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        client = Trickle(asyncio.get_running_loop(), monkeypatch)
        request = Request("POST", b"/jobs", b"", {}, client.receive)
        with pytest.raises(HttpProblem) as refused:
            await request.body(limit=1000)
        assert refused.value.fields.status == 408

    asyncio.run(main())
