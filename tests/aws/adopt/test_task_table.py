"""Tasks of the task scheduler become tasks here."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from oncue.core.moment import parse, to_datetime

from .rig import STORES, TaskRig, task

MIDNIGHT = parse("2122-03-06T00:00:00Z")
MINUTE = 60_000


@pytest.fixture(params=STORES)
def rig(request: pytest.FixtureRequest) -> Iterator[TaskRig]:
    made = TaskRig(request.param)
    yield made
    made.close()


def test_a_scheduled_item_becomes_a_task_with_its_request_id(rig: TaskRig) -> None:
    request_id = str(uuid4())
    rig.put(task(request_id))
    report = rig.adopt()
    assert (report.seen, report.adopted, report.queues) == (1, 1, {"tasks": 1})
    [job] = rig.jobs("tasks")
    assert (job.id, job.owner) == (request_id, "1234")
    assert job.due_at == to_datetime(MIDNIGHT)
    assert job.payload == {
        "userId": "1234",
        "dueDate": "2122-03-06",
        "content": {"mail": "follow-up", "discount": 0.15, "days": 15},
    }
    assert rig.items() == []
    assert rig.due_on("2122-03-06#17") == []


def test_started_and_completed_ones_stay(rig: TaskRig) -> None:
    rig.put(task("a", status="STARTED"), task("b", status="COMPLETED"))
    before = rig.items()
    report = rig.adopt()
    assert (report.seen, report.adopted) == (0, 0)
    assert rig.items() == before


def test_a_date_may_have_no_shard_and_be_over(rig: TaskRig) -> None:
    rig.put(task("a", "2122-03-01"), task("b", "2122-03-06"))
    rig.adopt()
    found = {job.id: job for job in rig.jobs("tasks")}
    assert found["a"].due_at == to_datetime(rig.clock.now())
    assert found["a"].payload["dueDate"] == "2122-03-01"
    assert found["b"].due_at == to_datetime(MIDNIGHT)


def test_in_the_hours_of_the_system_the_tasks_of_the_day_are_left_to_it() -> None:
    for now, left in {
        MIDNIGHT - 11 * MINUTE: 0,
        MIDNIGHT - 9 * MINUTE: 1,
        MIDNIGHT: 1,
        MIDNIGHT + 5 * 60 * MINUTE + 29 * MINUTE: 1,
        MIDNIGHT + 5 * 60 * MINUTE + 31 * MINUTE: 0,
    }.items():
        rig = TaskRig()
        rig.clock.set(now)
        rig.put(task("today"), task("tomorrow", "2122-03-07#1"), task("before", "2122-03-05#2"))
        assert rig.survey().left == left
        assert rig.survey(stopped=True).left == 0
        rig.close()


def test_malformed_items_stay_and_are_named() -> None:
    rig = TaskRig()
    bad: dict[str, dict[str, Any]] = {
        "date": {"dueDate": "tomorrow"},
        "digits": {"content": Decimal("0.1234567890123456789012345")},
        "nul": {"content": "\0"},
        "afterDays": {"afterDays": 3},
        "error": {"error": "x"},
        "status": {"status": 3},
    }
    rig.put(task("good"), *(task(name, **change) for name, change in bad.items()))
    missing = task("no-date")
    del missing["dueDate"]
    rig.put(missing)
    report = rig.adopt()
    assert (report.adopted, report.malformed) == (1, len(bad) + 1)
    named = dict(report.problems)
    assert named.keys() == {f"1234/{name}" for name in (*bad, "no-date")}
    assert len(rig.items()) == len(bad) + 1
    rig.close()


def test_a_task_gets_another_id_if_a_job_with_other_contents_has_its_own() -> None:
    rig = TaskRig()
    rig.put(task("a"))
    rig.adopt()
    rig.put(task("a", "2122-04-01#3"))
    rig.adopt()
    found = rig.jobs("tasks")
    assert {job.payload["dueDate"] for job in found} == {"2122-03-06", "2122-04-01"}
    assert {job.id for job in found} > {"a"}
    assert rig.items() == []
    rig.close()


def test_a_request_id_that_cannot_be_an_id_is_replaced(rig: TaskRig) -> None:
    rig.put(task("no id!"))
    rig.adopt()
    [job] = rig.jobs("tasks")
    assert job.id.startswith("task-")
