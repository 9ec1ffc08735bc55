"""A poller: hands over the jobs of some queues from inside another program, such as a worker.

It makes a tick (`tick.py`) every few seconds, and as soon as something is due that this process
knows of. Any number of processes may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import Event

from oncue.core.moment import LATEST, Moment
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
        self._pruning = Loop("oncue-pruner", Pruner(node).step, node.clock)
        self._next_look = 0.0  # by the monotonic clock
        self._expected: Moment = LATEST
        self._loop = Loop("oncue-poller", self.look, node.clock)

    def start(self) -> None:
        """Start the threads, if they do not run. Where no other engine runs, what was handed over
        would be kept for ever without the pruner."""
        self._loop.start()
        self._pruning.start()

    def expect(self, due_at: Moment) -> None:
        """Look at that moment, too: this process has stored a job that is due then."""
        self._expected = min(self._expected, due_at)
        self._loop.wake_for(due_at)

    def stop(self, timeout: float) -> None:
        """Finish what is under way, and end. Each thread is given so many seconds."""
        self._stopping.set()
        self._pruning.stop(timeout)
        if self._loop.stop(timeout):
            while self._sinks:
                self._sinks.popitem()[1].close()

    def look(self) -> float:
        """A step, if it is time for one: a loop may be awake earlier. How long to rest."""
        clock = self._node.clock
        if clock.monotonic() >= self._next_look or clock.now() >= self._expected:
            self._next_look, self._expected = 0.0, LATEST  # a step that fails is tried again
            self._next_look = clock.monotonic() + self.step()
        elif self._expected < LATEST:  # the wake-up for it may be forgotten by now
            self._loop.wake_for(self._expected)
        return self._next_look - clock.monotonic()

    def step(self) -> float:
        """One tick. How long to rest."""
        queues = self._queues()
        if queues:
            poll = self._poll_seconds
            tick = max(poll, LEAST_TICK_SECONDS)
            engine = Engine(self._node, self._shared, None, tick, poll + EARLY_SECONDS)
            engine.tick(self._stopping.is_set, only=queues)
        return self._rest(sorted(queues))

    def _rest(self, queues: list[str]) -> float:
        """Until something is due. What is due and could not be handed over waits for a while, and
        does not keep us from seeing what else there is."""
        store, now = self._node.store, self._node.clock.now()
        due = store.next_due(queues) if queues else None
        dues = [due]
        if due is not None and due <= now and len(queues) > 1:
            dues = [store.next_due([name]) for name in queues]
        ahead = [(one - now) / 1000 for one in dues if one is not None and one > now]
        return min([self._poll_seconds, *ahead])

    def _shared(self, url: str) -> Sink:
        if url not in self._sinks:
            self._sinks[url] = self._open_sink(url)
        return SharedSink(self._sinks[url])
