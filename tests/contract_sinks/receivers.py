"""What the suite needs to know of a sink: how to open it, and what its far end received.

A new sink joins by one subclass of `Receiver` and one line in `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncue.clock import FakeClock
from oncue.core.errors import SinkDown
from oncue.ports.sink import Refusal, Sink
from oncue.sinks.log import LogSink
from oncue.sinks.memory import MemorySink


class Receiver:
    """The far end of a sink."""

    sink: Sink

    def received(self) -> Sequence[tuple[str, int]]:
        """(job id, attempt) in the order of arrival."""
        raise NotImplementedError

    def go_down(self) -> None:
        """Make the next delivery find nobody."""
        pytest.skip("this sink cannot be down")

    def refuse(self, job_id: str, *, permanent: bool) -> None:
        """Do not take this job."""
        pytest.skip("this sink refuses nothing")


class MemoryReceiver(Receiver):
    def __init__(self) -> None:
        self._memory = MemorySink()
        self.sink = self._memory

    def received(self) -> Sequence[tuple[str, int]]:
        return [(job.id, job.attempt) for job in self._memory.deliveries]

    def go_down(self) -> None:
        self._memory.fail_next(SinkDown("down"))

    def refuse(self, job_id: str, *, permanent: bool) -> None:
        self._memory.refuse(job_id, Refusal("refused", permanent))


class LogReceiver(Receiver):
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO", "oncue.sink.log")
        self._caplog = caplog
        self.sink = LogSink(FakeClock())

    def received(self) -> Sequence[tuple[str, int]]:
        lines = (
            dict(part.split("=") for part in record.getMessage().split()[1:])
            for record in self._caplog.records
            if record.name == "oncue.sink.log"
        )
        return [(line["job"], int(line["attempt"])) for line in lines]
