"""Around a change of the clocks cron and a walk through every minute see the same."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.cron import Mark, cron
from oncue.core.zone import zone
from tests.dst.comparison import FIVE, QUICK, SIX, changes, disagreements, occurrences
from tests.dst.slow import SlowCron, walls

# Hours and half hours, at midnight, both hemispheres, a whole day, twice in a year, and never.
SAMPLE = [
    *("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"),
    *("Pacific/Apia", "Africa/Casablanca", "Asia/Beirut", "Antarctica/Troll"),
]
YEAR_2011 = 1_293_840_000


@pytest.mark.parametrize("key", SAMPLE)
def test_cron_agrees_with_a_walk_around_every_change_of_the_clocks(key: str) -> None:
    every = changes(key)
    assert every
    assert [line for change in every for line in disagreements(key, change, QUICK)] == []


@pytest.mark.parametrize("key", SAMPLE)
def test_cron_agrees_with_a_walk_for_many_expressions(key: str) -> None:
    every = changes(key)
    some = every[:: max(1, len(every) // 3)] + [c for c in every if abs(c.after - c.before) > 7200]
    assert [line for change in some for line in disagreements(key, change)] == []


@pytest.mark.parametrize(("which", "alone"), [(0, 0), (1, 2)], ids=["gap", "overlap"])
def test_cronsim_alone_skips_and_doubles_with_six_fields_and_the_walk_does_not(
    which: int, alone: int
) -> None:
    change = changes("Europe/Paris")[which]
    start, end = change.at - 6 * 3600, change.at + 6 * 3600
    local = datetime.fromtimestamp(start, ZoneInfo("Europe/Paris"))
    found = (at.timestamp() for at in CronSim(SIX[0], local))
    assert len(list(takewhile(lambda at: at < end, found))) == alone
    slow = SlowCron(SIX[0]).walk(walls("Europe/Paris", start, end, 20))
    assert len(list(slow)) == 1


def test_a_zone_without_changes_is_the_same_all_year() -> None:
    assert changes("Asia/Kolkata") == []
    a_year = occurrences("30 2 * * *", "Asia/Kolkata", YEAR_2011, YEAR_2011 + 365 * 86_400)
    assert {later - earlier for earlier, later in pairwise(a_year)} == {86_400}
    assert len(a_year) == 365


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *", "20 59 23 * * *"])
@pytest.mark.parametrize("key", ["Europe/Paris", "America/Sao_Paulo", "Australia/Lord_Howe"])
def test_a_time_of_day_comes_once_on_every_local_day(expression: str, key: str) -> None:
    start, end = YEAR_2011, YEAR_2011 + 365 * 86_400
    days = [
        (at + zone(key).offset_at(at)) // 86_400 for at in occurrences(expression, key, start, end)
    ]
    assert days == list(range(days[0], days[0] + len(days)))
    assert len(days) >= 364


@given(
    key=st.sampled_from(SAMPLE),
    expression=st.sampled_from(FIVE + SIX),
    start=st.integers(YEAR_2011 * 1000, YEAR_2011 * 1000 + 5 * 365 * 86_400_000),
)
def test_what_comes_next_is_always_later(key: str, expression: str, start: int) -> None:
    rule, last = cron(expression, key), start
    for _ in range(20):
        found = rule.after(last)
        assert found is not None
        assert found.at > last
        last = found.at


@given(key=st.sampled_from(SAMPLE), start=st.integers(0, 40 * 365 * 86_400_000))
def test_it_does_not_matter_from_where_one_asks(key: str, start: int) -> None:
    rule = cron("0 30 2 * * *", key)
    first = rule.after(start)
    assert first is not None
    assert rule.after(first.at - 1) == first
    assert rule.after((start + first.at) // 2) == first


def test_only_days_with_a_change_of_the_clocks_are_marked() -> None:
    rule, marks, at = cron("30 2 * * *", "Europe/Paris"), [], YEAR_2011 * 1000
    for _ in range(365):
        found = rule.after(at)
        assert found is not None
        marks.append(found.mark)
        assert bool(found.note) == (found.mark is not Mark.NORMAL)
        at = found.at
    assert (marks.count(Mark.GAP), marks.count(Mark.OVERLAP)) == (1, 1)
