"""A publisher that dies again and again, with kill -9: every event is decided, every job is there
once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oncue.clock import FakeClock
from oncue.scheduler import Scheduler
from oncue.stores.sqlite import SqliteStore
from tests.proof.points import VARIABLE

CHILD = """
import sys
from oncue.clock import FakeClock
from oncue.core.event import Bounds
from oncue.stores.sqlite import SqliteStore
from tests.proof.points import KillingStore
from tests.contract.board import time_based

store = KillingStore(SqliteStore(sys.argv[1], FakeClock()))
for second in range(int(sys.argv[2])):
    events = [time_based("cron", second * 1_000_000), time_based("tick", second * 1_000_000)]
    for event in events:
        [answer] = store.publish([event], store.clock.now(), Bounds())
        print(event.resource, second, len(answer.jobs), int(answer.duplicate), flush=True)
store.close()
"""
SECONDS = 12
BOTH = [
    {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0},
    {"type": "TIME_BASED", "resourceId": "tick", "lifeDuration": 0},
]


def publisher(path: Path, orders: str) -> tuple[int, list[list[str]]]:
    """How it ended, and what it was answered before it did."""
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(SECONDS)],
        env={**os.environ, VARIABLE: orders, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode, [line.split() for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("point", ["before-publish-commit", "after-publish-commit"])
def test_whenever_the_publisher_dies_posting_again_completes_what_is_missing(
    tmp_path: Path, point: str
) -> None:
    path = tmp_path / "jobs.db"
    with Scheduler(SqliteStore(path, FakeClock())) as cue:
        cue.put_rule("both", BOTH)
        cue.put_rule("cron alone", BOTH[:1])
    deaths = 0
    for count in (1, 4, 7, 12, 17):
        status, answered = publisher(path, f"{point}:{count}")
        deaths += status == -signal.SIGKILL
        assert len(answered) == count - 1
    assert deaths == 5
    status, answered = publisher(path, "")
    assert status == 0
    assert len(answered) == 2 * SECONDS
    with Scheduler(SqliteStore(path, FakeClock())) as cue:
        jobs = list(cue.jobs(queue="rules"))
        logged = list(cue.events(decision="ACCEPTED"))
    for rule in ("both", "cron alone"):
        instants = [job.instant.timestamp() for job in jobs if job.rule == rule and job.instant]
        assert sorted(instants) == list(range(SECONDS)), rule
    named = [one.job_id for event in logged for one in event.decisions if one.job_id]
    assert sorted(named) == sorted(job.id for job in jobs)


def test_what_was_stored_before_the_death_is_a_duplicate_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with Scheduler(SqliteStore(path, FakeClock())) as cue:
        cue.put_rule("both", BOTH)
    publisher(path, "after-publish-commit:4")  # the fourth is stored, not answered
    _, answered = publisher(path, "")
    assert [duplicate for *_, duplicate in answered[:5]] == ["1", "1", "1", "1", "0"]
    assert sum(int(jobs) for _, _, jobs, _ in answered) == SECONDS - 2
