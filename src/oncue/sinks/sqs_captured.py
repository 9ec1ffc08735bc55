"""A message for SQS that was captured and waits as a job: the payload is the whole message.

It is sent as it was given: body, attributes and the ids of a FIFO queue, and nothing of oncue's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from oncue.core.errors import InvalidInput
from oncue.core.job import Delivery
from oncue.core.moment import Moment
from oncue.sinks.captured import CapturedMessages
from oncue.sinks.sqs_address import SqsAddress
from oncue.sinks.sqs_message import Entry, MessageForm, delay_seconds

PREFIX = "message:"
_DECODED_BYTES = (bytes,)


def address_of(sink: str | None) -> SqsAddress | None:
    """The SQS queue to which a sink sends captured messages; None: it sends none."""
    if sink is None or not sink.startswith(PREFIX):
        return None
    return SqsAddress.read(sink.removeprefix(PREFIX))


class Attribute(msgspec.Struct, omit_defaults=True):
    """Named as SQS names it, like the fields of a message."""

    DataType: str
    StringValue: str | None = None
    BinaryValue: bytes | None = None


class SqsMessage(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    MessageBody: str
    MessageAttributes: dict[str, Attribute] = {}
    MessageSystemAttributes: dict[str, Attribute] = {}
    MessageGroupId: str | None = None
    MessageDeduplicationId: str | None = None

    def as_fields(self) -> dict[str, Any]:
        """As boto3 takes them."""
        fields: dict[str, Any] = msgspec.to_builtins(self, builtin_types=_DECODED_BYTES)
        return fields


MESSAGES = CapturedMessages(SqsMessage, "a captured SQS message")


def is_captured(payload: Any) -> bool:
    """Whether a payload has the form of a captured message."""
    try:
        msgspec.convert(payload, SqsMessage)
    except msgspec.ValidationError:
        return False
    return True


def entry(job: Delivery, position: int, now: Moment, *, fifo: bool) -> Entry:
    made: Entry = {"Id": str(position), **MESSAGES.read(job.payload).as_fields()}
    if not fifo:  # 0 as well: else the queue's own delay would be added
        made["DelaySeconds"] = delay_seconds(job, now)
    return made


def group(job: Delivery) -> str:
    with suppress(InvalidInput):
        return MESSAGES.read(job.payload).MessageGroupId or job.id
    return job.id


def size_of(job: Delivery) -> int:
    return len(job.payload)


FORM = MessageForm(entry, group, size_of)
