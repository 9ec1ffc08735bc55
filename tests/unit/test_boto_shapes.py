"""A client that writes and reads JSON by itself sends and answers what botocore would."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError

from oncue.boto import LEAN
from oncue.boto.shapes import speed_up

ITEM = {
    "pk": {"S": "ä#\u2028 \U0001f600"},
    "n": {"N": "12345678901234567890"},
    "b": {"B": "AAH/"},
    "sets": {"L": [{"SS": ["a"]}, {"NS": ["1"]}, {"BS": ["AAH/", ""]}]},
    "deep": {"M": {"x": {"L": [{"M": {}}, {"NULL": True}, {"BOOL": False}, {"B": "AQ=="}]}}},
}
SENT = {
    "pk": {"S": "ä#\u2028 \U0001f600"},
    "n": {"N": "1"},
    "b": {"B": b"\x00\x01\xff"},
    "deep": {"M": {"x": {"L": [{"BOOL": False}, {"B": b"\x01"}]}}},
}
KEY = {"pk": {"S": "k"}}
WRITES = [{"PutRequest": {"Item": SENT}}, {"DeleteRequest": {"Key": KEY}}]
UNTAKEN = [{"PutRequest": {"Item": ITEM}}, {"DeleteRequest": {"Key": KEY}}]
QUERY = {"TableName": "t", "Limit": 3, "ExpressionAttributeValues": SENT, "ConsistentRead": True}
GET = {"RequestItems": {"t": {"Keys": [KEY, KEY], "ConsistentRead": True}}}
WRITE = {"RequestItems": {"t": WRITES}}
EXECUTE = {"Statements": [{"Statement": "UPDATE …", "Parameters": [*SENT.values()]}]}
MESSAGE = {
    "Id": "0",
    "MessageBody": '{"ä": 1}',
    "DelaySeconds": 3,
    "MessageAttributes": {"a": {"DataType": "Number", "StringValue": "1"}},
}
SEND = {"QueueUrl": "http://127.0.0.1:1/000000000000/q", "Entries": [MESSAGE]}
UNSENT = {"Id": "1", "Code": "InternalError", "SenderFault": False, "Message": "later"}
CASES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("dynamodb", "query", QUERY, {"Items": [ITEM, ITEM], "Count": 2, "ScannedCount": 2}),
    ("dynamodb", "query", QUERY, {"Items": [], "Count": 0, "LastEvaluatedKey": ITEM}),
    ("dynamodb", "query", QUERY, {"Items": [], "LastEvaluatedKey": None, "News": [1]}),
    ("dynamodb", "batch_get_item", GET, {"Responses": {"t": [ITEM]}, "UnprocessedKeys": {}}),
    (
        *("dynamodb", "batch_get_item", GET),
        {"Responses": {}, "UnprocessedKeys": {"t": {"Keys": [ITEM], "ConsistentRead": True}}},
    ),
    ("dynamodb", "batch_write_item", WRITE, {"UnprocessedItems": {"t": UNTAKEN}}),
    ("dynamodb", "batch_write_item", WRITE, {}),
    (
        *("dynamodb", "batch_execute_statement", EXECUTE),
        {
            "Responses": [
                {"TableName": "t"},
                {"Error": {"Code": "ConditionalCheckFailed", "Message": "no", "Item": ITEM}},
            ]
        },
    ),
    (
        *("sqs", "send_message_batch", SEND),
        {
            "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "d"}],
            "Failed": [UNSENT],
        },
    ),
]


class Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]


class Service:
    """Answers a client in place of the network, and keeps what it was asked."""

    def __init__(self, service: str, status: int, body: bytes, *, fast: bool) -> None:
        make: Any = boto3.client
        retries = {"total_max_attempts": 1}
        self.client = make(
            service,
            region_name="eu-central-1",
            endpoint_url="http://127.0.0.1:1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(retries=retries, **LEAN),  # type: ignore[arg-type]
        )
        self._status, self._body = status, body
        self.asked: list[Any] = []
        self.client.meta.events.register(f"before-send.{service}", self._answer)
        if fast:
            speed_up(self.client, service)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        headers = {name.lower(): request.headers[name] for name in ("X-Amz-Target", "Content-Type")}
        self.asked.append((request.url, headers, json.loads(request.body)))
        length = int(request.headers["Content-Length"])
        assert length == len(request.body)
        told: Any = {"x-amzn-RequestId": "r"}
        return AWSResponse(request.url, self._status, told, Raw(self._body))


def _both(service: str, status: int, body: bytes) -> tuple[Service, Service]:
    return (
        Service(service, status, body, fast=False),
        Service(service, status, body, fast=True),
    )


@pytest.mark.parametrize(("service", "method", "asked", "answer"), CASES)
def test_requests_and_answers_are_those_of_botocore(
    service: str, method: str, asked: dict[str, Any], answer: Any
) -> None:
    slow, fast = _both(service, 200, json.dumps(answer).encode())
    before = repr(asked)
    told = [getattr(one.client, method)(**asked) for one in (slow, fast)]
    assert told[0] == told[1]
    assert slow.asked == fast.asked
    assert repr(asked) == before


def test_an_error_is_told_by_botocore() -> None:
    body = json.dumps({"__type": "x#ProvisionedThroughputExceededException", "message": "slow"})
    codes = []
    for one in _both("dynamodb", 400, body.encode()):
        with pytest.raises(ClientError) as raised:
            one.client.query(**QUERY)
        codes.append(raised.value.response["Error"])
    assert codes[0] == codes[1]


def test_what_cannot_be_written_is_left_to_botocore() -> None:
    lone = {"TableName": "t", "ExpressionAttributeValues": {":pk": {"S": "\ud800"}}}
    slow, fast = _both("dynamodb", 200, b'{"Items": []}')
    for one in (slow, fast):
        one.client.query(**lone)
    assert slow.asked == fast.asked
