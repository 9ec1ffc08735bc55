"""Payloads and results: plain JSON, kept as bytes."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from oncue.core.errors import InvalidInput, TooLarge
from oncue.core.text import cut, escaped

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
            f"is {len(text):,} bytes as JSON; at most {LIMIT_BYTES:,} are allowed. "
            "Store the data elsewhere and send a reference to it.",
            pointer,
        )
    # By `find`, which is quicker than `in`; and a single character is found before a word is.
    if text.find(b"null") >= 0 or (text.find(b"\\") >= 0 and b"\\u0000" in text):
        try:
            _inspect(msgspec.to_builtins(value), pointer)
        except RecursionError as problem:
            raise _unwritable(problem, pointer) from None
    return text


def check(text: bytes, pointer: str = "/payload", most: int = LIMIT_BYTES) -> None:
    """Refuse JSON from elsewhere that `encode` would not have written."""
    if len(text) > most:
        raise TooLarge(f"{len(text):,} bytes of JSON; at most {most:,} are allowed.", pointer)
    try:
        value = _decode(text)
        if b"\\u0000" in text:
            _inspect(value, pointer)
    except RecursionError:
        raise InvalidInput("is nested too deeply.", pointer) from None
    except (msgspec.DecodeError, ValueError):
        raise InvalidInput("is not JSON that can be stored.", pointer) from None


def decode(text: bytes | None) -> Any:
    """What the JSON says; None for nothing."""
    return None if text is None else _decode(text)


def operation_result(state: str, result: object) -> bytes | None:
    """The result that a report on an operation carries. A success always has one, even if it is
    null. In any other report None means that there is none, so the stored one stays."""
    return None if result is None and state != "succeeded" else encode(result, "/result")


def unkeepable(value: object, pointer: str) -> InvalidInput | None:
    """The first half of a character, or number beyond all bounds, in a value that was read from
    JSON by a decoder that lets them through."""
    if isinstance(value, str) and not _whole(value):
        return InvalidInput(
            "contains half a character (a lone surrogate); send plain text.", pointer
        )
    if isinstance(value, float) and not math.isfinite(value):
        return InvalidInput("this number is too large to be kept.", pointer)
    if isinstance(value, dict):
        for name, inner in value.items():
            place = cut(f"{pointer}/{escaped(cut(name))}")  # deep inside it would become long
            if not _whole(name):
                return InvalidInput("the name contains half a character (a lone surrogate).", place)
            if (found := unkeepable(inner, place)) is not None:
                return found
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            if (found := unkeepable(inner, f"{pointer}/{position}")) is not None:
                return found
    return None


def _whole(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


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
