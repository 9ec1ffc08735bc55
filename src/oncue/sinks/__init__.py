"""Sinks: the adapters that hand jobs to a queue's technology. `open_sink` finds one by its URL."""

from __future__ import annotations

from oncue.clock import SystemClock
from oncue.core.errors import InvalidInput
from oncue.ports.clock import Clock
from oncue.ports.sink import Sink
from oncue.sinks.log import LogSink
from oncue.sinks.memory import named

__all__ = ["open_sink"]


def open_sink(url: str, clock: Clock | None = None) -> Sink:
    """The sink that a queue's settings name."""
    scheme, colon, rest = url.partition(":")
    if scheme == "log" and colon and not rest:
        return LogSink(clock or SystemClock())
    if scheme == "memory" and rest:
        return named(rest)
    raise InvalidInput(
        f"there is no sink for {url!r}; the ones that exist are 'log:' (one line per job in the "
        "log) and 'memory:NAME' (kept in this process, for tests).",
        "/sink",
    )
