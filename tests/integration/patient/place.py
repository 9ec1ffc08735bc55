"""An SQS queue of the emulator, a store, and a patient client between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import boto3
from botocore.exceptions import ClientError

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from oncue.integrations.sqs import patient
from oncue.stores.memory.store import MemoryStore
from tests.servers import ministack_endpoint

DAY = 86_400
ATTRIBUTES = {
    "kind": {"DataType": "String", "StringValue": "häll"},
    "count": {"DataType": "Number.int", "StringValue": "3"},
    "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
TRACE = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46"}}


class NotingClient:
    """A client of boto3, as users make it. It notes the batches that are sent."""

    def __init__(self) -> None:
        make: Any = boto3.client
        self.client = make(
            "sqs",
            endpoint_url=os.environ.get("MINISTACK") or ministack_endpoint(),
            region_name="eu-central-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        self.batches: list[list[Any]] = []
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def send_message(self, *args: Any, **call: Any) -> Any:
        if call.get("DelaySeconds", 0) > 900:
            raise ClientError(
                {"Error": {"Code": "InvalidParameterValue", "Message": "must be <= 900"}},
                "SendMessage",
            )
        return self.client.send_message(*args, **call)

    def send_message_batch(self, **call: Any) -> Any:
        self.before()
        answer = self.client.send_message_batch(**call)
        self.batches.append(list(call["Entries"]))
        return answer


class Place:
    """A queue of SQS, a store, and the patient client. Its poller makes steps by hand."""

    def __init__(self, *, fifo: bool = False, cue: Scheduler | None = None, **options: Any) -> None:
        self.clock = FakeClock(SystemClock().now())
        self.cue = cue or Scheduler(MemoryStore(self.clock))
        self.real = NotingClient()
        self.name = f"patient-{uuid4().hex}{'.fifo' if fifo else ''}"
        attributes = {"FifoQueue": "true"} if fifo else {}
        made = self.real.client.create_queue(QueueName=self.name, Attributes=attributes)
        self.url = made["QueueUrl"]
        self.sqs = patient(self.real, self.cue, poll_seconds=30, **options)

    def poll(self) -> float:
        assert self.sqs.poller is not None
        return self.sqs.poller.step()

    def received(self) -> list[Any]:
        found: list[Any] = []
        while more := self.real.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        ).get("Messages"):
            found += more
        return found

    def send(self, body: str = "hello", **more: Any) -> Any:
        return self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **more)


def entry(entry_id: str, body: str = "x", **more: Any) -> dict[str, Any]:
    return {"Id": entry_id, "MessageBody": body, **more}
