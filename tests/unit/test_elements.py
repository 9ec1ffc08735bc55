from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.api import elements
from oncue.api.elements import Elements, Lines, Splitter
from oncue.api.problems import HttpProblem

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\{}[],: \n\té'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\{'), inner),
    max_leaves=12,
)


def split(splitter: Splitter, body: bytes, sizes: list[int]) -> list[bytes | None]:
    """Feed the body in parts of these sizes, over and over."""
    found: list[bytes | None] = []
    at = turn = 0
    while at < len(body):
        size = sizes[turn % len(sizes)]
        found += splitter.feed(body[at : at + size])
        at, turn = at + size, turn + 1
    return found + splitter.end()


def decoded(found: list[bytes | None]) -> list[Any]:
    return [None if text is None else json.loads(text) for text in found]


@given(st.lists(VALUES, max_size=5), st.lists(st.integers(1, 40), min_size=1), st.booleans())
def test_an_array_is_split_the_same_wherever_its_parts_end(
    values: list[Any], sizes: list[int], spaced: bool
) -> None:
    array = Elements()
    body = json.dumps(values, indent=2 if spaced else None, ensure_ascii=spaced).encode()
    assert decoded(split(array, body, sizes)) == values
    assert array.trouble is None


@pytest.mark.parametrize("size", [997, 100_000])
def test_an_element_may_have_more_strings_than_are_passed_at_once(size: int) -> None:
    values = [{str(n): "\\" for n in range(2500)}, ["b"] * 2500, "c"]
    assert decoded(split(Elements(), json.dumps(values).encode(), [size])) == values


@given(st.lists(VALUES, max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_lines_are_split_the_same_wherever_their_parts_end(
    values: list[Any], sizes: list[int]
) -> None:
    body = b"\n".join(json.dumps(value).encode() for value in values)
    assert decoded(split(Lines(), body, sizes)) == values


@given(st.lists(st.text('ab"\\{}[],', max_size=40), max_size=5), st.integers(1, 30))
def test_what_is_too_long_is_left_out_and_the_others_are_still_found(
    texts: list[str], size: int
) -> None:
    body = json.dumps(texts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "LIMIT", 20)
        found = split(Elements(), body, [size])
    assert len(found) == len(texts)
    for part, text in zip(found, texts, strict=True):
        if part is None:
            assert len(json.dumps(text)) >= 20
        else:
            assert json.loads(part) == text


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_line_that_is_too_long_does_not_hide_its_neighbours(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elements, "LIMIT", 20)
    body = b"1\n" + b"x" * 90 + b"\n3\n" + b"y" * 90
    assert split(Lines(), body, [size]) == [b"1", None, b"3", None]


def test_nothing_of_what_is_too_long_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "LIMIT", 20)
    for splitter, start in ((Elements(), b'[{"a": "'), (Lines(), b"{")):
        splitter.feed(start)
        for _ in range(100):
            splitter.feed(b"x" * 50)
        assert len(splitter._rest) <= 20


@pytest.mark.parametrize("body", [b"", b"  \n", b"[]", b" [ \n ] "])
def test_an_empty_array_has_no_elements(body: bytes) -> None:
    array = Elements()
    assert split(array, body, [1]) == []
    assert array.trouble is None


def test_a_gap_in_an_array_is_an_element_of_its_own() -> None:
    assert split(Elements(), b"[1,,2,]", [3]) == [b"1", b"", b"2", b""]


def test_an_array_that_breaks_off_tells_so_and_keeps_what_was_complete() -> None:
    array = Elements()
    assert split(array, b'[{"a": 1}, {"a"', [4]) == [b'{"a": 1}']
    assert "ends in the middle" in str(array.trouble)


def test_what_follows_an_array_is_trouble() -> None:
    array = Elements()
    assert split(array, b"[1] [2]", [2]) == [b"1"]
    assert "follows the end" in str(array.trouble)


def test_a_bracket_that_closes_nothing_is_trouble() -> None:
    array = Elements()
    assert split(array, b"[1, 2}, 3]", [3]) == [b"1"]
    assert "without its '{'" in str(array.trouble)


@pytest.mark.parametrize("body", [b'{"queue": "a"}', b'"text"', b"nonsense", b"\n 1"])
def test_what_is_no_array_is_a_problem(body: bytes) -> None:
    with pytest.raises(HttpProblem, match="not a JSON array"):
        split(Elements(), body, [1])
