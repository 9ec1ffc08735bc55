"""Payloads and results: plain JSON in, the same JSON out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core import payload as payloads
from oncue.core.errors import InvalidInput

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(JSON)
def test_what_json_can_say_comes_back_as_it_was(value: object) -> None:
    assert payloads.decode(payloads.encode(value)) == value


def test_nothing_reads_as_none() -> None:
    assert payloads.decode(None) is None
    assert payloads.decode(payloads.encode(None)) is None


@dataclass
class Mail:
    to: object


@pytest.mark.parametrize("value", ["a\0b", float("nan"), [float("-inf")], {"a\0": 1}])
def test_what_hides_inside_an_object_is_found_as_well(value: object) -> None:
    with pytest.raises(InvalidInput, match="^/payload/to"):
        payloads.encode(Mail(value))


def test_the_place_is_named_wherever_it_is() -> None:
    with pytest.raises(InvalidInput, match="^/result/a/1/b: contains the NUL character"):
        payloads.encode({"a": [0, {"b": "\0"}]}, "/result")
