from __future__ import annotations

from oncue.core.putoff import SHORTEST_SECONDS, back_in_line_until, put_off_until
from oncue.core.queue import RetryPolicy

NOW = 1_000_000_000
POLICY = RetryPolicy(initial_seconds=1, factor=2, max_seconds=100)
IDS = [f"job-{number}" for number in range(1_000)]


def delays(refusals: int, policy: RetryPolicy = POLICY) -> list[int]:
    return [put_off_until(policy, job_id, refusals, NOW) - NOW for job_id in IDS]


def test_the_delay_grows_with_the_refusals_up_to_the_longest_of_the_policy() -> None:
    for refusals, full_ms in ((1, 1_000), (2, 2_000), (5, 16_000), (8, 100_000), (500, 100_000)):
        found = delays(refusals)
        assert full_ms * 0.375 <= min(found)
        assert max(found) <= full_ms


def test_jobs_refused_together_return_in_some_groups() -> None:
    assert 3 <= len(set(delays(8))) <= 10


def test_the_same_refusal_is_answered_with_the_same_moment() -> None:
    assert delays(3) == delays(3)


def test_a_policy_without_a_delay_is_no_busy_loop() -> None:
    found = delays(1, RetryPolicy(initial_seconds=0, factor=1, max_seconds=0))
    assert min(found) >= SHORTEST_SECONDS * 750


def test_a_job_is_back_in_line_at_its_moment_unless_another_has_been_due_longer() -> None:
    assert back_in_line_until(NOW, None) == NOW
    assert back_in_line_until(NOW, NOW - 5) == NOW - 5
    assert back_in_line_until(NOW, NOW + 5) == NOW
