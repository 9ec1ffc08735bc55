"""Schedules on several real processes that are killed: every occurrence becomes one job."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from threading import Event

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from tests.integration.crew import Child, wait_until

NAMES = [f"s{n}" for n in range(5)]
KILLS = 6
OUTAGE_MS = 3_600_000  # in which nobody was there: enough to do to be killed in the middle


def test_killed_nodes_lose_no_occurrence_and_make_none_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    logs = (tmp_path / f"{n}.log" for n in range(2 + KILLS))
    past = FakeClock(SystemClock().now() - OUTAGE_MS)
    with Scheduler(url, clock=past) as before:
        for name in NAMES:
            before.every(1, name=name, queue="q", catch_up="all")
    in_the_middle = 0
    with Scheduler(url) as cue:
        nodes = [Child("child_recurrer", url, log=next(logs)) for _ in range(2)]
        try:
            for _ in range(KILLS):
                wait_until(lambda: "running" in nodes[0].said, "a node runs")
                Event().wait(0.1)
                nodes.pop(0).end()
                in_the_middle += not _made_up_to(cue, NAMES[-1], cue.clock.now())
                nodes.append(Child("child_recurrer", url, log=next(logs)))
            last = cue.clock.now() + 1000
            wait_until(lambda: all(_made_up_to(cue, name, last) for name in NAMES), "all are made")
        finally:
            for node in nodes:
                node.end()
        assert in_the_middle, "they were all made before anybody was killed"
        made = Counter((job.schedule, job.due_at) for job in cue.jobs(queue="q"))
        assert set(made.values()) == {1}
        for name in NAMES:
            dues = sorted(due for schedule, due in made if schedule == name)
            second = timedelta(seconds=1)
            first = cue.schedule_named(name).created_at + second
            assert dues == [first + n * second for n in range(len(dues))]
            recorded = [outcome.at for outcome in cue.schedule_outcomes(name)]
            assert recorded == dues[-len(recorded) :]


def _made_up_to(cue: Scheduler, name: str, moment: int) -> bool:
    last_at = cue.schedule_named(name).progress.last_at
    return last_at is not None and last_at >= moment
