"""Who does what has to be done: told from the nodes of a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncue.core import upkeep
from oncue.core.moment import EPOCH
from oncue.core.nodes import NodeReport
from oncue.core.queue import Queue
from oncue.core.schedule import Overlap, Progress, Schedule
from oncue.core.upkeep import Trouble

NOW = 1_800_000_000_000
MINUTE = 60_000


def node(name: str = "web-1", version: str = "1", **runs: Any) -> NodeReport:
    return NodeReport(name, "h", 1, version, EPOCH, EPOCH, **runs)


def schedule(late_ms: int, name: str = "digest", **fields: Any) -> Schedule:
    progress = Progress(NOW - late_ms, NOW - late_ms - 15_000)
    return replace(Schedule(name, every_seconds=60.0, progress=progress), **fields)


def test_a_schedule_that_nobody_looks_at_is_told_with_the_next_step() -> None:
    [found] = upkeep.schedule_troubles([schedule(MINUTE)], [], NOW)
    assert found == Trouble(
        "schedule digest is 60 s overdue, and nobody is running 'oncue serve' or work().",
        "Start 'oncue serve', or a program that calls work().",
    )


def test_processes_that_were_started_without_the_loops_are_named() -> None:
    nodes = [node("a", url="http://h:1"), node("b", works=("mail",))]
    [found] = upkeep.schedule_troubles([schedule(MINUTE)], nodes, NOW)
    assert found == Trouble(
        "schedule digest is 60 s overdue, and no process runs the loops: a (and 1 more) was "
        "started without them.",
        "Start 'oncue serve', or a program that calls work().",
    )


def test_of_many_schedules_the_longest_wait_is_told() -> None:
    late = [schedule(MINUTE, "a"), schedule(5 * MINUTE, "b"), schedule(59_999, "c")]
    [found] = upkeep.schedule_troubles(late, [], NOW)
    assert found.text.startswith("2 schedules are up to 5 min overdue")


def test_if_the_loops_run_their_log_tells_more() -> None:
    nodes = [node("a"), node("b", engine=True), node("c", engine=True)]
    [found] = upkeep.schedule_troubles([schedule(MINUTE)], nodes, NOW)
    assert found.text.endswith("although b (and 1 more) runs the loops.")
    assert "log" in found.todo


@pytest.mark.parametrize(
    "waits",
    [
        schedule(59_999),
        schedule(-MINUTE),
        schedule(MINUTE, paused=True),
        replace(schedule(0), progress=Progress()),
        # it waits for the end of the job before
        replace(schedule(0), overlap=Overlap.QUEUE, progress=Progress(NOW - 90_000, NOW + 1)),
        # over HTTP, it may
        replace(schedule(0), overlap=Overlap.QUEUE, progress=Progress(NOW - 90_000)),
    ],
)
def test_a_schedule_that_may_wait_is_no_trouble(waits: Schedule) -> None:
    assert upkeep.schedule_troubles([waits], [], NOW) == []


SINK = Queue("mail", sink="log:")
PULLED = Queue("mail")


@pytest.mark.parametrize(
    ("queue", "nodes", "text", "todo"),
    [
        (SINK, [], "no process delivers it", "oncue serve"),
        (SINK, [node(works=("mail",))], "no process delivers it", "oncue serve"),
        (SINK, [node(engine=True)], "web-1 runs the loops but does not deliver it", "log"),
        (SINK, [node(engine=True, dispatches=("mail",))], "although web-1 delivers it", "sink"),
        (PULLED, [], "no worker is seen", "over HTTP are not seen here"),
        (PULLED, [node(engine=True, works=("sms",))], "no worker is seen", "oncue worker"),
        (PULLED, [node(works=("mail", "sms"))], "although web-1 works on it", "more workers"),
    ],
)
def test_late_work_is_told_with_who_should_do_it(
    queue: Queue, nodes: list[NodeReport], text: str, todo: str
) -> None:
    found = upkeep.late_trouble(queue, 600.0, nodes)
    assert found.text.startswith("queue mail has work that is 10 min late")
    assert text in found.text
    assert todo in found.todo


def test_another_version_is_told_for_each_node_that_has_it() -> None:
    nodes = [node("a", "1"), node("b", "2"), node("c", "2")]
    found = [one.text for one in upkeep.version_troubles(nodes, "1")]
    assert found == ["b has version 2, here is 1.", "c has version 2, here is 1."]
