"""What every part of the client needs: to ask, and to read the answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from oncue.client.connection import Connection, Request
from oncue.core.errors import InvalidInput
from oncue.core.moment import from_datetime, render

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


_OTHER_SHAPE = "answered with JSON of another shape"


class Asking:
    connection: Connection

    def _ask(self, request: Request, kind: type[T]) -> T:
        """The answer, read as `kind`."""
        return read(self.connection, self.connection.ask(request), kind)

    def _ask_for(self, request: Request, shape: type[S], value: Callable[[S], T]) -> T:
        """The `value` of the answer, which has this shape."""
        return value_of(self.connection, self._ask(request, shape), value)


def read(connection: Connection, body: bytes, kind: type[T]) -> T:
    """A body as `kind`; what cannot be read was not written by oncue."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise connection.not_ours(_OTHER_SHAPE) from None


def value_of(connection: Connection, body: S, value: Callable[[S], T]) -> T:
    """The `value` of a body, if its texts are what they should be."""
    try:
        return value(body)
    except (InvalidInput, ValueError):
        raise connection.not_ours(_OTHER_SHAPE) from None


def encode(fields: dict[str, Any]) -> bytes:
    """Fields as JSON; those that are None are not said."""
    said = {name: value for name, value in fields.items() if value is not None}
    for name, value in said.items():
        # It would be written as null, which says nothing: a job would be due now, not never.
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput("must be a finite number.", f"/{name}")
    try:
        return msgspec.json.encode(said)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"cannot be written as JSON: {problem}.") from None


def moment_text(value: datetime | str | None, pointer: str) -> str | None:
    """A time as it is sent; what a text means is for the server to say."""
    return render(from_datetime(value, pointer)) if isinstance(value, datetime) else value


def seconds_of(value: Any) -> Any:
    """A length as it is sent: a number, or ISO 8601."""
    return value.total_seconds() if isinstance(value, timedelta) else value
