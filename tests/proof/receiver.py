"""The receiving end: a sink that takes everything and writes down what it saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from oncue.core.job import Delivery
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal, Sink
from tests.proof.entries import Received


class ReceivingSink:
    """Records every delivery at the store's clock: into a list, or a `RunLog`."""

    def __init__(
        self, record: Callable[[Received], None], clock: Clock, name: str = "sink"
    ) -> None:
        self._record = record
        self._clock = clock
        self._name = name

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        at = self._clock.now()
        for delivery in batch:
            self._record(Received(delivery.id, delivery.attempt, at, self._name))
        return {}

    def close(self) -> None:
        pass


if TYPE_CHECKING:
    _a_sink: type[Sink] = ReceivingSink
