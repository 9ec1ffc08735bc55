"""The buckets of the inbox: the arithmetic of seed 000, and around hours, days and years."""

from __future__ import annotations

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.moment import parse, render
from oncue.core.shard import shard_of
from oncue.stores.dynamodb.buckets import PARTS, Buckets, bucket_in, check_buckets, partition

FIVE = Buckets()
MINUTES = {
    "00": range(5),
    "05": range(5, 10),
    "10": range(10, 15),
    "15": range(15, 20),
    "20": range(20, 25),
    "25": range(25, 30),
    "30": range(30, 35),
    "35": range(35, 40),
    "40": range(40, 45),
    "45": range(45, 50),
    "50": range(50, 55),
    "55": range(55, 60),  # the seed writes 89 for its last minute, 59
}
"""The table of the seed: the minutes of a partition, and those of the due times in it."""


@pytest.mark.parametrize(("name", "minutes"), MINUTES.items())
def test_every_minute_belongs_to_the_partition_that_the_seed_says(
    name: str, minutes: range
) -> None:
    for minute in minutes:
        for second in ("00.000", "59.999"):
            due_at = parse(f"2022-01-24T11:{minute:02d}:{second}Z")
            assert partition(FIVE.of(due_at)) == f"j#2022-01-24T11:{name}"


def test_the_item_of_the_seed_is_in_its_partition() -> None:
    due_at = parse("2015-03-20T09:46:47.123Z")
    job_id = "564ade05-efda-4a2e-a7db-933ad3c89a83"
    plain = Buckets(shards=0)
    assert plain.place(due_at, job_id) == (
        "j#2015-03-20T09:45",
        "2015-03-20T09:46:47.123Z#564ade05-efda-4a2e-a7db-933ad3c89a83",
    )
    pk, _ = FIVE.place(due_at, job_id)
    assert pk == f"j#2015-03-20T09:45#{shard_of(job_id, 50)}"


@pytest.mark.parametrize(
    ("time", "previous", "current"),
    [
        ("2022-01-24T11:57:12Z", "2022-01-24T11:50", "2022-01-24T11:55"),  # the seed's sample
        ("2022-01-24T11:51:18Z", "2022-01-24T11:45", "2022-01-24T11:50"),  # the seed's event
        ("2022-01-24T12:00:00Z", "2022-01-24T11:55", "2022-01-24T12:00"),
        ("2022-01-24T12:04:59Z", "2022-01-24T11:55", "2022-01-24T12:00"),
        ("2022-01-24T00:01:00Z", "2022-01-23T23:55", "2022-01-24T00:00"),
        ("2022-01-01T00:03:59Z", "2021-12-31T23:55", "2022-01-01T00:00"),
        ("2024-03-01T00:00:01Z", "2024-02-29T23:55", "2024-03-01T00:00"),
        ("2023-03-01T00:00:01Z", "2023-02-28T23:55", "2023-03-01T00:00"),
    ],
)
def test_the_partitions_of_a_tick_are_the_current_and_the_previous_one(
    time: str, previous: str, current: str
) -> None:
    at = parse(time)
    found = FIVE.between(at - FIVE.length_ms, at)
    assert [partition(bucket) for bucket in found] == [f"j#{previous}", f"j#{current}"]


def test_all_buckets_of_an_outage_are_found_in_order() -> None:
    found = FIVE.between(parse("2021-12-31T22:59:59.999Z"), parse("2022-01-01T02:00:00Z"))
    assert [render(found[0]), render(found[-1])] == [
        "2021-12-31T22:55:00.000Z",
        "2022-01-01T02:00:00.000Z",
    ]
    assert len(found) == 3 * 12 + 2
    assert found == sorted(found)


def test_the_name_of_a_partition_says_its_bucket() -> None:
    bucket = FIVE.of(parse("2022-01-24T11:57:12Z"))
    assert bucket_in(partition(bucket)) == bucket_in(partition(bucket, 49)) == bucket


@pytest.mark.parametrize("shards", [0, 1, 7, 8, 50, 1000])
def test_every_partition_belongs_to_one_part(shards: int) -> None:
    buckets = Buckets(shards=shards)
    found = [pk for part in range(PARTS) for pk in buckets.partitions(0, part)]
    wanted = [partition(0), *(partition(0, shard) for shard in range(shards))]
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("minutes", [0, 7, 61, -5, "5", None])
def test_the_length_of_a_bucket_divides_the_hour(minutes: object) -> None:
    with pytest.raises(InvalidInput, match="/minutes"):
        check_buckets(minutes, 50)
    assert check_buckets(60, 0) == Buckets(60, 0)
    with pytest.raises(InvalidInput, match="/shards"):
        check_buckets(5, -1)
