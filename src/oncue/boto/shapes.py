"""JSON for clients of boto3, by msgspec.

Botocore compares every value of a request and of an answer with the model of the service, which is
a third of the time that it takes for a batch. What oncue sends has the form of the wire already,
and the types below say what an answer holds; handlers of botocore's own events replace its JSON by
these. Answers of another form, and all errors, are left to botocore.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypedDict

import msgspec

_BODY = "oncue_body"


class AttributeValue(TypedDict, total=False):
    S: str
    N: str
    B: bytes
    SS: list[str]
    NS: list[str]
    BS: list[bytes]
    M: dict[str, AttributeValue]
    L: list[AttributeValue]
    NULL: bool
    BOOL: bool


class Found(TypedDict, total=False):
    Items: list[dict[str, AttributeValue]]
    Count: int
    ScannedCount: int
    LastEvaluatedKey: dict[str, AttributeValue]
    ConsumedCapacity: Any


class Wanted(TypedDict, total=False):
    Keys: list[dict[str, AttributeValue]]
    ConsistentRead: bool


class Got(TypedDict, total=False):
    Responses: dict[str, list[dict[str, AttributeValue]]]
    UnprocessedKeys: dict[str, Wanted]
    ConsumedCapacity: Any


class BatchWritten(TypedDict, total=False):
    UnprocessedItems: dict[str, list[dict[str, dict[str, dict[str, AttributeValue]]]]]
    ConsumedCapacity: Any


class StatementError(TypedDict, total=False):
    Code: str
    Message: str
    Item: dict[str, AttributeValue]


class Said(TypedDict, total=False):
    Error: StatementError
    TableName: str
    Item: dict[str, AttributeValue]


class Executed(TypedDict, total=False):
    Responses: list[Said]
    ConsumedCapacity: Any


class Sent(TypedDict, total=False):
    Successful: list[dict[str, str]]
    Failed: list[dict[str, Any]]


_encode = msgspec.json.Encoder().encode
# Made here: msgspec gets to know a type at its first use, which must not happen in two threads.
ANSWERS: Mapping[str, Mapping[str, msgspec.json.Decoder[Any]]] = {
    "dynamodb": {
        "Query": msgspec.json.Decoder(Found),
        "BatchGetItem": msgspec.json.Decoder(Got),
        "BatchWriteItem": msgspec.json.Decoder(BatchWritten),
        "BatchExecuteStatement": msgspec.json.Decoder(Executed),
    },
    "sqs": {"SendMessageBatch": msgspec.json.Decoder(Sent)},
}
"""By service and operation: those that carry many items."""


def speed_up(client: Any, service: str) -> Any:
    """Make a client read and write its JSON in this way. Returns the client."""
    register = client.meta.events.register
    for operation, decoder in ANSWERS.get(service, {}).items():
        register(f"before-parameter-build.{service}.{operation}", _build)
        register(f"before-call.{service}.{operation}", _give)
        register(f"before-parse.{service}.{operation}", partial(_parse, decoder))
    return client


def _build(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Write the request, and leave little of it for botocore to write."""
    try:
        body = _encode(params)
    except (TypeError, ValueError):  # botocore says what is wrong with it
        return
    context[_BODY] = body
    for name, value in params.items():
        if isinstance(value, dict):  # the names of tables may decide on the endpoint
            params[name] = {inner: _emptied(one) for inner, one in value.items()}
        else:
            params[name] = _emptied(value)


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, (dict, list)) else value


def _give(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    """Send what was written."""
    if (body := context.pop(_BODY, None)) is not None:
        params["body"] = body


def _parse(
    decoder: msgspec.json.Decoder[Any],
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    """Read an answer, and leave nothing of it for botocore to read."""
    if response_dict["status_code"] != 200:
        return
    try:
        customized_response_dict.update(decoder.decode(response_dict["body"]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    response_dict["body"] = b"{}"
