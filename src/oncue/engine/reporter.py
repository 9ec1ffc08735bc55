"""Tells the store what this process runs, as long as it runs anything."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from oncue import __version__
from oncue.core.errors import OncueError
from oncue.core.moment import to_datetime
from oncue.core.nodes import NOTHING, REPORT_SECONDS, NodeReport, Running, together
from oncue.core.text import legible
from oncue.engine.loop import Loop
from oncue.ports.clock import Clock
from oncue.ports.nodes import NodeStore

LOOK_SECONDS = 2.0  # between looks whether the process runs something else than it reported
STOP_SECONDS = 5.0


class Reporter:
    """One for each scheduler of a process. A report is repeated before its lease ends, so a process
    that is killed is forgotten with its lease; one that ends in good order is removed."""

    def __init__(self, store: NodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._pid = os.getpid()
        self._parts: list[Callable[[], Running]] = []  # replaced, never changed: the loop reads it
        self._changing = threading.RLock()
        self._loop: Loop | None = None
        self._node: NodeReport | None = None
        self._reported: tuple[float, Running] | None = None

    def begin(self, part: Callable[[], Running]) -> Callable[[], None]:
        """From now on this process runs, among others, what `part` tells. The answer ends it."""
        with self._changing:
            self._parts = [*self._parts, part]
            if self._loop is None:
                self._node = self._new_node()
                self._loop = Loop("oncue-node", self.step, self._clock)
                self._loop.start()
                atexit.register(self.close)  # many programs end without closing anything
            else:
                self._loop.wake()

        def end() -> None:
            with self._changing:
                self._parts = [one for one in self._parts if one is not part]
                if not self._parts:
                    self.close()
                elif self._loop is not None:
                    self._loop.wake()

        return end

    def close(self) -> None:
        """Have the store forget this process. Can be repeated."""
        if os.getpid() != self._pid:  # called at the end of a forked child, which is another node
            return
        with self._changing:
            loop, self._loop, self._parts = self._loop, None, []
            if loop is None:
                return
            atexit.unregister(self.close)
            if loop.stop(STOP_SECONDS) and self._reported is not None:
                with suppress(OncueError):  # then it is forgotten with its lease
                    self._report(NOTHING)
            self._reported = None

    def _new_node(self) -> NodeReport:
        host, at = legible(socket.gethostname()), to_datetime(self._clock.now())
        node_id = f"{host}:{self._pid}:{secrets.token_hex(4)}"
        return NodeReport(node_id, host, self._pid, __version__, at, at)

    def step(self) -> float:
        """Report if it is time, or if the process runs something else than it last reported."""
        running, at = together(part() for part in self._parts), self._clock.monotonic()
        last = self._reported
        if last is None or last[1] != running or at - last[0] >= REPORT_SECONDS:
            self._report(running)
            self._reported = at, running
        return LOOK_SECONDS

    def _report(self, running: Running) -> None:
        assert self._node is not None
        seen_at = to_datetime(self._clock.now())
        self._store.report_node(replace(self._node, seen_at=seen_at, **running._asdict()))
