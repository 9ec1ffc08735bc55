"""A sink that sends nothing itself: `stream:URL`.

Taking a job only marks it as started in the table. The stream of the table tells this to a function
(`oncue.aws.forward_started`), which gives the job to the sink of the URL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oncue.core.job import Delivery
from oncue.ports.sink import Refusal, SinkTraits

PREFIX = "stream:"


class StreamSink:
    """Takes everything."""

    traits = SinkTraits(mark=PREFIX)

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        return {}

    def close(self) -> None:
        pass
