"""A message of Celery that was captured and waits as a job: the payload is the whole message.

It is published as it was captured. The body is what a serializer made of the arguments: bytes that
nobody here reads.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oncue.core.errors import InvalidInput


class CeleryMessage(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    body: bytes
    content_type: str
    content_encoding: str
    exchange: str
    routing_key: str
    headers: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    """The others that its publisher is given: correlation_id, reply_to, priority, expiration …"""
    declare: list[str] = []
    """The names of the queues that have to be there when it is published."""


_decoder = msgspec.json.Decoder(CeleryMessage)


def read(payload: bytes) -> CeleryMessage:
    """The message that waits as this payload; `InvalidInput` if it is none."""
    try:
        return _decoder.decode(payload)
    except msgspec.MsgspecError as problem:
        detail = f"it is not a captured message of Celery: {problem}. Other jobs need another queue"
        raise InvalidInput(detail, "/payload") from None


class CeleryBounds:
    """Which payloads can be published as messages."""

    def problem(self, payload: bytes) -> InvalidInput | None:
        try:
            read(payload)
        except InvalidInput as problem:
            return problem
        return None
