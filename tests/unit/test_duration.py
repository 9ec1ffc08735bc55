"""Durations: numbers, timedeltas, ISO 8601."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oncue.core.duration import seconds
from oncue.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((0, 0.0), (60, 60.0), (0.25, 0.25), (-0.0, 0.0)),
        *((timedelta(minutes=15), 900.0), (timedelta(microseconds=1), 1e-6)),
        *(("PT15M", 900.0), ("PT0S", 0.0), ("PT1.5S", 1.5), ("PT36H", 129_600.0)),
        *(("P1D", 86_400.0), ("P2W", 1_209_600.0), ("P1DT12H", 129_600.0)),
        ("P1W2DT3H4M5.6S", 604_800 + 2 * 86_400 + 3 * 3_600 + 4 * 60 + 5.6),
    ],
)
def test_a_length_is_read_as_seconds(given: object, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        *("", "P", "PT", "P1DT", "15M", "PT15", "PT15m", "P1Y", "P1M", "-PT1S", "PT-1S", "P1D "),
        *("PT1,5S", "PT1.S", "PT.5S", "PT1S\n", "PT١S", "PT1M1H", "60"),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"^/delay: .*write it like PT15M or P1DT12H"):
        seconds(given, "/delay")


@pytest.mark.parametrize("given", [True, False, None, [], {}, b"PT1S", 1j, object()])
def test_what_is_no_length_at_all_is_refused_with_what_would_be(given: object) -> None:
    with pytest.raises(InvalidInput, match="^/delay: give seconds as a number"):
        seconds(given, "/delay")


@pytest.mark.parametrize("given", [-1, -0.001, timedelta(seconds=-1), timedelta.min])
def test_a_negative_length_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="^/delay: must not be negative"):
        seconds(given, "/delay")


@pytest.mark.parametrize(
    "given", [float("nan"), float("inf"), float("-inf"), 10**400, f"P{'9' * 400}D"]
)
def test_an_endless_length_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="^/delay: must be a finite number of seconds"):
        seconds(given, "/delay")
