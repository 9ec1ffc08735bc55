"""Cron expressions: what they name, what the marks say, and what is refused."""

from __future__ import annotations

import pytest

from oncue.core.cron import Mark, cron
from oncue.core.errors import InvalidInput
from oncue.core.moment import LATEST, parse, render
from oncue.core.zone import zone

GAP = "2026-03-28T12:00:00Z"  # in Paris the next night has no 02:00 to 03:00,
OVERLAP = "2026-10-24T12:00:00Z"  # and this one has it twice


def coming(expression: str, after: str, count: int, timezone: str = "Europe/Paris") -> list[str]:
    rule, at, found = cron(expression, timezone), parse(after), []
    for _ in range(count):
        occurrence = rule.after(at)
        assert occurrence is not None
        at = occurrence.at
        found.append(render(at)[:19] + ("" if occurrence.mark == "normal" else occurrence.mark))
    return found


def test_five_fields_name_minutes_and_six_name_seconds() -> None:
    assert coming("30 9 * * MON-FRI", "2026-11-13T09:00:00Z", 2, "UTC") == [
        "2026-11-13T09:30:00",
        "2026-11-16T09:30:00",
    ]
    assert coming("*/20 * * * * *", "2026-11-13T09:00:00Z", 3, "UTC") == [
        "2026-11-13T09:00:20",
        "2026-11-13T09:00:40",
        "2026-11-13T09:01:00",
    ]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_time_of_day_in_a_gap_comes_when_the_gap_ends(expression: str) -> None:
    assert coming(expression, GAP, 2) == ["2026-03-29T01:00:00gap", "2026-03-30T00:30:00"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_time_of_day_in_an_overlap_comes_once(expression: str) -> None:
    assert coming(expression, OVERLAP, 2) == ["2026-10-25T00:30:00overlap", "2026-10-26T01:30:00"]


def test_several_times_in_one_gap_are_one() -> None:
    assert coming("*/10 0,30 2,3 * * *", GAP, 2) == [
        "2026-03-29T01:00:00gap",
        "2026-03-29T01:00:10",
    ]
    assert coming("0 2,3 * * *", GAP, 2) == ["2026-03-29T01:00:00gap", "2026-03-30T00:00:00"]


def test_a_rhythm_keeps_its_pace_through_gap_and_overlap() -> None:
    assert coming("*/30 * * * *", "2026-03-29T00:10:00Z", 3) == [
        "2026-03-29T00:30:00",
        "2026-03-29T01:00:00gap",
        "2026-03-29T01:30:00",
    ]
    assert coming("0 * * * *", "2026-10-24T23:10:00Z", 3) == [
        "2026-10-25T00:00:00overlap",
        "2026-10-25T01:00:00overlap",
        "2026-10-25T02:00:00",
    ]


def test_a_mark_says_what_it_means() -> None:
    in_gap = cron("30 2 * * *", "Europe/Paris").after(parse(GAP))
    twice = cron("0 * * * *", "Europe/Paris").after(parse("2026-10-25T00:30:00Z"))
    assert in_gap is not None
    assert in_gap.note == "02:30 does not exist on this day: at the end of the gap"
    assert twice is not None
    assert twice.mark is Mark.OVERLAP
    assert twice.note == "02:00 comes twice on this day: both times, this is the second"


def test_a_day_that_a_zone_left_out_is_made_up_for_at_the_beginning_of_the_next() -> None:
    assert coming("0 12 * * *", "2011-12-29T12:00:00Z", 3, "Pacific/Apia") == [
        "2011-12-29T22:00:00",
        "2011-12-30T10:00:00gap",
        "2011-12-30T22:00:00",
    ]


def test_what_never_comes_is_refused_and_nothing_comes_after_the_end_of_time() -> None:
    with pytest.raises(InvalidInput, match="never happens"):
        cron("0 0 */31 * 1#2", "UTC")
    assert cron("0 0 1 1 *", "Europe/Paris").after(LATEST) is None


def test_leap_days_and_last_days_are_found() -> None:
    assert coming("0 0 29 2 *", "2026-01-01T00:00:00Z", 1, "UTC") == ["2028-02-29T00:00:00"]
    assert coming("0 0 L * *", "2026-02-01T00:00:00Z", 1, "UTC") == ["2026-02-28T00:00:00"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("* * *", "has 3 fields"),
        ("x", "has 1 field;"),
        ("", "has 0 fields"),
        ("61 * * * *", r"the minute is unreadable or out of range \(0 to 59\)\."),
        ("0 0 * * 8", r"out of range \(0 to 7, or SUN to SAT\)"),
        ("* 24 * * *", "field for the hour"),
        ("0 0 31 2 *", "a day that one of the months has"),
        ("0 0 * * FUN", "field for the day of week"),
        ("x * * * * *", "field for the second"),
        (f"{'9' * 150} * * * *", "field for the minute"),
        ("@daily", r"write it as .0 0 \* \* \*."),
        ("* " * 200, "at most 200 characters"),
        (5, "must be text"),
        (None, "must be text"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_place_and_the_way_out(
    expression: object, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        cron(expression, "UTC")
    assert refused.value.pointer == "/cron"


@pytest.mark.parametrize(
    "key", ["Mars/Olympus", "America", "../UTC", "/etc/passwd", "", "UTC\0", "\ud800", 5, None]
)
def test_what_is_no_time_zone_is_refused(key: object) -> None:
    with pytest.raises(InvalidInput, match="not a time zone of the IANA database") as refused:
        cron("* * * * *", key)
    assert refused.value.pointer == "/timezone"


def test_names_that_mean_something_else_on_every_machine_are_refused() -> None:
    with pytest.raises(InvalidInput):
        zone("localtime")


def test_the_digest_of_a_zone_is_that_of_its_rules() -> None:
    assert zone("Europe/Paris").digest != zone("Europe/London").digest
    assert zone("Asia/Calcutta").digest == zone("Asia/Kolkata").digest
