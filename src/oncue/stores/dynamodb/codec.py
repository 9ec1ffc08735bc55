"""Records as text and back. The text is JSON, so that a person can read it in the console.

Fields are found in `Record` itself, so a field that jobs gain needs no word here. What has its
default value is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from oncue.core.job import Operation
from oncue.core.lease import NO_LEASE, Lease
from oncue.core.lifecycle import State
from oncue.core.moment import from_datetime, to_datetime
from oncue.core.record import Record
from oncue.stores.past import attempt_row, past_rows, read_attempt, read_past

_APART = frozenset({"id", "payload", "result", "turn", "covered"})
_PAST = frozenset({"operations", "diagnostics", "attempts", "ends", "fenced"})
_DEFAULTS = {
    one.name: None if one.default is MISSING else one.default
    for one in fields(Record)
    if one.name not in _APART | _PAST
}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

T = TypeVar("T")


def to_text(value: object) -> str:
    return _encode(value).decode()


def from_text(text: str) -> Any:
    return _decode(text)


def reader(kind: type[T]) -> Callable[[Any], T]:
    """Reads values of a type, which msgspec gets to know here. It does so at first use, and crashes
    the process if two threads are the first: so make readers where modules are imported."""
    with suppress(msgspec.ValidationError):
        msgspec.convert(None, kind)
    return lambda value: msgspec.convert(value, kind)


def encode(record: Record) -> dict[str, Any]:
    """What is now: everything but payload, result and what was."""
    shown: dict[str, Any] = {
        name: value
        for name, default in _DEFAULTS.items()
        if (value := getattr(record, name)) != default
    }
    if record.digest is not None:
        shown["digest"] = record.digest.hex()
    if record.instant is not None:
        shown["instant"] = record.instant.isoformat()
    if record.attempts:
        shown["now"] = attempt_row(record.attempts[-1])
    return shown


def decode(
    job_id: str, shown: dict[str, Any], payload: bytes, result: bytes | None, past: str | None
) -> Record:
    """The record of a job, from what `encode` and `encode_past` made of it."""
    values: dict[str, Any] = {name: shown.get(name, default) for name, default in _DEFAULTS.items()}
    values["state"] = State(values["state"])
    values["lease"] = Lease(*shown["lease"]) if "lease" in shown else NO_LEASE
    values["digest"] = bytes.fromhex(shown["digest"]) if "digest" in shown else None
    values["instant"] = datetime.fromisoformat(shown["instant"]) if "instant" in shown else None
    values["nonce"] = tuple(shown["nonce"]) if "nonce" in shown else None
    record = Record(id=job_id, payload=payload, result=result, **values)
    if past is not None:
        _decode_past(record, from_text(past))
    if "now" in shown:
        record.attempts.append(read_attempt(shown["now"]))
    return record


def encode_past(record: Record, apart: Collection[str]) -> str | None:
    """What was: the attempts before the last one, how they ended, diagnostics and operations. The
    results of the operations in `apart` are not among it. None: there is nothing."""
    kept = past_rows(record, record.attempts[:-1])
    if record.operations:
        kept["operations"] = [_operation(one, apart) for one in record.operations.values()]
    return to_text(kept) if kept else None


def _decode_past(record: Record, past: dict[str, Any]) -> None:
    read_past(record, past)
    record.operations = {one[0]: _read_operation(one) for one in past.get("operations", ())}


def _operation(one: Operation, apart: Collection[str]) -> list[Any]:
    at = from_datetime(one.updated_at)
    result = None if one.result is None or one.name in apart else one.result.decode("latin-1")
    return [one.name, one.state, at, one.percent, one.message, result]


def _read_operation(row: list[Any]) -> Operation:
    name, state, at, percent, message, result = row
    content = None if result is None else result.encode("latin-1")
    return Operation(name, state, to_datetime(at), percent, message, content)
