"""How late scheduled work will be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncue.core.forecast import Step, forecast

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
