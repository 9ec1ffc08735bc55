"""However a run ends, and whatever the other system does meanwhile: nothing is lost, nothing is
doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from oncue.aws import others_table
from oncue.core.moment import parse
from oncue_bench.dynamodb import errors
from oncue_bench.dynamodb.wrapped import Call, WrappedClient
from tests.stores.dynamo import client

from .rig import Killed, Outside, Rig, TaskRig, WaiterRig, message, task

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others_table, "TAKEN_AT_ONCE", 2)


def waiter(kind: str) -> Rig:
    rig = WaiterRig(kind)
    rig.put(*map(message, NAMES))
    return rig


def tasks(kind: str) -> Rig:
    rig = TaskRig(kind)
    rig.put(*(task(name, userId=f"user-{name}") for name in NAMES))
    return rig


def adopted(rig: Rig) -> list[str]:
    """The names of the items that are jobs."""
    if isinstance(rig, TaskRig):
        return sorted(job.id for job in rig.jobs("tasks"))
    bodies = [json.loads(job.payload["MessageBody"]) for job in rig.jobs("mailers")]
    return sorted(body["job_id"] for body in bodies)


def points(
    make: Callable[[str], Rig], kind: str, put_off: Callable[[Rig, Outside, int], object]
) -> Iterator[Rig]:
    """A new rig whose first run was disturbed at its first request, at its second, and so on."""
    for number in count(1):
        rig, outside = make(kind), Outside()
        put_off(rig, outside, number)
        with suppress(Killed):
            rig.adopt(outside)
        yield rig
        over = outside.calls < number
        rig.close()
        if over:
            return


def kill(number: int) -> Callable[[int], None]:
    def end(now: int) -> None:
        if now >= number:  # whatever its other threads still ask
            raise Killed

    return end


@pytest.mark.parametrize(
    ("make", "kind", "moment"),
    [
        (waiter, "memory", "before"),
        (waiter, "dynamodb", "after"),
        (tasks, "memory", "before"),
        (tasks, "postgresql", "after"),
    ],
)
def test_a_run_that_was_killed_is_completed_by_the_next(
    make: Callable[[str], Rig], kind: str, moment: str
) -> None:
    def put_off(rig: Rig, outside: Outside, number: int) -> None:
        setattr(outside, moment, kill(number))

    tried = 0
    for rig in points(make, kind, put_off):
        tried += 1
        rig.adopt()
        assert adopted(rig) == list(NAMES)
        assert rig.items() == []
        rig.adopt()
        assert adopted(rig) == list(NAMES)
    assert tried > 6


@pytest.mark.parametrize("make", [waiter, tasks])
@pytest.mark.parametrize("killed", [False, True])
def test_what_the_other_system_takes_meanwhile_is_no_job(
    make: Callable[[str], Rig], killed: bool
) -> None:
    """It takes items by a conditional delete, at any moment; and the run may end right after."""
    sent: list[Any] = []

    def put_off(rig: Rig, outside: Outside, number: int) -> None:
        sent.clear()

        def rival(now: int) -> None:
            if now == number:
                items = [item for item in rig.items() if "item" not in item][:2]
                sent.extend(item[rig.keys[1]] for item in items if rig.delete(item))
            if killed and now > number:
                raise Killed

        outside.before = rival

    for rig in points(make, "memory", put_off):
        rig.adopt()
        assert sorted([*sent, *adopted(rig)]) == list(NAMES)
        assert rig.items() == []


def test_what_the_other_system_starts_in_its_hours_is_no_task_here() -> None:
    """It writes what it has read without a condition."""

    def make(kind: str) -> Rig:
        rig = TaskRig(kind)
        rig.clock.set(parse("2122-03-06T00:30:00Z"))
        rig.put(*(task(name, "2122-03-07#1") for name in NAMES[:2]))
        rig.put(*(task(name, "2122-03-06#1") for name in NAMES[2:]))
        return rig

    def put_off(rig: Rig, outside: Outside, number: int) -> None:
        assert isinstance(rig, TaskRig)
        system, read = rig, rig.due_on("2122-03-06#1")

        def start(now: int) -> None:
            if now == number:
                for item in read:
                    system.start(item)

        outside.before = start

    for rig in points(make, "memory", put_off):
        assert adopted(rig) == list(NAMES[:2])
        assert sorted(item["requestId"] for item in rig.items()) == list(NAMES[2:])


@pytest.mark.parametrize("make", [waiter, tasks])
def test_two_runs_at_once_share_the_items(make: Callable[[str], Rig]) -> None:
    """The second is whole between any two requests of the first."""

    def put_off(rig: Rig, outside: Outside, number: int) -> None:
        def other(now: int) -> None:
            if now == number:
                rig.adopt()

        outside.before = other

    for rig in points(make, "memory", put_off):
        assert adopted(rig) == list(NAMES)
        assert rig.items() == []


@pytest.mark.parametrize("make", [waiter, tasks])
def test_an_item_that_changes_meanwhile_is_adopted_as_it_is_by_the_next_run(
    make: Callable[[str], Rig],
) -> None:
    def changed(rig: Rig) -> dict[str, Any]:
        if isinstance(rig, TaskRig):
            return task("a", "2122-03-09#4", userId="user-a")
        return message("a", parse("2122-03-09T00:00:00Z"))

    def put_off(rig: Rig, outside: Outside, number: int) -> None:
        def change(now: int) -> None:
            if now == number:
                rig.change(changed(rig))

        outside.before = change

    for rig in points(make, "memory", put_off):
        rig.adopt()
        assert adopted(rig) == list(NAMES)
        assert rig.items() == []


def test_a_transaction_whose_answer_is_lost_is_done_once() -> None:
    rig = waiter("memory")
    lost: list[Call] = []

    class Deaf(WrappedClient):
        def during(self, call: Call) -> Any:
            answer = self.send(call)
            if call.method == "transact_write_items" and len(lost) < 2:
                lost.append(call)
                raise errors.no_answer(client())
            return answer

    report = rig.adopt(real=Deaf(client()))
    assert len(lost) == 2
    assert (report.adopted, report.lost) == (len(NAMES), 0)
    assert adopted(rig) == list(NAMES)
    rig.close()
