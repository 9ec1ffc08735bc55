"""The bucket behind a rate: never more than promised, and never stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.moment import LATEST, Moment
from oncue.core.rate import (
    OVERTAKING_MS,
    TURN,
    Bucket,
    Limits,
    Room,
    capacity,
    fill,
    ready_at,
    take,
)

NOW = 1_800_000_000_000
rates = st.floats(min_value=0, max_value=1_000_000, exclude_min=True)
usual = st.floats(min_value=0.01, max_value=100_000)
pauses = st.integers(0, 5_000)


@pytest.mark.parametrize(
    ("rate", "whole"), [(0.001, 1), (1, 1), (10, 1), (19.9, 1), (20, 2), (50, 5), (1e6, 100_000)]
)
def test_a_full_bucket_is_a_tenth_of_a_second_but_at_least_one(rate: float, whole: int) -> None:
    assert fill(None, rate, NOW).whole == whole
    assert fill(Bucket(0, NOW), rate, NOW + 10**12).whole == whole


@given(usual, st.lists(st.tuples(pauses, st.integers(1, 1_000)), max_size=60))
def test_no_window_sees_more_than_its_rate_and_one_burst(
    rate: float, steps: list[tuple[int, int]]
) -> None:
    bucket: Bucket | None = None
    now: Moment = NOW
    taken: list[tuple[Moment, int]] = []
    for pause, wanted in steps:
        now += pause
        bucket = fill(bucket, rate, now)
        count = min(wanted, bucket.whole)
        bucket = take(bucket, count)
        taken.append((now, count))
    for first, (begin, _) in enumerate(taken):
        total = 0
        for end, count in taken[first:]:
            total += count
            numerator, denominator = rate.as_integer_ratio()
            gained = (end - begin) * numerator * TURN // (1000 * denominator)
            assert total * TURN <= capacity(rate) + gained


@given(usual, st.lists(pauses, max_size=40))
def test_looking_often_gains_no_more_than_looking_once(rate: float, looks: list[int]) -> None:
    often = once = Bucket(0, NOW)
    now = NOW
    for pause in looks:
        now += pause
        often = fill(often, rate, now)
    assert often.turns <= fill(once, rate, now).turns


@given(rates, st.integers(0, 3 * TURN))
def test_one_may_be_taken_at_the_moment_that_is_named_and_not_before(
    rate: float, turns: int
) -> None:
    bucket = Bucket(turns, NOW)
    ready = ready_at(bucket, rate)
    assert NOW <= ready <= LATEST
    if ready < LATEST:
        assert fill(bucket, rate, ready).whole >= 1
    if ready > NOW:
        assert fill(bucket, rate, ready - 1).whole == 0


def test_a_rate_that_no_binary_fraction_equals_is_not_rounded_up() -> None:
    taken, bucket = 0, fill(None, 0.1, NOW)
    for second in range(0, 100_000, 10):
        bucket = fill(bucket, 0.1, NOW + second * 1000)
        taken += bucket.whole
        bucket = take(bucket, bucket.whole)
    assert taken == 10_000


@given(rates, st.integers(0, OVERTAKING_MS))
def test_whoever_was_overtaken_gains_nothing_and_takes_nothing_back(rate: float, late: int) -> None:
    bucket = Bucket(TURN // 2, NOW)
    assert fill(bucket, rate, NOW - late) == bucket


@given(rates)
def test_a_clock_that_was_set_back_begins_again_with_nothing(rate: float) -> None:
    then = NOW - OVERTAKING_MS - 1
    assert fill(Bucket(TURN // 2, NOW), rate, then) == Bucket(0, then)


def test_a_lower_rate_does_not_keep_the_burst_of_the_higher_one() -> None:
    assert fill(Bucket(50 * TURN, NOW), 10, NOW) == Bucket(TURN, NOW)


def test_a_paused_queue_has_no_room_and_no_next_turn() -> None:
    limits = Limits(paused=True, concurrency=5, rate_per_second=1.0)
    assert limits.room(0, 10, NOW) == Room(0)
    assert limits.next_turns([NOW]) == []


@pytest.mark.parametrize(("under_way", "most"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_room_is_what_the_concurrency_leaves(under_way: int, most: int) -> None:
    limits = Limits(concurrency=3)
    assert limits.room(under_way, 10, NOW) == Room(most)
    assert limits.is_full(under_way) is (most == 0)


def test_room_is_no_more_than_the_turns_and_the_limit() -> None:
    limits = Limits(rate_per_second=50.0)
    assert limits.room(1000, 10, NOW) == Room(5, Bucket(5 * TURN, NOW))
    assert limits.room(1000, 2, NOW).most == 2
    assert limits._replace(concurrency=1).room(1, 10, NOW) == Room(0), "no turn is asked for"


def test_a_bucket_from_before_the_clock_was_set_back_has_to_be_kept() -> None:
    late = Bucket(5 * TURN, NOW + 3_600_000)
    room = Limits(rate_per_second=50.0, bucket=late).room(0, 10, NOW)
    assert room == Room(0, Bucket(0, NOW), begun_again=True)


def test_jobs_are_taken_when_they_are_due_and_not_before_the_next_turn() -> None:
    empty = Limits(rate_per_second=1.0, bucket=Bucket(0, NOW))
    assert empty.next_turns([NOW, NOW + 5_000]) == [NOW + 1_000, NOW + 5_000]
    assert empty._replace(bucket=None).next_turns([NOW]) == [NOW]
    assert Limits().next_turns([NOW]) == [NOW]
