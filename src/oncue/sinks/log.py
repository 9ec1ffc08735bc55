"""A sink that writes one line per job into the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from oncue.core.job import Delivery
from oncue.ports.clock import Clock
from oncue.ports.sink import Refusal

logger = logging.getLogger("oncue.sink.log")


class LogSink:
    """Takes everything. Payloads and tokens never reach the log."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def deliver(self, queue: str, batch: Sequence[Delivery]) -> Mapping[int, Refusal]:
        if logger.isEnabledFor(logging.INFO):
            now = self._clock.now()
            for job in batch:
                logger.info(
                    "delivered queue=%s job=%s attempt=%d late_ms=%d",
                    queue, job.id, job.attempt, now - job.due_at,
                    extra={"job_id": job.id, "queue": queue, "attempt": job.attempt},
                )  # fmt: skip
        return {}

    def close(self) -> None:
        pass
