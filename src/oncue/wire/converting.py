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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache, partial
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Raw, Struct, UnsetType

from oncue.core import moment, stamp
from oncue.core.errors import InvalidInput
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
        name: (f"v{place}.{source}", _writing(hints[name]))
        for place, kind in enumerate(kinds)
        for name in shape.__struct_fields__
        if name not in given and (source := _core_name(kind, name))
    }
    return _maker(shape, fields, len(kinds), given[len(kinds) :])


@cache
def _reader(kind: Any, shape: Any, *more: str) -> Callable[..., Any]:
    hints, kinds = get_type_hints(shape, include_extras=True), get_type_hints(kind)
    fields = {
        name: (f"v0.{source}", _reading(hints[source], kinds[name]))
        for source in shape.__struct_fields__
        if (name := _core_name(kind, source)) in kinds and name not in more
    }
    return _maker(kind, fields, 1, more)


class _Conversion(NamedTuple):
    convert: _Convert | None
    """None: it stays as it is."""
    empty: Any = None
    """What stands for None."""


def _maker(
    made: Any, fields: Mapping[str, tuple[str, _Conversion]], count: int, more: Sequence[str]
) -> Callable[..., Any]:
    """A function that makes one from `count` values and further fields. It is compiled, so that it
    is as fast as one that is written by hand, such as
    `lambda v0, token: made(id=v0.id, due_at=convert_due_at(v0.due_at), token=token)`."""
    names, arguments = {"made": made}, [f"{name}={name}" for name in more]
    for name, (value, (convert, empty)) in fields.items():
        names |= {f"convert_{name}": convert, f"empty_{name}": empty}
        made_of = value if convert is None else f"convert_{name}({value})"
        if convert is not None or empty is not None:
            made_of = f"empty_{name} if {value} is None else {made_of}"
        arguments.append(f"{name}={made_of}")
    parameters = [*(f"v{place}" for place in range(count)), *more]
    maker: Callable[..., Any] = eval(
        f"lambda {', '.join(parameters)}: made({', '.join(arguments)})", names
    )
    return maker


def _core_name(kind: type, name: str) -> str | None:
    """What core calls a field; None: it has no such field."""
    annotated = getattr(kind, "__annotations__", {})
    names = (f"{name}_json", name)
    return next((one for one in names if hasattr(kind, one) or one in annotated), None)


def _writing(hint: Any) -> _Conversion:
    parts = _parts(hint)
    empty = UNSET if UnsetType in parts else None
    shape = next((part for part in parts if _is_a(part, Struct)), None)
    if Time in parts:
        return _Conversion(_time_text)
    if Instant in parts:
        return _Conversion(_instant_text)
    if Raw in parts:
        return _Conversion(Raw, NULL)
    if shape is None:
        return _Conversion(None, empty)
    write = getattr(shape, "of", None) or partial(written, shape)
    if any(get_origin(part) is list for part in parts):
        return _Conversion(lambda values: [write(value) for value in values], empty)
    return _Conversion(write, empty)


def _reading(hint: Any, kind: Any) -> _Conversion:
    parts, kinds = _parts(hint), _parts(kind)
    shape = next((part for part in parts if _is_a(part, Struct)), None)
    convert: _Convert | None
    if Time in parts:
        convert = read_time if datetime in kinds else _moment
    elif Instant in parts:
        convert = _instant if datetime in kinds else stamp.parse
    elif Raw in parts:
        convert = _maybe_bytes if type(None) in kinds else bytes
    elif shape is not None:
        wanted = next(part for part in kinds if is_dataclass(part) or _is_a(part, tuple))
        convert = getattr(shape, "read", None) or partial(read, wanted)
        if any(get_origin(part) is list for part in parts):
            many = list if any(get_origin(part) is list for part in kinds) else tuple
            convert = partial(_each, many, convert)
    else:
        convert = next((part for part in kinds if _is_a(part, Enum)), None)
    return _Conversion(partial(_given, convert) if UnsetType in parts else convert)


def _each(many: Callable[[Iterable[Any]], Any], convert: _Convert, values: Any) -> Any:
    return many(map(convert, values))


def _given(convert: _Convert | None, value: Any) -> Any:
    if value is UNSET:
        return None
    return value if convert is None else convert(value)


def _time_text(value: datetime | moment.Moment) -> str:
    """RFC 3339 in UTC with milliseconds."""
    return moment.render(value) if value.__class__ is int else _datetime_text(value)


@lru_cache(maxsize=4096)  # jobs that come together share their times
def _datetime_text(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds")[:-6] + "Z"


def _instant_text(value: datetime | stamp.Stamp) -> str:
    """RFC 3339 in UTC with microseconds."""
    return stamp.render(value if isinstance(value, int) else stamp.from_datetime(value))


def read_time(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)  # a tenth of the time that `moment.parse` takes
    except ValueError:
        when = None
    if when is None or when.tzinfo is not UTC:
        found = moment.parse(text)
        if not moment.EARLIEST <= found <= moment.LATEST:  # its offset takes it there
            raise InvalidInput(f"{text!r} lies outside the years 1 to 9999 in UTC.")
        return moment.to_datetime(found)
    return when


def _moment(text: str) -> moment.Moment:
    return moment.from_datetime(read_time(text))


def _instant(text: str) -> datetime:
    return stamp.to_datetime(stamp.parse(text))


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
