"""Messages of another system that wait as jobs: the payload is the whole message, as JSON."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from oncue.core.errors import InvalidInput

Message = TypeVar("Message")


class CapturedMessages(Generic[Message]):
    """Reads payloads; as `PayloadBounds`, refuses those that are no such message."""

    def __init__(self, kind: type[Message], name: str) -> None:
        """`name`: of such a message, for errors."""
        self._decode = msgspec.json.Decoder(kind).decode
        self._name = name

    def read(self, payload: bytes) -> Message:
        """The message; `InvalidInput` if it is none."""
        try:
            return self._decode(payload)
        except msgspec.MsgspecError as problem:
            text = f"it is not {self._name}: {problem}. Other jobs need another queue."
            raise InvalidInput(text, "/payload") from None

    def problem(self, payload: bytes) -> InvalidInput | None:
        try:
            self.read(payload)
        except InvalidInput as problem:
            return problem
        return None
