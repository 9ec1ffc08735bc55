"""`oncue.aws.start_scheduled_tasks`: seed 003's setting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.lifecycle import State
from oncue.core.moment import parse, to_datetime
from tests.aws.stack import Context, Stack

MIDNIGHT = parse("2122-02-01T00:00:00Z")


@pytest.fixture
def tasks(stack: Stack) -> Stack:
    """A week before the tasks are due."""
    stack.clock.set(MIDNIGHT - 7 * 86_400_000)
    stack.cue.set_queue("tasks", sink=stack.sink, completion="worker", retention_seconds=None)
    return stack


def add(stack: Stack, number: int, *, days: int = 0) -> list[str]:
    due_at = to_datetime(MIDNIGHT) + timedelta(days=days)
    return [
        stack.cue.schedule(
            {"n": n, "dueDate": due_at.date().isoformat()},
            queue="tasks",
            due_at=due_at,
            owner=f"user-{n}",
        ).id
        for n in range(number)
    ]


def states(stack: Stack, ids: list[str]) -> set[State]:
    return {stack.cue.job(one).state for one in ids}


def test_all_tasks_of_the_date_are_started_once(tasks: Stack) -> None:
    due, later = add(tasks, 30), add(tasks, 3, days=1)
    tasks.invoke("start_scheduled_tasks")
    assert tasks.sent == []
    tasks.clock.set(MIDNIGHT)
    for _ in range(3):
        tasks.invoke("start_scheduled_tasks")
        tasks.clock.advance(3600)
    assert tasks.sent_ids == sorted(due)
    assert (states(tasks, due), states(tasks, later)) == ({State.DISPATCHED}, {State.SCHEDULED})


def test_an_event_may_name_a_date_that_has_not_come(tasks: Stack) -> None:
    due, later = add(tasks, 30), add(tasks, 3, days=1)
    answer = tasks.invoke("start_scheduled_tasks", {"date": "2122-02-01"})
    assert answer["started_early"] == 30
    assert tasks.invoke("start_scheduled_tasks", {"date": "2122-02-01"})["started_early"] == 0
    assert tasks.sent_ids == sorted(due)
    assert states(tasks, later) == {State.SCHEDULED}
    dates = {tasks.cue.job(one).payload["dueDate"] for one in due}
    assert dates == {"2122-02-01"}


def test_a_run_that_was_cut_off_is_completed_by_the_next(tasks: Stack) -> None:
    due = add(tasks, 60)
    tasks.clock.set(MIDNIGHT)
    calls = iter([60_000] * 2)
    tasks.invoke("start_scheduled_tasks", context=Context(lambda: next(calls, 0)))
    assert len(tasks.sent) < 60
    tasks.clock.advance(3600)
    tasks.invoke("start_scheduled_tasks")
    assert tasks.sent_ids == sorted(due)
    assert states(tasks, due) == {State.DISPATCHED}


def test_a_run_that_was_killed_is_completed_by_the_next(
    tasks: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = add(tasks, 25)
    tasks.clock.set(MIDNIGHT)

    def die(*args: object) -> None:
        raise SystemExit

    with monkeypatch.context() as dying:  # between sending and storing that it was sent
        dying.setattr(type(tasks.store), "settle", die)
        with pytest.raises(SystemExit):
            tasks.invoke("start_scheduled_tasks")
    assert set(tasks.sent_ids) == set(due)
    tasks.clock.advance(3600)
    tasks.invoke("start_scheduled_tasks")
    assert sorted(tasks.sent) == sorted((one, attempt) for one in due for attempt in (1, 2))
    assert states(tasks, due) == {State.DISPATCHED}
    assert {one.lease_until for one in map(tasks.cue.job, due)} == {None}


def test_other_queues_are_left_alone(tasks: Stack) -> None:
    tasks.cue.schedule("x")
    tasks.invoke("start_scheduled_tasks", {})
    assert tasks.sent == []


@pytest.mark.parametrize("date", ["2122-02-30", "tomorrow", 5, "2122-02-01T00:00:00Z"])
def test_a_date_that_is_none_is_refused(tasks: Stack, date: object) -> None:
    with pytest.raises(InvalidInput, match="/date: must be a date such as 2022-02-01"):
        tasks.invoke("start_scheduled_tasks", {"date": date})


def test_a_worker_reports_with_the_token_of_the_message(tasks: Stack) -> None:
    [job_id] = add(tasks, 1)
    tasks.clock.set(MIDNIGHT)
    tasks.invoke("start_scheduled_tasks")
    [entry] = tasks.sqs.entries
    token = entry["MessageAttributes"]["oncue-token"]["StringValue"]
    tasks.cue.complete(job_id, token, result="done")
    assert tasks.cue.job(job_id).state is State.SUCCEEDED
    assert tasks.cue.job(job_id).due_at == datetime(2122, 2, 1, tzinfo=UTC)
