"""From values of core to the Structs of the wire, and back.

Fields are paired by name; JSON that core keeps as bytes under `payload_json` is `payload` here. The
types say how a field is converted:

    on the wire        in core
    Time               datetime, or a moment
    Instant            datetime, or a stamp
    Raw                bytes; null is None where core allows None, or UNSET where that is allowed
    a Struct           the value that the Struct describes; the same for lists and tuples of them
    anything else      itself, or the member of an Enum; None is UNSET where that is allowed

A Struct whose fields are not those of its value has methods `of` and `read`, which are used then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, lru_cache, partial
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

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


def written(shape: type[S], *values: Any, **more: Any) -> S:
    """The Struct of this shape that says what the values are. A field that several of them have is
    that of the last; `more` are used as they are."""
    made: S = writer(shape, *map(type, values), *more)(*values, **more)
    return made


def read(kind: type[T], body: Struct, **more: Any) -> T:
    """The value of core that a Struct says; `more` are used as they are."""
    wanted: Any = kind
    made: T = _reader(wanted, type(body), *more)(body, **more)
    return made


@cache
def writer(shape: Any, *given: Any) -> Callable[..., Any]:
    """What `written` calls; where every microsecond counts it is made once and kept. `given` are
    the types of the values, then the names of the fields that are used as they are."""
    hints = get_type_hints(shape, include_extras=True)
    kinds = [one for one in given if not isinstance(one, str)]
    fields = {
        name: _Field(place, source, _writing(hints[name]))
        for place, kind in enumerate(kinds)
        for name in shape.__struct_fields__
        if name not in given and (source := _core_name(kind, name))
    }
    return _maker(shape, fields, len(kinds), given[len(kinds) :])


@cache
def _reader(kind: Any, shape: Any, *more: str) -> Callable[..., Any]:
    hints, kinds = get_type_hints(shape, include_extras=True), get_type_hints(kind)
    fields = {
        name: _Field(0, source, _reading(hints[source], kinds[name]))
        for source in shape.__struct_fields__
        if (name := _core_name(kind, source)) in kinds and name not in more
    }
    return _maker(kind, fields, 1, more)


class _Field(NamedTuple):
    """Where the value of a field comes from, and how it is converted; None: it stays as it is."""

    place: int
    source: str
    convert: _Convert | None


def _maker(
    made: Any, fields: Mapping[str, _Field], count: int, more: Sequence[str]
) -> Callable[..., Any]:
    """A function that makes one from `count` values and further fields. It is compiled, so that it
    is as fast as one that is written by hand, such as
    `lambda v0, token: made(id=v0.id, due_at=convert_due_at(v0.due_at), token=token)`."""
    arguments = [
        f"{name}=convert_{name}(v{place}.{source})" if convert else f"{name}=v{place}.{source}"
        for name, (place, source, convert) in fields.items()
    ]
    parameters = [*(f"v{place}" for place in range(count)), *more]
    arguments += [f"{name}={name}" for name in more]
    converts = {f"convert_{name}": one.convert for name, one in fields.items()}
    text = f"lambda {', '.join(parameters)}: made({', '.join(arguments)})"
    maker: Callable[..., Any] = eval(text, {"made": made, **converts})
    return maker


def _core_name(kind: type, name: str) -> str | None:
    """What core calls a field; None: it has no such field."""
    annotated = getattr(kind, "__annotations__", {})
    names = (f"{name}_json", name)
    return next((one for one in names if hasattr(kind, one) or one in annotated), None)


def _writing(hint: Any) -> _Convert | None:
    parts = _parts(hint)
    empty = UNSET if UnsetType in parts else None
    shape = next((part for part in parts if _is_a(part, Struct)), None)
    if Time in parts:
        return time_text
    if Instant in parts:
        return instant_text
    if Raw in parts:
        return lambda body: (empty or NULL) if body is None else Raw(body)
    if shape is None:
        return _unset if empty is UNSET else None
    write = getattr(shape, "of", None) or partial(written, shape)
    if any(get_origin(part) is list for part in parts):
        return lambda values: empty if values is None else [write(value) for value in values]
    return lambda value: empty if value is None else write(value)


def _reading(hint: Any, kind: Any) -> _Convert | None:
    parts, kinds = _parts(hint), _parts(kind)
    shape = next((part for part in parts if _is_a(part, Struct)), None)
    convert: _Convert | None = None
    if Time in parts:
        convert = _datetime if datetime in kinds else _moment
    elif Instant in parts:
        convert = _instant if datetime in kinds else stamp.parse
    elif Raw in parts:
        return _bytes if UnsetType in parts else _maybe_bytes if type(None) in kinds else bytes
    elif shape is not None:
        wanted = next(part for part in kinds if is_dataclass(part) or _is_a(part, tuple))
        convert = getattr(shape, "read", None) or partial(read, wanted)
        if any(get_origin(part) is list for part in parts):
            many = list if any(get_origin(part) is list for part in kinds) else tuple
            convert = partial(_each, many, convert)
    else:
        convert = next((part for part in kinds if _is_a(part, Enum)), None)
    if convert is None:
        return _given if UnsetType in parts else None
    return lambda value: None if value is None or value is UNSET else convert(value)


def _each(many: Callable[[Iterable[Any]], Any], convert: _Convert, bodies: Any) -> Any:
    return many(map(convert, bodies))


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


def _bytes(value: Raw | UnsetType) -> bytes | None:
    return None if value is UNSET else bytes(value)


def _maybe_bytes(value: Raw) -> bytes | None:
    text = bytes(value)
    return None if text == b"null" else text


def _parts(hint: Any) -> list[Any]:
    """The alternatives of a type, and the types of what they hold."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        text = next((one for one in (Time, Instant) if get_args(one)[1] in args), None)
        return _parts(args[0]) if text is None else [text]
    inner = [part for one in args for part in _parts(one)]
    return inner if origin in (Union, UnionType) else [hint, *inner]


def _is_a(part: Any, kind: type) -> bool:
    return isinstance(part, type) and issubclass(part, kind)
