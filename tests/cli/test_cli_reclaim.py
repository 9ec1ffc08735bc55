"""`oncue reclaim`: what it would do, what it did, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncue import State
from tests.cli.terminal import Terminal, run, scheduler, see
from tests.http.server import running_server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Three claims of workers that will not be heard of again."""
    with scheduler(tmp_path) as cue:
        cue.schedule({"secret": "hush"}, queue="video", id="first")
        cue.schedule(queue="video", id="last", max_attempts=1)
        cue.schedule(queue="video", id="unwanted")
        for _ in range(3):
            cue.claim("video", "host-a:1", lease_seconds=86_400)
        cue.cancel("unwanted", running=True)
    return tmp_path


def states(place: Path) -> dict[str, State]:
    with scheduler(place) as cue:
        return {job.id: job.state for job in cue.jobs(queue="video")}


def test_a_dry_run_shows_what_would_happen_and_why_and_changes_nothing(place: Path) -> None:
    shown = see("reclaim", "--dry-run", cwd=place, columns=140).out
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "would" in lines["id"]
    assert " retry " in lines["first"]
    assert " fail " in lines["last"]
    assert " cancel " in lines["unwanted"]
    assert "host-a:1" in lines["first"]
    assert "Nothing was heard" in lines["first"]
    assert "3 claims seen, 3 would be reclaimed." in shown
    assert set(states(place).values()) == {"dispatched"}


def test_it_takes_back_what_is_silent_and_says_so(place: Path) -> None:
    ended = run("reclaim", "--yes", cwd=place)
    assert ended.code == 0
    assert ended.out == ("3 claims seen, 3 reclaimed (1 to be retried, 1 failed, 1 cancelled).\n")
    notes = ended.err.splitlines()
    assert [note.split(":")[0] for note in notes] == ["Warning", "Warning"]
    assert "reclaimAgeMinutes is 0" in notes[0]
    assert states(place) == {"first": "scheduled", "last": "failed", "unwanted": "cancelled"}


def test_the_log_names_each_job_if_it_is_wanted_and_never_its_payload(place: Path) -> None:
    ended = run("reclaim", "--yes", "--mode", "fail", cwd=place, env={"ONCUE_LOG_LEVEL": "WARNING"})
    for job_id in ("first", "last", "unwanted"):
        assert f"job {job_id} (queue video, attempt 1, worker host-a:1)" in ended.err
    assert "hush" not in ended.err


def test_what_is_not_old_enough_is_left_alone(place: Path) -> None:
    ended = run("reclaim", "--reclaim-age-minutes", "30", cwd=place)
    assert ended.out == "0 claims seen, 0 reclaimed (0 to be retried, 0 failed, 0 cancelled).\n"
    assert ended.err == ""


def test_all_of_it_as_json(place: Path) -> None:
    told = run("reclaim", "--log-reclaim-only", "--json", cwd=place).json
    assert (told["scanned"], told["reclaimed"], told["wouldReclaimCount"]) == (3, 0, 3)
    assert {one["id"]: one["decision"] for one in told["wouldReclaim"]} == {
        "first": "retry",
        "last": "fail",
        "unwanted": "cancel",
    }
    told = run("reclaim", "--yes", "--mode", "fail", "--json", cwd=place).json
    assert (told["failed"], told["cancelled"], told["endedBy"]) == (2, 1, "end")


def test_no_time_means_a_look_and_a_hint(place: Path) -> None:
    shown = run("reclaim", "-y", "--maximum-execution-seconds", "0", cwd=place).out
    assert shown.startswith("3 claims seen, 0 reclaimed")
    assert shown.endswith("The time was over; run it again for the rest.\n")


@pytest.mark.parametrize(
    "option",
    ["--table-name", "--id-field-name", "--time-field-name", "--agenda-progress-endpoint-url"],
)
def test_what_is_about_tables_of_others_is_refused(place: Path, option: str) -> None:
    ended = run("reclaim", "--yes", option, "x", cwd=place)
    assert (ended.code, ended.out) == (2, "")
    assert f"{option} is for tables of other systems" in ended.err
    assert "oncue aws invoke reclaim" in ended.err
    assert set(states(place).values()) == {"dispatched"}


def test_it_asks_for_an_age_or_yes(place: Path) -> None:
    ended = run("reclaim", cwd=place)
    assert (ended.code, ended.out) == (2, "")
    assert "Add --reclaim-age-minutes N; or --yes" in ended.err
    declined = see("reclaim", cwd=place, keys="n\n", columns=200)
    assert declined.code == 1
    assert "Nothing was changed." in declined.out
    assert set(states(place).values()) == {"dispatched"}
    agreed = see("reclaim", cwd=place, keys="y\n", columns=200)
    assert agreed.out.endswith("1 failed, 1 cancelled).")
    assert run("reclaim", "--reclaim-age-minutes", "0", cwd=place).code == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--maximum-execution-seconds", "-1"),
        ("--reclaim-age-minutes", "nan"),
        ("--object-scan-limit", "0"),
        ("--target-batch-size", "many"),
        ("--mode", "destroy"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(place: Path, option: str, value: str) -> None:
    ended = run("reclaim", option, value, cwd=place)
    assert ended.code == 2
    assert option in ended.err
    assert set(states(place).values()) == {"dispatched"}


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert run("reclaim", "--yes", cwd=tmp_path).code == 5
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_a_bar_shows_how_far_it_is_and_ctrl_c_ends_a_pause(place: Path) -> None:
    slowly = ("--yes", "--object-scan-limit", "1", "--target-batch-size", "1")
    with Terminal("reclaim", *slowly, "--scan-delay-millis", "60000", cwd=place) as terminal:
        terminal.expect("Reclaiming")
        terminal.expect("33%")
        terminal.expect("1 claim seen, 1 decided")
        terminal.type("\x03")
        assert terminal.end() == 130


def test_a_server_does_it_for_those_elsewhere(tmp_path: Path) -> None:
    with running_server(tmp_path, "--no-engine") as server:
        server.post("/jobs", {"queue": "video", "id": "far"})
        server.post("/queues/video/claim")
        told = run("reclaim", "--url", server.url, "--dry-run", "--json", cwd=tmp_path).json
        assert [one["id"] for one in told["wouldReclaim"]] == ["far"]
        done = run("reclaim", "--url", server.url, "--yes", cwd=tmp_path)
        assert done.out.startswith("1 claim seen, 1 reclaimed (1 to be retried")
