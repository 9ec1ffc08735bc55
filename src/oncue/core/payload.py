"""Payloads and results: plain JSON, kept as bytes."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.text import cut

LIMIT_BYTES = 256 * 1024
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: object, pointer: str = "/payload") -> bytes:
    """`value` as JSON; what JSON, SQS or PostgreSQL cannot carry is refused."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as problem:
        raise _unwritable(problem, pointer) from None
    if len(text) > LIMIT_BYTES:
        raise TooLarge(
            f"{len(text):,} bytes as JSON; at most {LIMIT_BYTES:,} are allowed. "
            "Store the data elsewhere and send a reference to it.",
            pointer,
        )
    if b"\\u0000" in text or b"null" in text:
        try:
            _inspect(msgspec.to_builtins(value), pointer)
        except RecursionError as problem:
            raise _unwritable(problem, pointer) from None
    return text


def decode(text: bytes | None) -> Any:
    """What the JSON says; None for nothing."""
    return None if text is None else _decode(text)


def operation_result(state: str, result: object) -> bytes | None:
    """The result that a report on an operation carries. A success always has one, even if it is
    null. In any other report None means that there is none, so the stored one stays."""
    return None if result is None and state != "succeeded" else encode(result, "/result")


def _unwritable(problem: Exception, pointer: str) -> InvalidInput:
    return InvalidInput(
        f"cannot be written as JSON: {problem}. "
        "Use dicts with text keys, lists, text, numbers, booleans and None.",
        pointer,
    )


def _inspect(value: object, pointer: str) -> None:
    """Refuse what the encoder lets through: NUL in text, and NaN, which it would turn to null."""
    if isinstance(value, str) and "\0" in value:
        raise InvalidInput("contains the NUL character, which not every store can keep.", pointer)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{value} is not a JSON number.", pointer)
    if isinstance(value, dict):
        for key, inner in value.items():
            _inspect(key, pointer)
            _inspect(inner, cut(f"{pointer}/{key}"))
    elif isinstance(value, list | tuple | set | frozenset):
        for position, inner in enumerate(value):
            _inspect(inner, f"{pointer}/{position}")
