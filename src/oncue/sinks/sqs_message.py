"""A job as an SQS message: its body, its attributes and its size.

The body is the payload, as JSON. The attributes tell which job it is, so that a receiver recognises
a message that comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

from oncue.core.job import Delivery
from oncue.core.moment import Moment, render

LARGEST_BYTES = 1024 * 1024  # of a message, and of all messages of a call
CALL_ENTRIES = 10
LONGEST_DELAY_SECONDS = 900
ATTRIBUTE_BYTES = 256  # more than all attributes of a message have, without the id
REFUSED_CHARACTERS = ("\ufffe".encode(), "\uffff".encode())
"""JSON escapes all other characters that SQS refuses."""
_PLAIN = re.compile(r"[!-~]{1,128}")

Entry = dict[str, Any]


def entry(job: Delivery, position: int, now: Moment, *, fifo: bool) -> Entry:
    """The entry of `SendMessageBatch` for a job. Before its due time, the message is given the time
    that is left as its delay."""
    attributes = {
        "oncue-job-id": _text(job.id),
        "oncue-attempt": {"DataType": "Number", "StringValue": str(job.attempt)},
        "oncue-due-at": _text(render(job.due_at)),
    }
    if job.token is not None:
        attributes["oncue-token"] = _text(job.token)
    made: Entry = {
        "Id": str(position),
        "MessageBody": job.payload.decode(),
        "MessageAttributes": attributes,
    }
    if fifo:
        # The attempt counts what has failed before. So SQS recognises the same hand-over if it
        # is repeated within five minutes, and another attempt is another message.
        made["MessageDeduplicationId"] = _plain(f"{job.id}:{job.attempt - 1}")
        made["MessageGroupId"] = group(job)
    elif delay := delay_seconds(job, now):
        made["DelaySeconds"] = delay
    return made


def delay_seconds(job: Delivery, now: Moment) -> int:
    """What is left until its due time, rounded up: a message is never early."""
    return min(max(0, -((now - job.due_at) // 1000)), LONGEST_DELAY_SECONDS)


def group(job: Delivery) -> str:
    """Within which a FIFO queue keeps the order."""
    return _plain(job.owner or job.id)


def size_of(job: Delivery) -> int:
    """How many bytes its message has, at most."""
    return len(job.payload) + len(job.id.encode()) + ATTRIBUTE_BYTES


class MessageForm(NamedTuple):
    """How jobs become messages."""

    entry: Callable[..., Entry]
    """Raises `InvalidInput` if a payload cannot be sent."""
    group: Callable[[Delivery], str]
    size_of: Callable[[Delivery], int]


FORM = MessageForm(entry, group, size_of)


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def _plain(text: str) -> str:
    """The text if SQS takes it as an id, else a digest of it."""
    return text if _PLAIN.fullmatch(text) else sha256(text.encode()).hexdigest()
