"""The arithmetic of bursts on DynamoDB, and its picture."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from oncue_bench.capacity import (
    NEW_TABLE_WRITES,
    Burst,
    drain,
    quota_needed,
    shards_needed,
    spread,
)
from oncue_bench.capacity_report import (
    DATE_LINES,
    MINUTE_LINES,
    ONE_DATE,
    as_markdown,
    as_picture,
    outcomes,
)

TEN_MILLION = 10_000_000


def test_what_ten_million_in_a_minute_need() -> None:
    assert shards_needed(TEN_MILLION) == 167
    assert quota_needed(TEN_MILLION) == 167_000
    assert quota_needed(TEN_MILLION, units=3) == 500_000


def test_with_that_they_are_through_in_a_minute() -> None:
    outcome = drain(Burst("", TEN_MILLION, 167, quota=167_000))
    assert (outcome.seconds, outcome.throttles, outcome.limit) == (60, 0, "due")
    assert outcome.peak_writes == pytest.approx(TEN_MILLION / 60)


def test_one_shard_less_is_too_few() -> None:
    outcome = drain(Burst("", TEN_MILLION, 166, quota=167_000))
    assert outcome.seconds > 60
    assert outcome.throttles > 0


@pytest.mark.parametrize("shards", [40, 50, 167, 1_000])
def test_the_default_quota_takes_250_seconds_whatever_the_shards(shards: int) -> None:
    outcome = drain(Burst("", TEN_MILLION, shards))
    assert outcome.seconds == 250
    assert outcome.peak_writes == pytest.approx(40_000)


def test_a_new_table_takes_2500_seconds() -> None:
    outcome = drain(Burst("", TEN_MILLION, 167, quota=NEW_TABLE_WRITES))
    assert (outcome.seconds, outcome.limit) == (2_500, "quota")


def test_four_shards_drain_four_thousand_in_a_second() -> None:
    outcome = drain(Burst("", TEN_MILLION, 4))
    assert (outcome.seconds, outcome.limit) == (2_500, "partitions")


def test_jobs_that_cost_more_take_longer() -> None:
    assert drain(Burst("", TEN_MILLION, 167, units=3)).seconds == 750
    assert drain(Burst("", 100_000, 1, hot_units=2, due_seconds=1)).seconds == 200


def test_one_shard_is_throttled_where_fifty_are_not() -> None:
    """As an example of 100,000 tasks on one date found: 63 s and 6,735 throttled writes with one
    shard, 46 s and none with fifty. One shard did more than 1,000 in a second there. Probably the
    service had split its partition, or lent it unused capacity; the model does neither, so its
    one shard takes longer."""
    one, _, fifty = [drain(burst) for burst in ONE_DATE]
    assert (one.seconds, one.limit) == (100, "partitions")
    assert 5_000 < one.throttles < 15_000
    assert (fifty.seconds, fifty.throttles, fifty.limit) == (47, 0, "pace")


def test_no_job_is_lost_or_done_twice() -> None:
    for outcome in outcomes():
        assert outcome.left[0] == outcome.burst.jobs
        assert outcome.left[-1] == pytest.approx(0, abs=0.001)
        assert list(outcome.left) == sorted(outcome.left, reverse=True)
        assert len(outcome.left) == outcome.seconds + 1


def test_shards_that_share_a_partition_hold_each_other_up() -> None:
    assert spread(167, None) == {1: 167}
    shared = spread(167, 40)
    assert sum(shards * number for shards, number in shared.items()) == 167
    assert max(shared) > 5
    alone = drain(Burst("", 1_000_000, 40))
    together = drain(Burst("", 1_000_000, 40, partitions=40))
    assert together.seconds > alone.seconds


def test_the_table_has_a_row_for_each_burst() -> None:
    text = as_markdown(outcomes())
    assert len(text.splitlines()) == 2 + len(outcomes())
    assert (
        "| 100,000 due on one date | 50 | 40,000 | 47 s | 0 | 2,167 | pace |" in text.splitlines()
    )


def test_the_picture_has_a_line_for_each_burst_that_lasts_differently() -> None:
    picture = ElementTree.fromstring(as_picture(outcomes()))
    space = "{http://www.w3.org/2000/svg}"
    lines = picture.findall(f".//{space}polyline")
    assert len(lines) == len(DATE_LINES) + len(MINUTE_LINES)
    assert len(lines) == len({(row.burst.jobs, row.seconds) for row in outcomes()})
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
