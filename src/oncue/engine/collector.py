"""The collector: what programs put straight into the inbox of a store → deliveries, or jobs.

It runs only on a store that has an inbox. Dispatchers deliver what it finds for their queues.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from oncue.core.errors import StoreUnavailable
from oncue.core.moment import Moment
from oncue.core.queue import Queue
from oncue.engine.dispatcher import Dispatcher
from oncue.engine.node import Node
from oncue.ports.inbox import Inbox, InboxBatch


class Collector:
    def __init__(
        self,
        node: Node,
        inbox: Inbox,
        dispatcher_of: Callable[[str], Dispatcher | None],
        name: str,
        check_clock: Callable[[], None] = lambda: None,
        ahead_seconds: float = 0.0,
    ) -> None:
        """`name` must be of this collector alone: parts of the inbox are held under it.
        `ahead_seconds`: as of a dispatcher."""
        self._ahead_ms = round(ahead_seconds * 1000)
        self._clock, self._policies = node.clock, node.policies
        self._inbox = inbox
        self._dispatcher_of = dispatcher_of
        self._name = name
        self._check_clock = check_clock

    def step(self) -> float:
        """Deal with what is due; rest as long as the inbox says."""
        self._check_clock()
        now = self._clock.now()
        return self._inbox.step(self._name, now, self._accept, now + self._ahead_ms)

    def find_late(self, around: Moment) -> int:
        """Deal with what was put late into the buckets of this moment and before it. How many."""
        return self._inbox.find_late(around, self._clock.now())

    def leave(self) -> None:
        """Let others go on at once. To be called when no step is made any more."""
        with suppress(StoreUnavailable):  # then they go on when the leases have ended
            self._inbox.leave(self._clock.now())

    def _accept(self, batch: InboxBatch) -> bool | None:
        queue = self._policies(batch.queue)
        if not _is_direct(queue):
            return None
        dispatcher = self._dispatcher_of(queue.name)
        if dispatcher is None:
            return False
        latest = self._clock.now() + dispatcher.ahead_ms
        is_early = any(job.due_at > latest for job in batch.deliveries)
        return None if is_early else dispatcher.carry(batch)


def _is_direct(queue: Queue) -> bool:
    """Whether an item of the inbox goes to the sink as it is. For limits, pauses and workers it has
    to be a job."""
    return queue.completes_on == "delivery" and not queue.paused and not queue.is_limited
