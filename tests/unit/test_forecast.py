"""How late scheduled work will be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.core.forecast import Coming, Step, coming, forecast
from oncue.core.moment import to_datetime
from oncue.core.schedule import CatchUp, Emission, Progress, Schedule

MINUTE = 60_000


def test_without_work_nothing_is_late() -> None:
    assert forecast({}, [0, MINUTE], 2 * MINUTE, 10) == [
        Step(0, 0, None, 0.0, 0),
        Step(MINUTE, 0, None, 0.0, 0),
    ]


def test_a_burst_is_late_by_its_size_over_the_rate() -> None:
    (step,) = forecast({30_000: 4_000_000}, [0], 2 * MINUTE, 120_000)
    assert step.due == 4_000_000
    assert step.peak_at == 30_000
    assert round(step.late_seconds, 1) == 33.3
    assert step.backlog == 0


def test_what_is_left_over_delays_the_next_step() -> None:
    first, second, third = forecast({0: 900, MINUTE: 100}, [0, MINUTE, 2 * MINUTE], 3 * MINUTE, 10)
    assert (first.late_seconds, first.backlog) == (90, 300)
    assert (second.late_seconds, second.backlog) == (40, 0)
    assert third == Step(2 * MINUTE, 0, None, 0.0, 0)


def test_a_rest_between_bursts_is_not_saved_up() -> None:
    (step,) = forecast({0: 10, 50_000: 20}, [0], MINUTE, 10)
    assert (step.late_seconds, step.peak_at) == (2, 50_000)


def test_work_spread_below_the_rate_is_hardly_late() -> None:
    (step,) = forecast({second * 1000: 5 for second in range(60)}, [0], MINUTE, 10)
    assert (step.due, step.late_seconds, step.backlog) == (300, 0.5, 0)


@given(
    st.dictionaries(st.integers(0, 599_999), st.integers(1, 1000), max_size=30),
    st.floats(0.5, 1000),
)
def test_every_job_is_counted_once_and_the_backlog_is_what_was_not_done(
    dues: dict[int, int], rate: float
) -> None:
    begins = list(range(0, 600_000, MINUTE))
    steps = forecast(dues, begins, 600_000, rate)
    total = sum(dues.values())
    assert [step.begins_at for step in steps] == begins
    assert sum(step.due for step in steps) == total
    assert 0 <= steps[-1].backlog <= total
    assert steps[-1].backlog >= total - rate * 600 - 1
    assert all((step.peak_at is None) == (step.due == 0) for step in steps)


# -- occurrences that are not jobs yet -------------------------------------------------------------

NOW = 1_800_000_000_000


def every_minute(next_at: int = NOW + MINUTE, **fields: Any) -> Schedule:
    wanted = {"every_seconds": 60.0, "anchor_at": to_datetime(NOW), "queue": "mail", **fields}
    return Schedule("s", progress=Progress(next_at), **wanted)


def test_occurrences_of_all_schedules_are_found_in_order() -> None:
    hourly = Schedule("h", cron="0 * * * *", queue="hourly", progress=Progress(NOW + 90_000))
    found = coming([hourly, every_minute()], NOW, NOW + 3 * MINUTE, 10)
    in_order = [(60_000, "mail"), (90_000, "hourly"), (120_000, "mail")]
    assert found == Coming([(NOW + at, queue) for at, queue in in_order], None)


def test_too_many_occurrences_are_cut_and_it_is_said_where() -> None:
    found = coming([every_minute(), every_minute(NOW + 1)], NOW, NOW + 60 * MINUTE, 3)
    assert len(found.occurrences) == 3
    assert found.cut_at == NOW + 2 * MINUTE


@pytest.mark.parametrize(
    ("catch_up", "late_ms", "overdue"),
    [
        ("once", 5 * MINUTE, [0]),
        ("once", 0, [0]),
        ("all", 2 * MINUTE, [-2 * MINUTE, -MINUTE, 0]),
        ("skip", 5 * MINUTE, [0]),
    ],
)
def test_overdue_occurrences_come_as_their_schedule_catches_up(
    catch_up: str, late_ms: int, overdue: list[int]
) -> None:
    anchor_at = to_datetime(NOW - 60 * MINUTE)
    late = every_minute(NOW - late_ms, catch_up=CatchUp(catch_up), anchor_at=anchor_at)
    found = coming([late], NOW, NOW + 1, 10)
    assert [at - NOW for at, _ in found.occurrences] == overdue


def test_what_is_skipped_after_an_outage_is_not_counted() -> None:
    daily = Schedule(
        *("daily", "0 0 * * *"), catch_up=CatchUp.SKIP, progress=Progress(NOW - 600 * MINUTE)
    )
    assert coming([daily], NOW, NOW + 1, 10).occurrences == []


def test_pauses_events_and_time_zones_that_are_gone_make_no_jobs() -> None:
    emission = Emission("TIME_BASED", "cron")
    none = [
        every_minute(paused=True),
        every_minute(emits=emission),
        Schedule("ended", every_seconds=60.0),
        Schedule("z", cron="* * * * *", timezone="Mars/Base", progress=Progress(NOW + 1)),
    ]
    assert coming(none, NOW, NOW + MINUTE, 10) == Coming([], None)
