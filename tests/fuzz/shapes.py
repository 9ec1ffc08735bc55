"""JSON that looks like a shape of `wire/`, with hostile values in some places."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import inspect

NAMES = ("a", "b", "default", "tasks")
"""Of jobs, queues, rules, schedules and users: few, so that requests meet."""
TEXTS = (
    *("2026-12-01T12:00:00Z", "2026-12-01", "2021-01-01 11:59:59.5", "9999-12-31T23:59:60+23:59"),
    *("PT15M", "P1DT12H", "P99999999999D", "30 9 * * MON-FRI", "*/5 * * * *", "0 0 29 2 1#5"),
    *("Europe/Paris", "../../etc/passwd", "localtime", "log:", "memory:", "FILE", "TABLE"),
    *("TIME_BASED", "succeeded", "executing", "COMPLETE", "WAITING", "1.1.00", "1.01.00"),
    *("", "\0", "\ud800", "\u202e", "👨‍👩‍👧", "a" * 300, "%s{}'\"`;--", "NaN", "1e999"),
)
FITTING: dict[str, tuple[Any, ...]] = {
    "wait_seconds": (0,),
    "scanDelayMillis": (0,),
    "maximumExecutionSeconds": (1,),
    "_at": ("2026-12-01T12:00:00Z", None),
    "dueDate": ("2026-12-01",),
    "delay": (0, 60, "PT1M"),
    "cron": ("*/5 * * * *", "30 9 * * MON-FRI"),
    "timezone": ("UTC", "Europe/Paris"),
    "eventTimestamp": ("2021-01-01 11:59:59.5",),
    "type": ("FILE", "TABLE", "TIME_BASED"),
    "eventType": ("FILE", "TABLE"),
    "sink": (None, "log:"),
    "lifeDuration": (0, 60),
    "cursor": (None,),
    "processingState": ("COMPLETE", "WAITING"),
    "every_seconds": (60,),
}
"""Values for fields whose names end so, where the type does not say enough. Nothing takes long."""
DEEP = "\x01deep"  # stands for lists in lists
LEVELS = 5000

_scalars: SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 1e308, -0.0, 1e-320]),
    st.floats(),  # NaN and the infinities are no JSON, and are sent
    st.sampled_from((*TEXTS, *NAMES, DEEP)),
    st.text(max_size=20),
)
_names = st.sampled_from(NAMES) | st.sampled_from(TEXTS) | st.text(max_size=8)


ANYTHING: SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_CONTENT = (None, True, 7, "text", [1, {"a": [2.5]}], {"a": "ü", "b": None})


def written(value: Any) -> bytes:
    """The value as JSON, or nearly so."""
    text = json.dumps(value).replace(json.dumps(DEEP), "[" * LEVELS + "]" * LEVELS)
    return text.encode()


@cache
def values(shape: Any) -> SearchStrategy[Any]:
    """JSON for a type: right, or with one value replaced."""
    right = _right(inspect.type_info(shape))
    return right | right.flatmap(changed) | right


@st.composite
def changed(draw: DrawFn, value: Any) -> Any:
    """The same JSON with one value, at any depth, replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(changed(value[name]))}
    if isinstance(value, list) and value and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(changed(value[place])), *value[place + 1 :]]
    return draw(ANYTHING)


def _right(kind: inspect.Type) -> SearchStrategy[Any]:
    match kind:
        case inspect.Metadata():
            return _right(kind.type)
        case inspect.StructType():
            required = {one.encode_name: _field(one) for one in kind.fields if one.required}
            others = {one.encode_name: _field(one) for one in kind.fields if not one.required}
            return st.fixed_dictionaries(required, optional=others)
        case inspect.UnionType():
            return st.one_of(*map(_right, kind.types))
        case inspect.ListType():
            return st.lists(_right(kind.item_type), min_size=1, max_size=3)
        case inspect.DictType():
            return st.dictionaries(_names, _right(kind.value_type), max_size=3)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.StrType():
            return st.sampled_from(NAMES)
        case inspect.IntType():
            return st.integers(1, 5)
        case inspect.FloatType():
            return st.floats(1, 100) | st.integers(1, 100)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    return st.sampled_from(_CONTENT)


def _field(field: inspect.Field) -> SearchStrategy[Any]:
    for ending, texts in FITTING.items():
        if field.encode_name.endswith(ending):
            return st.sampled_from(texts)
    return _right(field.type)
