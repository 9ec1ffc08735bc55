"""The parts of a scheduler that its use cases share, in the process that opened the store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from oncue.core.cursor import MOST_ITEMS

if TYPE_CHECKING:  # the command line imports use cases to describe itself, and should start at once
    from oncue.core.operations import OperationLimits
    from oncue.core.rule import Rule
    from oncue.core.schedule import Schedule
    from oncue.engine.engine import Engine
    from oncue.engine.policies import Policies
    from oncue.engine.reporter import Reporter
    from oncue.ports.clock import Clock
    from oncue.ports.sink import PayloadBounds
    from oncue.ports.store import Store
    from oncue.telemetry.counters import Telemetry

N = TypeVar("N", "Rule", "Schedule")


class Local:
    store: Store
    clock: Clock
    policies: Policies
    telemetry: Telemetry
    reporter: Reporter
    operation_limits: OperationLimits

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """Made when it is first asked for: most calls need none."""

    def _sink_bounds(self, queue: str) -> PayloadBounds | None:
        """What the sink of a queue takes; None: everything."""
        sink = self.policies(queue).sink
        if sink is None:
            return None
        from oncue.sinks import bounds_of

        return bounds_of(sink)

    def _check_sendable(self, queue: str, payload: bytes) -> None:
        """Refuse a payload that the sink of the queue would never take."""
        bounds = self._sink_bounds(queue)
        problem = None if bounds is None else bounds.problem(payload)
        if problem is not None:
            raise problem


def by_name(listing: Callable[[str | None, int], Sequence[N]]) -> Iterator[N]:
    """All rules or schedules of a store by name, fetched page by page."""
    after: str | None = None
    while page := listing(after, MOST_ITEMS):
        yield from page
        after = page[-1].name
