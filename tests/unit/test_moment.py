"""Moments: milliseconds in UTC, never earlier than what was asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core import moment
from oncue.core.errors import InvalidInput

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z


def test_a_moment_is_rendered_in_utc_with_milliseconds() -> None:
    assert moment.render(NOON) == "2026-12-01T12:00:00.000Z"
    assert moment.render(NOON + 7) == "2026-12-01T12:00:00.007Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T12:00:00Z", NOON),
        ("2026-12-01t12:00:00z", NOON),
        ("2026-12-01 12:00:00Z", NOON),
        ("2026-12-01T13:00:00+01:00", NOON),
        ("2026-12-01T06:30:00-05:30", NOON),
        ("2026-12-01T12:00:00-00:00", NOON),
        ("2026-12-01T12:00:00.5Z", NOON + 500),
        ("2026-12-01T12:00:00.001Z", NOON + 1),
        ("2026-12-01T12:00:00.0010000Z", NOON + 1),
        ("1969-12-31T23:59:59.999Z", -1),
        ("9999-12-31T23:59:59.999Z", moment.LATEST),
        ("2038-01-19T03:14:08Z", 2**31 * 1000),
    ],
)
def test_rfc_3339_is_read_with_any_offset(text: str, expected: int) -> None:
    assert moment.parse(text) == expected


@pytest.mark.parametrize("fraction", ["0000001", "0001", "00000000000000000000000001", "0009999"])
def test_anything_finer_than_a_millisecond_is_rounded_up(fraction: str) -> None:
    assert moment.parse(f"2026-12-01T12:00:00.{fraction}Z") == NOON + 1


def test_a_datetime_is_rounded_up_and_never_down() -> None:
    noon = datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert moment.from_datetime(noon) == NOON
    assert moment.from_datetime(noon + timedelta(microseconds=1)) == NOON + 1
    assert moment.from_datetime(noon + timedelta(microseconds=1000)) == NOON + 1
    assert moment.from_datetime(noon - timedelta(microseconds=1)) == NOON


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_no_conversion_makes_a_moment_earlier(when: datetime) -> None:
    aware = when.replace(tzinfo=UTC)
    found = moment.to_datetime(moment.from_datetime(aware))
    assert timedelta() <= found - aware < timedelta(milliseconds=1)


@given(st.integers(min_value=0, max_value=moment.LATEST))
def test_what_was_rendered_reads_back_the_same(at: int) -> None:
    assert moment.parse(moment.render(at)) == at
    assert moment.from_datetime(moment.to_datetime(at)) == at


def test_a_zone_with_daylight_saving_names_both_hours_of_the_change() -> None:
    paris = ZoneInfo("Europe/Paris")
    first = moment.from_datetime(datetime(2026, 10, 25, 2, 30, tzinfo=paris))
    second = moment.from_datetime(datetime(2026, 10, 25, 2, 30, tzinfo=paris, fold=1))
    assert second - first == 3_600_000


def test_a_naive_datetime_is_refused_with_what_to_do_about_it() -> None:
    with pytest.raises(InvalidInput, match=r"^/at: .*no time zone.*replace\(tzinfo=") as caught:
        moment.from_datetime(datetime(2026, 12, 1), "/at")
    assert caught.value.pointer == "/at"


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "2026-12-01", "12:00", "2026-12-01T12:00:00", "2026-12-01T12:00Z"),
        *("1796126400", "2026-12-01T12:00:00+0100", "2026-12-01T12:00:00.Z", "20261201T120000Z"),
        *("2026-12-01T12:00:00Z\n", " 2026-12-01T12:00:00Z", "२०२६-12-01T12:00:00Z", "\0"),
    ],
)
def test_what_is_not_rfc_3339_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^/at: .*write it like 2026-12-01T09:30:00Z"):
        moment.parse(text, "/at")


@pytest.mark.parametrize(
    "text",
    [
        *("2026-12-31T23:59:60Z", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z"),
        *("2026-12-01T24:00:00Z", "2026-12-01T12:60:00Z", "0000-01-01T00:00:00Z"),
        *("2026-12-01T12:00:00+24:00", "2026-12-01T12:00:00-99:99"),
    ],
)
def test_a_time_that_no_clock_shows_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a moment"):
        moment.parse(text, "/at")


def test_the_edges_of_the_calendar_are_no_accident() -> None:
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    assert moment.from_datetime(datetime.max.replace(tzinfo=west)) > moment.LATEST
    assert moment.from_datetime(datetime.min.replace(tzinfo=east)) < 0
    assert moment.parse("9999-12-31T23:59:59.9999Z") == moment.LATEST + 1


def test_the_past_means_now() -> None:
    assert moment.ahead(NOON - 1, NOON) == NOON
    assert moment.ahead(-(10**15), NOON) == NOON
    assert moment.ahead(NOON + 1, NOON) == NOON + 1


def test_a_hundred_years_ahead_are_enough() -> None:
    assert moment.ahead(NOON + moment.HORIZON_MS, NOON) == NOON + moment.HORIZON_MS
    with pytest.raises(InvalidInput, match="^/at: more than 100 years ahead"):
        moment.ahead(NOON + moment.HORIZON_MS + 1, NOON, "/at")


def test_nothing_is_due_after_the_last_moment_a_datetime_can_hold() -> None:
    almost = moment.LATEST - 1000
    assert moment.ahead(moment.LATEST, almost) == moment.LATEST
    with pytest.raises(InvalidInput):
        moment.ahead(moment.LATEST + 1, almost)
