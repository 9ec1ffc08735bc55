"""A poller: hands over the jobs of some queues from inside another program, such as a worker.

It makes a tick (`tick.py`) every few seconds, and as soon as something is due that this process
knows of. Any number of processes may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Event

from oncue.core.moment import Moment
from oncue.engine.engine import Engine
from oncue.engine.loop import Loop
from oncue.engine.node import Node
from oncue.engine.pruner import Pruner
from oncue.ports.sink import Sink
from oncue.sinks.shared import SharedSink

EARLY_SECONDS = 5.0
"""A tick hands over what is due until the next one, and so much more: that one may be late."""

LEAST_TICK_SECONDS = 20.0
"""However often it looks, a pause of this length is no outage to the reclaimer."""


class Poller:
    def __init__(
        self,
        node: Node,
        open_sink: Callable[[str], Sink],
        queues: Callable[[], Collection[str]],
        poll_seconds: float,
    ) -> None:
        """`queues`: those that are looked at, at this moment."""
        self._node, self._queues = node, queues
        self._open_sink = open_sink
        self._sinks: dict[str, Sink] = {}
        self._poll_seconds = poll_seconds
        self._stopping = Event()
        self._loop = Loop("oncue-poller", self.step, node.clock)
        self._pruning = Loop("oncue-pruner", Pruner(node).step, node.clock)

    def start(self) -> None:
        """Start the threads, if they do not run. Where no other engine runs, what was handed over
        would be kept for ever without the pruner."""
        self._loop.start()
        self._pruning.start()

    def expect(self, due_at: Moment) -> None:
        """Look at that moment, too: this process has stored a job that is due then."""
        self._loop.wake_for(due_at)

    def stop(self, timeout: float | None = None) -> bool:
        """Finish what is under way, and end. Whether it ended in time."""
        self._stopping.set()
        self._pruning.stop(timeout)
        ended = self._loop.stop(timeout)
        if ended:
            while self._sinks:
                self._sinks.popitem()[1].close()
        return ended

    def step(self) -> float:
        """One tick. How long to rest."""
        queues = self._queues()
        if queues:
            poll = self._poll_seconds
            tick = max(poll, LEAST_TICK_SECONDS)
            engine = Engine(self._node, self._shared, None, tick, poll + EARLY_SECONDS)
            engine.tick(self._stopping.is_set, only=queues)
        due = self._node.store.next_due(sorted(queues)) if queues else None
        now = self._node.clock.now()
        if due is None or due <= now:  # what is due and could not be handed over waits for a while
            return self._poll_seconds
        return min(self._poll_seconds, (due - now) / 1000)

    def _shared(self, url: str) -> Sink:
        if url not in self._sinks:
            self._sinks[url] = self._open_sink(url)
        return SharedSink(self._sinks[url])
