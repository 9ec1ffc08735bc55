"""JSON that looks like a shape of `wire/`, with hostile values in some places."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
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
BOUNDED = {"wait_seconds": 0, "scanDelayMillis": 0, "maximumExecutionSeconds": 1}
"""Fields by which a request asks to take long, and what they are here."""

DEEP = "\x01deep"  # stands for lists in lists
LEVELS = 5000

_scalars: SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 1e308, -0.0, 1e-320]),
    st.floats(),  # NaN and the infinities are no JSON, and are sent
    st.sampled_from(TEXTS + NAMES),
    st.text(max_size=20),
)
_names = st.sampled_from(NAMES) | st.sampled_from(TEXTS) | st.text(max_size=8)


ANYTHING: SearchStrategy[Any] = st.one_of(
    st.recursive(
        _scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
        max_leaves=6,
    ),
    st.just(DEEP),
)


def written(value: Any) -> bytes:
    """The value as JSON, or nearly so."""
    text = json.dumps(value).replace(json.dumps(DEEP), "[" * LEVELS + "]" * LEVELS)
    return text.encode()


@cache
def values(shape: Any) -> SearchStrategy[Any]:
    """JSON for a type."""
    return _values(inspect.type_info(shape))


def _values(kind: inspect.Type) -> SearchStrategy[Any]:
    """Mostly of this type."""
    return st.integers(0, 15).flatmap(lambda n: ANYTHING if n == 0 else _right(kind))


def _right(kind: inspect.Type) -> SearchStrategy[Any]:
    match kind:
        case inspect.Metadata():
            return _right(kind.type)
        case inspect.StructType():
            return _object(kind)
        case inspect.UnionType():
            return st.one_of(*map(_right, kind.types))
        case inspect.ListType():
            return st.lists(_values(kind.item_type), max_size=4)
        case inspect.DictType():
            return st.dictionaries(_names, _values(kind.value_type), max_size=4)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.StrType():
            return _names
        case inspect.IntType():
            return st.integers(-1, 20)
        case inspect.FloatType():
            return st.floats(0, 1e6) | st.integers(0, 100)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    return ANYTHING


def _object(kind: inspect.StructType) -> SearchStrategy[Any]:
    required = {one.encode_name: _field(one) for one in kind.fields if one.required}
    others = {one.encode_name: _field(one) for one in kind.fields if not one.required}
    return st.fixed_dictionaries(required, optional=others)


def _field(field: inspect.Field) -> SearchStrategy[Any]:
    if field.encode_name in BOUNDED:
        return st.just(BOUNDED[field.encode_name])
    return _values(field.type)
