"""Nodes: the processes on a store, what each runs, and for how long a report counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from oncue.core.moment import Moment, from_datetime

REPORT_SECONDS = 10.0  # between two reports of a node
LEASE_MS = 30_000  # so long a node is listed without another report


class Running(NamedTuple):
    """What a part of a process runs, or all of it."""

    engine: bool = False
    """The loops: dispatchers, recurrer, reclaimer, pruner."""
    dispatches: tuple[str, ...] = ()
    """Queues whose jobs it delivers to their sinks."""
    works: tuple[str, ...] = ()
    """Queues whose jobs its handlers do."""
    url: str | None = None
    """Where it serves HTTP."""


NOTHING = Running()


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node says of itself. The last four fields are those of `Running`."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    """Its last sign of life."""
    engine: bool = False
    dispatches: tuple[str, ...] = ()
    works: tuple[str, ...] = ()
    url: str | None = None

    @property
    def running(self) -> Running:
        return Running(self.engine, self.dispatches, self.works, self.url)


def together(parts: Iterable[Running]) -> Running:
    """What the parts of one process run, as a whole."""
    every = list(parts)
    return Running(
        any(part.engine for part in every),
        tuple(sorted({queue for part in every for queue in part.dispatches})),
        tuple(sorted({queue for part in every for queue in part.works})),
        next((part.url for part in every if part.url is not None), None),
    )


def lease_bounds(now: Moment) -> tuple[Moment, Moment]:
    """A node is alive if it was last seen after the first moment and before the second. The second
    is for a clock that was set back: a dead node must not be listed until that moment returns."""
    return now - LEASE_MS, now + LEASE_MS


def is_alive(node: NodeReport, now: Moment) -> bool:
    after, before = lease_bounds(now)
    return after < from_datetime(node.seen_at) < before
