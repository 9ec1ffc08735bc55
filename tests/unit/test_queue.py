"""Queues: their settings, and what cannot be set."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.queue import Queue, RetryPolicy, check_name, check_queue_name, default_queue


def test_a_queue_without_a_sink_is_completed_by_its_workers() -> None:
    assert Queue("q").completes_on == "worker"
    assert Queue("q", sink="log:").completes_on == "delivery"
    assert Queue("q", sink="log:", completion="worker").completes_on == "worker"


def test_only_no_retention_at_all_keeps_no_history() -> None:
    assert Queue("q").keeps_history
    assert Queue("q", retention_seconds=None).keeps_history
    assert Queue("q", retention_seconds=0.001).keeps_history
    assert not Queue("q", retention_seconds=0).keeps_history


@pytest.mark.parametrize("name", ["q", "A", "0", "mail.out", "a_b-c", "x" * 80])
def test_a_name_is_letters_digits_and_a_few_signs(name: str) -> None:
    assert check_queue_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".q", "-q", "_q", "x" * 81, "a b", "a/b", "é", "q\n", "q\0", "\ud800", None, 5, b"q"],
)
def test_any_other_name_is_refused_in_a_sentence(name: object) -> None:
    with pytest.raises(InvalidInput, match=r"^/queue: a queue name is 1 to 80 letters"):
        check_queue_name(name)


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        *(({"completion": one}, "/completion") for one in ("Delivery", "", 1)),
        ({"completion": "delivery"}, "/completion"),
        *(({"max_attempts": one}, "/max_attempts") for one in (0, 21, 50, -1, 1.0, True, "3")),
        *(({"lease_seconds": one}, "/lease_seconds") for one in (0, -1, float("inf"), "60", True)),
        ({"lease_seconds": float("nan")}, "/lease_seconds"),
        *(({"timeout_seconds": one}, "/timeout_seconds") for one in (0, -1, float("nan"), "60")),
        *(({"rate_per_second": one}, "/rate_per_second") for one in (0, -1, 1e6 + 1, "1", True)),
        *(({"rate_per_second": float(one)}, "/rate_per_second") for one in ("nan", "inf")),
        *(({"concurrency": one}, "/concurrency") for one in (0, -1, 100_001, 2.0, "1", True)),
        *(({"retention_seconds": one}, "/retention_seconds") for one in (-1, float("inf"), "1")),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_its_name(
    settings: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Queue("q", **settings)
    assert caught.value.pointer == pointer
    assert caught.value.detail.endswith(".")


@pytest.mark.parametrize(
    ("settings", "pointer"),
    [
        ({"initial_seconds": -1}, "/retry/initial_seconds"),
        ({"factor": 0.5}, "/retry/factor"),
        ({"factor": float("nan")}, "/retry/factor"),
        ({"max_seconds": float("inf")}, "/retry/max_seconds"),
    ],
)
def test_a_retry_policy_that_makes_no_sense_is_refused(
    settings: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        RetryPolicy(**settings)
    assert caught.value.pointer == pointer


def test_limits_may_be_as_low_and_as_high_as_they_say() -> None:
    assert Queue("q").rate_per_second is None
    assert Queue("q").concurrency is None
    for rate in (5e-324, 1, 1_000_000):
        assert Queue("q", rate_per_second=rate).rate_per_second == rate
    for concurrency in (1, 100_000):
        assert Queue("q", concurrency=concurrency).concurrency == concurrency
    for poison_after in (0, 100):
        assert Queue("q", poison_after=poison_after).poison_after == poison_after


def test_the_queues_of_tasks_and_rules_are_there_without_being_set() -> None:
    tasks = Queue("tasks", "log:", "worker", timeout_seconds=None, retention_seconds=None)
    assert default_queue("tasks") == tasks
    assert default_queue("rules") == Queue("rules", sink="log:")
    assert default_queue("mail") == Queue("mail")


@pytest.mark.parametrize("kind", ["a schedule", "an operation"])
def test_a_bad_name_of_something_else_is_not_called_one_of_a_queue(kind: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^/name: {kind} name is 1 to 80 letters"):
        check_name("a b", kind)
