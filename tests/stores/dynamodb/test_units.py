"""Sizes and units, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from oncue_bench.dynamodb.units import read_units, size, write_units


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"S": "abc"}, 3),
        ({"S": "é€"}, 5),
        ({"S": ""}, 0),
        ({"N": "0"}, 1),
        ({"N": "7"}, 2),
        ({"N": "27"}, 2),
        ({"N": "-127"}, 3),
        ({"N": "1800000000000"}, 2),
        ({"N": "1800000000001"}, 8),
        ({"N": "0.0050"}, 2),
        ({"B": b"12345"}, 5),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"L": []}, 3),
        ({"L": [{"S": "ab"}, {"N": "1"}]}, 3 + 1 + 2 + 1 + 2),
        ({"M": {}}, 3),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
        ({"SS": ["ab", "c"]}, 3),
        ({"NS": ["7", "27"]}, 4),
        ({"BS": [b"12", b"3"]}, 3),
    ],
)
def test_the_size_of_a_value(value: Any, expected: int) -> None:
    assert size({"n": value}) == 1 + expected


def test_an_item_is_its_names_and_its_values() -> None:
    assert size({"pk": {"S": "w#q#0"}, "ü": {"N": "12"}}) == (2 + 5) + (2 + 2)
    assert size(None) == 0


@pytest.mark.parametrize(
    ("most", "expected"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (4096, 4), (4097, 5)]
)
def test_writes_are_rounded_up_to_a_kilobyte(most: int, expected: int) -> None:
    assert write_units(most) == expected


@pytest.mark.parametrize(
    ("total", "expected"), [(0, 1), (1, 1), (4096, 1), (4097, 2), (8192, 2), (8193, 3)]
)
def test_reads_are_rounded_up_to_four_kilobytes(total: int, expected: int) -> None:
    assert read_units(total, consistent=True) == expected
    assert read_units(total, consistent=False) == expected / 2
