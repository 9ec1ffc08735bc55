"""A sink that only another program has: its queue gets no dispatcher in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core.errors import SinkDown
from oncue.core.job import Delivery
from oncue.ports.sink import Refusal, SinkTraits

CELERY = "celery:"


class ElsewhereSink:
    traits = SinkTraits(is_elsewhere=True)

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        raise SinkDown("this process cannot hand the jobs over; the workers of the queue do.")

    def close(self) -> None:
        pass
