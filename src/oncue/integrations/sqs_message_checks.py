"""What SQS itself says of a message: why it would refuse it, and its digests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import md5
from typing import Any, NamedTuple

from oncue.core.payload import LIMIT_BYTES
from oncue.sinks.sqs_message import CALL_ENTRIES, LARGEST_BYTES

MOST_ATTRIBUTES = 10
ATTRIBUTES = {"MessageAttributes", "MessageSystemAttributes"}
_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_REFUSED_CHARACTER = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PREFIXES = ("String", "Number", "Binary")
_ATTRIBUTE_NAME = re.compile(r"(?!aws\.|amazon\.)(?!.*\.\.)(?!\.)[a-z0-9_.-]{1,256}(?<!\.)", re.I)
_ID = re.compile(r"[!-~]{1,128}")  # of a group, or to recognise a message
_STRING, _BINARY = b"\x01", b"\x02"

Message = Mapping[str, Any]
"""The parameters of `SendMessage`, or an entry of `SendMessageBatch`."""


class SqsRefusal(NamedTuple):
    """An error as SQS has it."""

    code: str
    text: str


class SqsLimits(NamedTuple):
    """What a queue takes."""

    largest: int = LARGEST_BYTES
    is_fifo: bool = False
    deduplicates: bool = False
    """By the body, if a message has no id for that."""


def refusal(message: Message, limits: SqsLimits) -> SqsRefusal | None:
    """Why SQS would not take a message; None: it would."""
    return next(_refusals(message, limits), None)


def _refusals(message: Message, limits: SqsLimits) -> Iterator[SqsRefusal]:
    body, attributes = message["MessageBody"], message.get("MessageAttributes") or {}
    if not body:
        yield _missing("MessageBody")
    yield from _of_characters(body)
    yield from _of_attributes(attributes)
    yield from _of_attributes(message.get("MessageSystemAttributes") or {})
    if size(message) > limits.largest:
        yield _invalid(f"Message must be shorter than {limits.largest} bytes.")
    yield from _of_ids(message, limits)


def _of_characters(text: str) -> Iterator[SqsRefusal]:
    if _REFUSED_CHARACTER.search(text):
        valid = "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
        text = f"Invalid characters found. Valid unicode characters are {valid}"
        yield SqsRefusal("InvalidMessageContents", text)


def _of_ids(message: Message, limits: SqsLimits) -> Iterator[SqsRefusal]:
    """Standard queues take the id of a group, too."""
    group, deduplication = message.get("MessageGroupId"), message.get("MessageDeduplicationId")
    if limits.is_fifo and not group:
        yield _missing("MessageGroupId")
    if limits.is_fifo and not (deduplication or limits.deduplicates):
        yield _invalid(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
    if deduplication and not limits.is_fifo:
        yield _invalid(
            "The request include parameter MessageDeduplicationId which is not valid for this "
            "queue type"
        )
    for name, value in {"MessageGroupId": group, "MessageDeduplicationId": deduplication}.items():
        if value and not _ID.fullmatch(value):
            yield _invalid(
                f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in "
                "length"
            )


def _of_attributes(attributes: Mapping[str, Any]) -> Iterator[SqsRefusal]:
    if len(attributes) > MOST_ATTRIBUTES:
        many = f"[{len(attributes)}] exceeds the allowed maximum [{MOST_ATTRIBUTES}]."
        yield _invalid(f"Number of message attributes {many}")
    for name, attribute in attributes.items():
        kind = attribute["DataType"].partition(".")[0]
        if not _ATTRIBUTE_NAME.fullmatch(name):
            yield _invalid(f"The message attribute name {name!a} is invalid.")
        yield from _of_characters(attribute["DataType"])
        yield from _of_characters(attribute.get("StringValue") or "")
        if kind not in _PREFIXES:
            yield _invalid(
                f"The message attribute '{name}' has an invalid message attribute type, the set of "
                "supported type prefixes is Binary, Number, and String."
            )
        elif not attribute.get("BinaryValue" if kind == "Binary" else "StringValue"):
            yield _invalid(
                f"The message attribute '{name}' must contain non-empty message attribute value "
                f"for message attribute type '{kind}'."
            )
        elif kind == "Number" and not _NUMBER.fullmatch(attribute["StringValue"]):
            yield _invalid(
                f"Can't cast the value of message (user) attribute '{name}' to a number."
            )


def batch_refusal(entries: list[Message]) -> SqsRefusal | None:
    """Why SQS would not take a batch as a whole; None: it would."""
    ids = [entry["Id"] for entry in entries]
    if not entries:
        text = "There should be at least one SendMessageBatchRequestEntry in the request."
        return _of_batch("EmptyBatchRequest", text)
    if len(entries) > CALL_ENTRIES:
        text = f"Maximum number of entries per request are {CALL_ENTRIES}. You have sent"
        return _of_batch("TooManyEntriesInBatchRequest", f"{text} {len(entries)}.")
    if not all(map(_ENTRY_ID.fullmatch, ids)):
        text = "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
        return _of_batch("InvalidBatchEntryId", f"{text} It can be at most 80 letters long.")
    for entry_id in ids:
        if ids.count(entry_id) > 1:
            return _of_batch("BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")
    total = sum(map(size, entries))
    if total > LARGEST_BYTES:
        text = f"Batch requests cannot be longer than {LARGEST_BYTES} bytes. You have sent"
        return _of_batch("BatchRequestTooLong", f"{text} {total} bytes.")
    return None


def too_large(bytes_: int) -> SqsRefusal:
    """Why a message that SQS takes cannot wait in oncue."""
    return _invalid(
        f"A message that is delayed by more than 900 seconds is kept as JSON of at most "
        f"{LIMIT_BYTES} bytes, and this one has {bytes_}."
    )


def size(message: Message) -> int:
    """In bytes, as SQS counts: the body and the attributes."""
    attributes = message.get("MessageAttributes") or {}
    return len(_utf8(message["MessageBody"])) + sum(
        len(_utf8(name)) + len(_utf8(one["DataType"])) + len(_value(one))
        for name, one in attributes.items()
    )


def digests(message: Message) -> dict[str, str]:
    """As SQS answers them."""
    found = {"MD5OfMessageBody": _hex(message["MessageBody"].encode())}
    for field in ATTRIBUTES:
        if message.get(field):
            found[f"MD5Of{field}"] = _hex(_digested(message[field]))
    return found


def _digested(attributes: Mapping[str, Any]) -> bytes:
    """The bytes whose digest SQS takes: attributes by name, each part after its length."""
    parts: list[bytes] = []
    for name in sorted(attributes):
        one = attributes[name]
        marker = _BINARY if one["DataType"].startswith("Binary") else _STRING
        parts += [_counted(name.encode()), _counted(one["DataType"].encode())]
        parts += [marker, _counted(_value(one))]
    return b"".join(parts)


def _value(attribute: Mapping[str, Any]) -> bytes:
    if (binary := attribute.get("BinaryValue")) is not None:
        return _utf8(binary) if isinstance(binary, str) else bytes(binary)
    return _utf8(attribute.get("StringValue") or "")


def as_sent(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """An attribute as boto3 sends it: text as a binary value becomes bytes."""
    if not isinstance(attribute.get("BinaryValue"), str):
        return dict(attribute)
    return {**attribute, "BinaryValue": attribute["BinaryValue"].encode()}


def _utf8(text: str) -> bytes:
    """Also of text that is refused because it has half of a surrogate pair."""
    return text.encode(errors="surrogatepass")


def _counted(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def _hex(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()


def _missing(name: str) -> SqsRefusal:
    return SqsRefusal("MissingParameter", f"The request must contain the parameter {name}.")


def _invalid(reason: str) -> SqsRefusal:
    text = f"One or more parameters are invalid. Reason: {reason}"
    return SqsRefusal("InvalidParameterValue", text)


def _of_batch(name: str, text: str) -> SqsRefusal:
    return SqsRefusal(f"AWS.SimpleQueueService.{name}", text)
