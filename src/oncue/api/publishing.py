"""Events of many requests, published together.

Unlike other writes, they do not share one transaction: the decisions of thousands of rules take
many transactions, and other writes are done in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from oncue.api.request import HttpAnswer, json_answer
from oncue.core.errors import EventIdTaken
from oncue.core.event import Event
from oncue.core.publication import Published
from oncue.scheduler import Scheduler
from oncue.usecases.gathering import Gathering
from oncue.usecases.rules import latest_of, read_events
from oncue.wire import rules as wire

Fields = Mapping[str, Any] | Sequence[Mapping[str, Any]]
SHORT = 20  # events of a list that waits for others, and that others wait for
REQUESTS_TOGETHER = 256


class Publishing:
    """For one event loop."""

    def __init__(self, cue: Scheduler, threads: ThreadPoolExecutor) -> None:
        """`threads`: two, one for gathered requests, one for long lists."""
        self._cue = cue
        self._threads = threads
        self._gathering: Gathering[list[Event], HttpAnswer] = Gathering(
            self._publish_all, threads, REQUESTS_TOGETHER
        )

    async def publish(self, fields: Fields) -> HttpAnswer:
        """`Scheduler.publish`, for one event or a list, together with others."""
        if not isinstance(fields, Mapping) and len(fields) > SHORT:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._publish_long, fields)
        return await self._gathering.ask(read_events(fields, latest_of(self._cue)))

    def _publish_long(self, fields: Fields) -> HttpAnswer:
        return published_answer(self._cue.publish(fields))

    def _publish_all(self, requests: list[list[Event]]) -> Sequence[HttpAnswer | EventIdTaken]:
        """An id that is taken refuses the whole group; then each request stands for itself."""
        events = [event for one in requests for event in one]
        try:
            published = self._cue.engine.publish(events)
        except EventIdTaken as refusal:
            if len(requests) == 1:
                return [refusal]
            return [self._publish_all([one])[0] for one in requests]
        left = iter(published)
        return [published_answer(list(islice(left, len(one)))) for one in requests]


def published_answer(published: Sequence[Published]) -> HttpAnswer:
    """201, or 200 if nothing was new."""
    new = any(not one.duplicate for one in published)
    return json_answer(wire.Published.of(published), 201 if new else 200)
