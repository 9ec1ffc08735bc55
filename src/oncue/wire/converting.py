"""From values of core to the Structs of the wire, and back.

Fields are paired by name; JSON that core keeps as bytes under `payload_json` is `payload` here. The
types say how a field is converted:

    on the wire        in core
    Time               datetime, or a moment
    Instant            datetime, or a stamp
    Raw                bytes; null is None where core allows None
    a Struct           the value that the Struct describes; the same for lists and tuples of them
    anything else      itself, or the member of an Enum; None is UNSET where that is allowed

A Struct whose fields are not those of its value has methods `of` and `read`, which are used then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, lru_cache, partial
from operator import attrgetter, methodcaller
from types import UnionType
from typing import (
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from oncue.core import moment, stamp
from oncue.wire.formats import Instant, Time

S = TypeVar("S", bound=Struct)
T = TypeVar("T")
NULL = Raw(b"null")
_Convert = Callable[[Any], Any]


def null() -> Raw:
    """For `default_factory`: JSON Schema cannot be made of a field whose default is a Raw."""
    return NULL


def written(shape: type[S], value: object, **more: Any) -> S:
    """The Struct of this shape that says what `value` is; `more` are fields that it does not
    have."""
    pair: tuple[Any, Any] = (shape, type(value))
    return shape(**_written_fields(*pair).of(value, more))


def converted(shape: type[S], value: object) -> dict[str, Any]:
    """The fields of a Struct that a value has, for Structs that say what several values are."""
    pair: tuple[Any, Any] = (shape, type(value))
    return _written_fields(*pair).of(value, {})


def read(kind: type[T], body: Struct, **more: Any) -> T:
    """The value of core that a Struct says; `more` are fields that it does not have."""
    pair: tuple[Any, Any] = (kind, type(body))
    return kind(**_read_fields(*pair).of(body, more))


class _Fields:
    """The fields that two types have in common, as one of them is made from the other."""

    def __init__(self, fields: Sequence[tuple[str, str, _Convert | None]]) -> None:
        """Each has its name on the side that is made, that on the other side, and how its value is
        converted; None: it stays as it is."""
        self._names = [name for name, _, _ in fields]
        self._converted = [(name, convert) for name, _, convert in fields if convert is not None]
        self._get = attrgetter(*(source for _, source, _ in fields))
        self._alone = len(fields) == 1

    def of(self, given: object, more: dict[str, Any]) -> dict[str, Any]:
        """The fields of the one to be made; `more` are used as they are."""
        values = self._get(given)
        found = dict(zip(self._names, (values,) if self._alone else values, strict=True))
        for name, convert in self._converted:
            if name not in more:
                found[name] = convert(found[name])
        return found | more


@cache
def _written_fields(shape: Any, kind: Any) -> _Fields:
    hints = get_type_hints(shape, include_extras=True)
    names = [field.name for field in msgspec.structs.fields(shape)]
    pairs = [(name, _core_name(kind, name)) for name in names]
    return _Fields(
        [(name, source, _writing(hints[name])) for name, source in pairs if source is not None]
    )


@cache
def _read_fields(kind: Any, shape: Any) -> _Fields:
    hints = get_type_hints(shape, include_extras=True)
    kinds = get_type_hints(kind)
    names = [field.name for field in msgspec.structs.fields(shape)]
    pairs = [(_core_name(kind, name), name) for name in names]
    return _Fields(
        [
            (name, source, _reading(hints[source], kinds[name]))
            for name, source in pairs
            if name in kinds
        ]
    )


def _core_name(kind: type, name: str) -> str | None:
    """What core calls a field; None: it has no such field."""
    found = (
        known for known in (f"{name}_json", name) if hasattr(kind, known) or known in _own(kind)
    )
    return next(found, None)


def _own(kind: type) -> dict[str, Any]:
    return getattr(kind, "__annotations__", {})


def _writing(hint: Any) -> _Convert | None:
    parts = _parts(hint)
    if Time in parts:
        return time_text
    if Instant in parts:
        return instant_text
    if Raw in parts:
        return lambda body: NULL if body is None else Raw(body)
    shape = next((part for part in parts if _is_struct(part)), None)
    if shape is None:
        return _unset if UnsetType in parts else None
    write = getattr(shape, "of", None) or partial(written, shape)
    empty = UNSET if UnsetType in parts else None
    if any(get_origin(part) is list for part in _parts(hint, inside=False)):
        return lambda values: empty if values is None else [write(value) for value in values]
    return lambda value: empty if value is None else write(value)


def _reading(hint: Any, kind: Any) -> _Convert | None:
    parts, kinds = _parts(hint), _parts(kind)
    convert: _Convert | None = None
    if Time in parts:
        convert = _datetime if datetime in kinds else _moment
    elif Instant in parts:
        convert = _instant if datetime in kinds else stamp.parse
    elif Raw in parts:
        return _maybe_bytes if type(None) in kinds else bytes
    elif any(map(_is_struct, parts)):
        wanted = next(part for part in kinds if _is_value(part))
        one: _Convert = methodcaller("read") if _has_read(parts) else partial(read, wanted)
        convert = one
        if any(get_origin(part) is list for part in _parts(hint, inside=False)):
            many = list if any(get_origin(part) is list for part in kinds) else tuple
            convert = lambda bodies: many(map(one, bodies))  # noqa: E731
    else:
        convert = next((part for part in _parts(kind, inside=False) if _is_enum(part)), None)
    if convert is None:
        return _given if UnsetType in parts else None
    return lambda value: None if value is None or value is UNSET else convert(value)


@lru_cache(maxsize=4096)  # jobs that come together share their times
def time_text(value: datetime | moment.Moment | None) -> str | None:
    """RFC 3339 in UTC with milliseconds."""
    if value is None:
        return None
    if isinstance(value, int):
        return moment.render(value)
    return value.isoformat(timespec="milliseconds")[:-6] + "Z"


def instant_text(value: datetime | stamp.Stamp | None) -> str | None:
    """RFC 3339 in UTC with microseconds."""
    if value is None:
        return None
    return stamp.render(value if isinstance(value, int) else stamp.from_datetime(value))


def _datetime(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)  # a tenth of the time that `moment.parse` takes
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        return moment.to_datetime(moment.parse(text))
    return when


def _moment(text: str) -> moment.Moment:
    return moment.from_datetime(_datetime(text))


def _instant(text: str) -> datetime:
    return stamp.to_datetime(stamp.parse(text))


def _unset(value: Any) -> Any:
    return UNSET if value is None else value


def _given(value: Any) -> Any:
    return None if value is UNSET else value


def _maybe_bytes(value: Raw) -> bytes | None:
    text = bytes(value)
    return None if text == b"null" else text


def _parts(hint: Any, *, inside: bool = True) -> list[Any]:
    """The alternatives of a type, and with `inside` the types of what it holds."""
    origin = get_origin(hint)
    if origin is Annotated:
        for text in (Time, Instant):
            if get_args(text)[1] in get_args(hint):
                return [text]
        return _parts(get_args(hint)[0], inside=inside)
    if origin in (Union, UnionType):
        return [part for one in get_args(hint) for part in _parts(one, inside=inside)]
    if origin is not None and inside:
        return [hint, *(part for one in get_args(hint) for part in _parts(one))]
    return [hint]


def _is_struct(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Struct)


def _has_read(parts: Sequence[Any]) -> bool:
    return any(_is_struct(part) and hasattr(part, "read") for part in parts)


def _is_value(part: Any) -> bool:
    return is_dataclass(part) or (isinstance(part, type) and hasattr(part, "_fields"))


def _is_enum(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Enum)
