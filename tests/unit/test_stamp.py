"""Event time: what names a stamp, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from oncue.core import stamp
from oncue.core.errors import InvalidInput

NOON = datetime(2021, 1, 1, 11, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2021-01-01T11:59:59.000000Z", 0),
        ("2021-01-01T11:59:59.123456Z", 123_456),
        ("2021-01-01T11:59:59.5Z", 500_000),
        ("2021-01-01T11:59:59Z", 0),
        ("2021-01-01t11:59:59z", 0),
        ("2021-01-01T12:59:59+01:00", 0),
        ("2021-01-01T06:29:59.000001-05:30", 1),
        ("2021-01-01 11:59:59Z", 0),
        ("2021-01-01 11:59:59", 0),
        ("2021-01-01 11:59:59.000007", 7),
        ("2021-01-01T11:59:59.123456999Z", 123_456),
    ],
)
def test_every_accepted_form_names_the_same_second(text: str, microseconds: int) -> None:
    when = NOON + timedelta(microseconds=microseconds)
    assert stamp.parse(text) == stamp.from_datetime(when)
    assert stamp.to_datetime(stamp.parse(text)) == when


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2021-01-01", "2021-01-01T11:59:59", "2021-13-01T00:00:00Z"),
        *("2021-02-29 00:00:00", "2021-01-01T24:00:01Z", "2021-01-01T23:59:60Z"),
        *("0001-01-01T00:00:00+14:00", "2021-01-01  11:59:59", "٢٠٢١-01-01 00:00:00", " "),
    ],
)
def test_what_is_no_time_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        stamp.parse(text, "/eventTimestamp")
    assert refusal.value.pointer == "/eventTimestamp"


@pytest.mark.parametrize("value", [None, 5, True, ["2021-01-01T00:00:00Z"]])
def test_only_text_and_datetimes_are_times(value: object) -> None:
    with pytest.raises(InvalidInput):
        stamp.parse(value)


def test_a_datetime_needs_a_zone() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5)))
    assert stamp.parse(there) == stamp.from_datetime(NOON)
    with pytest.raises(InvalidInput, match="time zone"):
        stamp.parse(NOON.replace(tzinfo=None))


def test_a_stamp_is_shown_with_microseconds_also_before_1970() -> None:
    assert stamp.render(stamp.parse("2021-01-01 11:59:59")) == "2021-01-01T11:59:59.000000Z"
    assert stamp.render(-1) == "1969-12-31T23:59:59.999999Z"


def test_a_moment_is_a_stamp_of_a_thousand_times_as_many() -> None:
    assert stamp.of_moment(1_609_502_399_123) == stamp.parse("2021-01-01T11:59:59.123Z")


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_an_offset_that_leads_out_of_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="outside the years 1 to 9999"):
        stamp.parse(text, "/at")
