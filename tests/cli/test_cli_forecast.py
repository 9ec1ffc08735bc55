"""`oncue forecast`: what is due ahead and how late it will be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from oncue import Scheduler
from oncue.cli.forecast import MOST_OCCURRENCES
from oncue.clock import SystemClock
from oncue.core.moment import to_datetime

from .terminal import put_off, run, see, wait_until

HOUR = timedelta(hours=1)


def scheduler(folder: Path) -> Scheduler:
    return Scheduler(f"sqlite:///{folder}/oncue.db")


def full_hour(ahead: int) -> datetime:
    """So many full hours from now; the first of them is at least one hour away."""
    now = to_datetime(SystemClock().now()).astimezone(UTC)
    return now.replace(minute=0, second=0, microsecond=0) + (ahead + 1) * HOUR


def add(folder: Path, count: int, at: datetime, queue: str = "default") -> None:
    with scheduler(folder) as cue:
        cue.schedule_many({"queue": queue, "at": at} for _ in range(count))


def test_a_burst_is_told_with_its_lateness(tmp_path: Path) -> None:
    at = full_hour(1)
    add(tmp_path, 4000, at)
    ended = run("forecast", "--rate", "120", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    first = ended.out.splitlines()[0]
    assert first.endswith(f"{at:%H:%M} 4,000 are due; at 120/s the last is 33.3 s late.")
    (line,) = [line for line in ended.out.splitlines() if "█" in line]
    assert line.split()[-5:] == ["4,000", "█" * 20, "0", "33.3", "s"]


def test_as_json_every_step_is_there(tmp_path: Path) -> None:
    at = full_hour(2)
    add(tmp_path, 72_000, at)
    add(tmp_path, 10, at + HOUR)
    told = run("forecast", "--rate=10", "--hours=6", "--step=hour", "--json", cwd=tmp_path).json
    assert told["rate_per_second"] == 10
    assert told["rate_origin"] == "option"
    steps = {step["begins_at"]: step for step in told["steps"]}
    burst, after = (
        steps[f"{at:%Y-%m-%dT%H:00:00.000Z}"],
        steps[f"{at + HOUR:%Y-%m-%dT%H:00:00.000Z}"],
    )
    assert burst["due"] == 72_000
    assert burst["late_seconds"] == 7200
    assert burst["backlog"] == 36_000
    assert after["late_seconds"] == 3601
    assert sum(step["due"] for step in told["steps"]) == 72_010


def test_what_is_overdue_and_what_is_paused_is_told(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        for _ in range(30):
            cue.schedule(queue="late")
        for _ in range(5):
            cue.schedule(queue="held")
        cue.pause("held")
    ended = run("forecast", "--rate", "10", cwd=tmp_path)
    assert "30 jobs are overdue" in ended.out
    assert "at 10/s this backlog takes 3 s." in ended.out
    assert "Queue held is paused: 5 jobs left out." in ended.out


def test_one_job_and_a_slow_rate_are_told_as_they_are(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.schedule(queue="late")
    out = run("forecast", "--rate", "0.5", cwd=tmp_path).out
    assert "1 job is overdue, the oldest by " in out
    assert "at 0.5/s this backlog takes 2 s." in out


def test_what_is_put_off_comes_now_and_is_not_called_overdue(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        put_off(cue, "audit", "stuck")
    told = run("forecast", "--rate=100", "--json", cwd=tmp_path).json
    assert told["overdue"] == 0
    assert sum(step["due"] for step in told["steps"]) == 1


def test_occurrences_of_schedules_are_counted_before_they_are_jobs(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.every("PT1H", name="hourly", queue="mail")
        cue.every("PT2H", name="held", queue="held")
        cue.pause("held")
    told = run("forecast", "--rate=100", "--hours=6.5", "--json", cwd=tmp_path).json
    assert sum(step["due"] for step in told["steps"]) == told["occurrences"] == 6
    assert told["paused"] == {"held": 3}
    assert told["occurrences_until"] is None
    out = run("forecast", "--rate=100", "--hours=6.5", cwd=tmp_path).out
    assert "Occurrences of schedules are included (6)" in out
    assert "Queue held is paused: 3 jobs left out." in out


def test_occurrences_that_are_too_many_are_cut(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.every(1, name="ticker")
    told = run("forecast", "--rate=100", "--json", cwd=tmp_path).json
    assert told["occurrences"] == MOST_OCCURRENCES
    assert told["begins_at"] < told["occurrences_until"] < told["ends_at"]
    assert any("too many to count" in sentence for sentence in told["sentences"])


def test_it_says_whether_anybody_hands_over(tmp_path: Path) -> None:
    add(tmp_path, 10, full_hour(1))
    nobody = "Neither 'oncue serve' nor work() runs now; this holds once somebody hands over jobs."
    assert nobody in run("forecast", "--rate=100", cwd=tmp_path).out
    with scheduler(tmp_path) as cue:
        cue.run_loops()
        wait_until(lambda: bool(cue.nodes()))
        told = run("forecast", "--rate=100", "--json", cwd=tmp_path).json
    assert told["running"]
    assert nobody not in told["sentences"]


def test_without_work_it_says_so(tmp_path: Path) -> None:
    with scheduler(tmp_path):
        pass
    ended = run("forecast", "--rate", "10", cwd=tmp_path)
    assert "nothing is noticeably late" in ended.out
    assert "Nothing is due until" in ended.out


def test_without_a_rate_it_is_measured_and_leaves_nothing_behind(tmp_path: Path) -> None:
    add(tmp_path, 10, full_hour(1))
    ended = run("forecast", cwd=tmp_path)
    assert ended.code == 0
    assert "was measured just now on this machine" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["oncue.db"]
    assert run("forecast", "--json", cwd=tmp_path).json["rate_origin"] == "measured"


def test_on_a_terminal_it_is_a_table_with_bars(tmp_path: Path) -> None:
    add(tmp_path, 500, full_hour(1))
    shown = see("forecast", "--rate=100", cwd=tmp_path)
    assert shown.code == 0
    assert "last is late" in shown.out


def test_a_missing_store_is_told(tmp_path: Path) -> None:
    ended = run("forecast", cwd=tmp_path)
    assert ended.code == 5
    assert "there is no such file" in ended.err
    assert list(tmp_path.iterdir()) == []
