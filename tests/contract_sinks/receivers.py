"""What the suite needs to know of a sink: how to open it, and what its far end received.

A new sink joins by one subclass of `Receiver` and one line in `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from oncue.clock import FakeClock
from oncue.core.errors import SinkDown
from oncue.ports.sink import Refusal, Sink
from oncue.sinks.log import LogSink
from oncue.sinks.memory import MemorySink
from oncue.sinks.sqs import SqsSink
from oncue.sinks.sqs_address import SqsAddress
from tests.servers import ministack_endpoint


class Receiver:
    """The far end of a sink."""

    sink: Sink
    in_order = True
    """Whether jobs arrive in the order in which they were delivered."""

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


class SqsReceiver(Receiver):
    """A queue of the emulator, and a client that refuses what the test says."""

    in_order = False
    ending = ""

    def __init__(self) -> None:
        endpoint = ministack_endpoint()
        self.name = name = f"q-{uuid4().hex}{self.ending}"
        self.sqs = SqsAddress(name, "eu-central-1", endpoint).connect()
        attributes = {"FifoQueue": "true"} if self.ending else {}
        self.url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self._received: list[tuple[str, int]] = []
        self._down = False
        self._refused: dict[str, bool] = {}
        self.sink = SqsSink(SqsAddress(name, "eu-central-1", endpoint, self.url), FakeClock(), self)

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> Any:
        """In place of the client's."""
        if self._down:
            self._down = False
            raise ClientError({"Error": {"Code": "RequestThrottled"}}, "SendMessageBatch")
        failed = [
            {"Id": one["Id"], "Code": "Refused", "SenderFault": self._refused[job_id]}
            for one in Entries
            if (job_id := _job_id(one)) in self._refused
        ]
        sent = [one for one in Entries if _job_id(one) not in self._refused]
        answer = self.sqs.send_message_batch(QueueUrl=QueueUrl, Entries=sent) if sent else {}
        return {**answer, "Failed": [*answer.get("Failed", ()), *failed]}

    def received(self) -> Sequence[tuple[str, int]]:
        self._received += [
            (_job_id(one), int(one["MessageAttributes"]["oncue-attempt"]["StringValue"]))
            for one in self.messages()
        ]
        return self._received

    def messages(self) -> list[Any]:
        """All that are in the queue, which is empty afterwards."""
        found: list[Any] = []
        asked = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        while some := self.sqs.receive_message(**asked, AttributeNames=["All"]).get("Messages"):
            found += some
            ends = [{"Id": str(n), "ReceiptHandle": o["ReceiptHandle"]} for n, o in enumerate(some)]
            self.sqs.delete_message_batch(QueueUrl=self.url, Entries=ends)
        return found

    def go_down(self) -> None:
        self._down = True

    def refuse(self, job_id: str, *, permanent: bool) -> None:
        self._refused[job_id] = permanent


class FifoReceiver(SqsReceiver):
    """In order within a group: all jobs of these tests have the same owner."""

    in_order = True
    ending = ".fifo"


def _job_id(message: Any) -> str:
    return str(message["MessageAttributes"]["oncue-job-id"]["StringValue"])
