"""Examples for the description.

`samples.json` has one of each shape under the shape's name, without the fields that the shape has
defaults for. A shape that extends another one adds to that one's example. The
fields that differ in one place of the description stand under the name of the place:
`cancelJob 202`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from oncue.wire.formats import Answer

NONE: Any = object()
"""Instead of an example, which may well be null."""


def sample(shape: Any, place: str = "") -> Any:
    """The example of a shape, as it stands in one place of the description."""
    kept = kept_samples()
    if not (isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return kept.get(place, NONE)
    names = [*(one.__name__ for one in reversed(shape.__mro__)), place]
    fields = {name: value for key in names for name, value in kept.get(key, {}).items()}
    return _completed(shape, fields) if issubclass(shape, Answer) else fields


@cache
def kept_samples() -> dict[str, Any]:
    """`samples.json`."""
    text = files("oncue.api.docs").joinpath("samples.json").read_bytes()
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def _completed(shape: type[Answer], fields: dict[str, Any]) -> dict[str, Any]:
    """With the defaults of fields that are not given, in the order of the shape. A list that is not
    given has one item: so the example of a page follows from that of its items."""
    hints = get_type_hints(shape)
    derived: dict[str, Any] = {"next_cursor": None} if "next_cursor" in hints else {}
    for field in msgspec.structs.fields(shape):
        items = get_args(hints[field.name]) if get_origin(hints[field.name]) is list else ()
        if field.encode_name not in fields and items and issubclass(items[0], Answer):
            derived[field.encode_name] = [sample(items[0])]
    given = msgspec.json.decode(msgspec.json.encode(fields | derived), type=shape)
    whole = msgspec.json.decode(msgspec.json.encode(given))
    return {**whole, **fields, **whole, **derived}  # a task has further fields
