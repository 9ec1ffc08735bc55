"""Messages for SQS that are captured over HTTP: the server sends them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from oncue import Client
from oncue.integrations.sqs import patient
from tests.servers import ministack_endpoint
from tests.servers.clients import client as aws_client


def test_a_message_is_captured_over_http(client: Client) -> None:
    real = aws_client("sqs", ministack_endpoint())
    name = f"patient-{uuid4().hex}"
    url = real.create_queue(QueueName=name)["QueueUrl"]
    sqs = patient(real, client)
    assert sqs.poller is None, "the server sends"
    answer = sqs.send_message(QueueUrl=url, MessageBody="hello", DelaySeconds=86_400, Key="k")
    assert client.job(answer["MessageId"]).queue == name
    assert client.queue(name).sink == f"message:{url}"
    assert sqs.cancel(answer["MessageId"])
    later = datetime.now(UTC) + timedelta(days=1)
    batch = [{"Id": "a", "MessageBody": "later", "DeliverAt": later}]
    [taken] = sqs.send_message_batch(QueueUrl=url, Entries=batch)["Successful"]
    assert (taken["Id"], client.job(taken["MessageId"]).queue) == ("a", name)
