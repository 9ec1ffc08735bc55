"""A table and a queue of an emulator, made for one simulation and removed after it; and what is
asked of them, counted as AWS would charge it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from oncue.aws.meter import Meter, MeteredClient
from oncue.core.errors import InvalidInput, ServerUnavailable
from oncue.core.moment import Moment, parse
from oncue.ports.clock import Clock
from oncue.sinks.sqs_address import SqsAddress
from oncue.stores.dynamodb import creation
from oncue.stores.dynamodb.address import TableAddress
from oncue.stores.dynamodb.table import Table

REGION = "us-east-1"


class Arrival(NamedTuple):
    """A message, when it can be received."""

    job_id: str
    due_at: Moment
    arrives_at: Moment


@dataclass
class RecordingSqs:
    """A client of SQS that writes down what it sent."""

    client: Any
    clock: Clock
    meter: Meter
    arrivals: list[Arrival] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Any:
        sent_at = self.clock.now()
        answer = self.client.send_message_batch(QueueUrl=QueueUrl, Entries=Entries)
        self.meter.sent(sum(len(one["MessageBody"].encode()) for one in Entries))
        taken = {one["Id"] for one in answer.get("Successful", ())}
        self.arrivals += [_arrival(one, sent_at) for one in Entries if one["Id"] in taken]
        return answer


def _arrival(entry: Mapping[str, Any], sent_at: Moment) -> Arrival:
    attributes = entry["MessageAttributes"]
    arrives_at = sent_at + 1000 * entry.get("DelaySeconds", 0)
    return Arrival(
        attributes["oncue-job-id"]["StringValue"],
        parse(attributes["oncue-due-at"]["StringValue"]),
        arrives_at,
    )


class Place(NamedTuple):
    """A table and a queue."""

    table: Table
    queue: str
    sqs: RecordingSqs
    meter: Meter


@contextmanager
def place(endpoint: str, sqs_endpoint: str, clock: Clock) -> Iterator[Place]:
    """A new table and a new queue. What the table itself costs is not counted."""
    for url in (endpoint, sqs_endpoint):
        _check(url)
    name, meter = f"oncue-simulation-{uuid4().hex[:12]}", Meter()
    address = TableAddress(name, REGION, endpoint)
    plain = Table(name, address.connect)
    client = SqsAddress(name, REGION, sqs_endpoint).connect(tries=2)
    queue = _created(client, name, sqs_endpoint)
    try:
        creation.create(plain)
        counted = Table(name, lambda: MeteredClient(address.connect(), meter))
        yield Place(counted, name, RecordingSqs(client, clock, meter), meter)
    finally:
        with suppress(Exception):  # the emulator may not be there any more
            client.delete_queue(QueueUrl=queue)
        with suppress(Exception):  # nor the table
            plain.client.delete_table(TableName=name)
        plain.close()


def _check(url: str) -> None:
    """Refuse AWS itself: tables and queues cost money there, and its time is not simulated."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{url!r} is not a URL such as http://127.0.0.1:4566.", "/endpoint")
    if parts.hostname.endswith((".amazonaws.com", ".amazonaws.com.cn", ".aws")):
        raise InvalidInput(f"{url} is AWS itself. A simulation needs an emulator.", "/endpoint")


def _created(client: Any, name: str, endpoint: str) -> str:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return str(client.create_queue(QueueName=name)["QueueUrl"])
    except (BotoCoreError, ClientError) as error:
        raise ServerUnavailable(
            f"no SQS answers at {endpoint} ({type(error).__name__}). DynamoDB Local has none: "
            "start ministack (pip install ministack, in an environment of its own; ministack), "
            "and give its URL as --sqs-endpoint."
        ) from None
