"""A table, a queue of SQS and the handlers, as they would be deployed, with the rights that the
template gives them; time is moved by hand."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from boto3.dynamodb.types import TypeSerializer

import oncue.aws
from oncue import Scheduler, boto
from oncue.aws import sandbox
from oncue.aws.invocation import scheduled_event
from oncue.clock import FakeClock
from oncue.core.moment import Moment, parse, render
from oncue.stores.dynamodb.table import Table
from tests.aws.deployed import LimitedDynamoDB, LimitedSqs, Role
from tests.servers import dynamodb_endpoint, ministack_endpoint
from tests.servers.clients import CREDENTIALS, client
from tests.stores.dynamo import OwnTable, new_table
from tests.stores.dynamo import client as dynamodb

STORE = "dynamodb://oncue?region=eu-central-1"
START = parse("2122-01-24T11:51:18Z")  # not in the past: the emulator removes what has expired


class Context:
    """As Lambda gives it to a handler."""

    function_name = "the-function"

    def __init__(self, remaining_ms: Callable[[], int] = lambda: 60_000) -> None:
        self._remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms()


class Sqs:
    """The client of the sink: writes down what is sent, and fails when it is told to."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.entries: list[Any] = []
        self.before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Any]) -> Any:
        self.before()
        answer = self._real.send_message_batch(QueueUrl=QueueUrl, Entries=Entries)
        self.entries += Entries
        return answer


class Stack:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fifo: bool = False) -> None:
        endpoint, name = ministack_endpoint(), f"q-{uuid4().hex}{'.fifo' if fifo else ''}"
        self.real = client("sqs", endpoint)
        attributes = {"FifoQueue": "true"} if fifo else {}
        self.url = self.real.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        self.role = Role()
        self.sqs = Sqs(LimitedSqs(self.real, self.role))
        self.sink = self.url  # as the template does: then SQS need not be asked for it
        for variable, value in CREDENTIALS.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("ONCUE_STORE", STORE)
        monkeypatch.setenv("ONCUE_SINK_DEFAULT", self.sink)
        connect = boto.connect
        monkeypatch.setattr(
            boto, "connect", lambda *a, **k: self.sqs if a[0] == "sqs" else connect(*a, **k)
        )
        self.clock = FakeClock(START)
        table = Table(new_table().name, lambda: LimitedDynamoDB(dynamodb(), self.role))
        self.store = OwnTable(table, self.clock, shards=2)
        monkeypatch.setattr(
            sandbox, "Scheduler", lambda url, **given: Scheduler(self.store, **given)
        )
        self.cue = sandbox.scheduler()

    @property
    def now(self) -> Moment:
        return self.clock.now()

    def event(self, **fields: Any) -> dict[str, Any]:
        """As EventBridge makes it."""
        return {**scheduled_event(self.now), **fields}

    def invoke(self, name: str, event: Any = None, context: Context | None = None) -> Any:
        handler = getattr(oncue.aws, name)
        with self.role.acting(name):
            return handler(self.event() if event is None else event, context or Context())

    def dispatch(self, **fields: Any) -> Any:
        return self.invoke("dispatch", self.event(**fields))

    def put(self, item: Mapping[str, Any]) -> None:
        """As another program puts an item."""
        wire = {name: TypeSerializer().serialize(value) for name, value in item.items()}
        dynamodb().put_item(TableName=self.store.table.name, Item=wire)

    def put_due(self, job_id: str, due_at: Moment, detail: Any = "x") -> None:
        bucket = render(due_at - due_at % 300_000)[:16]
        self.put({"pk": f"j#{bucket}", "sk": f"{render(due_at)}#{job_id}", "detail": detail})

    def add_stream(self) -> None:
        wanted = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        dynamodb().update_table(TableName=self.store.table.name, StreamSpecification=wanted)

    def stream_event(self) -> dict[str, Any]:
        """What Lambda gets from the stream of the table: everything since its beginning."""
        streams = client("dynamodbstreams", dynamodb_endpoint())
        [stream] = streams.list_streams(TableName=self.store.table.name)["Streams"]
        arn = stream["StreamArn"]
        records = []
        for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
            place = {"StreamArn": arn, "ShardId": shard["ShardId"]}
            at = streams.get_shard_iterator(**place, ShardIteratorType="TRIM_HORIZON")
            iterator = at["ShardIterator"]
            while iterator is not None:
                answer = streams.get_records(ShardIterator=iterator)
                if not answer["Records"]:
                    break
                records += answer["Records"]
                iterator = answer.get("NextShardIterator")
        return {"Records": [_as_json(one) for one in records]}

    @property
    def sent(self) -> list[tuple[str, int]]:
        """(id, attempt) of all that was sent, in order."""
        told = [one["MessageAttributes"] for one in self.sqs.entries]
        return [
            (one["oncue-job-id"]["StringValue"], int(one["oncue-attempt"]["StringValue"]))
            for one in told
        ]

    @property
    def sent_ids(self) -> list[str]:
        return sorted(job_id for job_id, _ in self.sent)

    def received(self) -> list[Any]:
        asked = {"QueueUrl": self.url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
        return list(self.real.receive_message(**asked).get("Messages", ()))


def _as_json(record: Any) -> Any:
    """As Lambda gives it: bytes are base64."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return value.timestamp() if isinstance(value, datetime) else value

    return plain(record)


def metrics_in(out: str) -> list[dict[str, Any]]:
    """The lines of CloudWatch's embedded format in what a function printed."""
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"_aws"')]
    for line in lines:
        [told] = line["_aws"]["CloudWatchMetrics"]
        assert all(name in line for names in told["Dimensions"] for name in names)
        assert all(metric["Name"] in line for metric in told["Metrics"])
    return lines
