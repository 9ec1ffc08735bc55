"""`oncue queues`: what people see of queues, and how they change them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.terminal import run, scheduler, see, shell

CRON = {"type": "TIME_BASED", "resourceId": "cron", "lifeDuration": 0}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.set_queue("audit", sink="log:")
        cue.schedule_many([{"queue": "mail"}, {"queue": "mail", "delay": 60}])
        cue.schedule(queue="video", id="v")
        cue.claim("video", "w")
    return tmp_path


def test_list_counts_the_jobs_of_every_queue(place: Path) -> None:
    ended = run("queues", "list", cwd=place)
    head, audit, mail, video = ended.out.splitlines()
    assert head.split()[:4] == ["queue", "scheduled", "dispatched", "executing"]
    assert audit.split()[:2] == ["audit", "0"]
    assert "log:, 3 attempts" in audit
    assert mail.split()[:3] == ["mail", "2", "0"]
    assert video.split()[:3] == ["video", "0", "1"]
    assert "pulled, 3 attempts, lease 60 s, kept 7 d" in video


def test_list_as_json(place: Path) -> None:
    items = {
        item["name"]: item for item in run("queues", "list", "--json", cwd=place).json["items"]
    }
    assert items["mail"]["counts"]["scheduled"] == 2
    assert items["mail"]["oldest_due_at"]
    assert items["audit"]["oldest_due_at"] is None
    assert items["audit"]["completion"] == "delivery"
    assert items["video"]["counts"]["dispatched"] == 1


def test_a_narrow_terminal_gets_counts_without_settings(place: Path) -> None:
    shown = see("queues", "list", cwd=place, columns=80).out
    assert len(shown.splitlines()) == 4
    assert "settings" not in shown


def test_show_tells_settings_and_counts(place: Path) -> None:
    ended = run("queues", "show", "audit", cwd=place)
    assert "sink          log:" in ended.out
    assert "retry         after 1 s, then × 2, at most 100 s" in ended.out
    assert run("queues", "show", "audit", "--json", cwd=place).json["sink"] == "log:"


def test_an_unknown_queue_is_answered_with_the_nearest(place: Path) -> None:
    ended = run("queues", "show", "mial", cwd=place)
    assert ended.code == 3
    assert "there is no queue 'mial'" in ended.err
    assert "Did you mean 'mail'?" in ended.err


def test_set_tells_what_changes_and_replaces_everything(place: Path) -> None:
    ended = run("queues", "set", "mail", "--max-attempts", "5", "--lease", "2m", cwd=place)
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines == [
        ["setting", "from", "to"],
        ["max", "attempts", "3", "5"],
        ["lease", "60", "s", "2", "min"],
    ]
    ended = run("queues", "set", "mail", "--retention", "none", "--timeout", "1h", cwd=place)
    assert re.search(r"retention +7 d +for ever", ended.out)
    assert re.search(r"mail .* kept for ever\n", run("queues", "list", cwd=place).out)
    queue = run("queues", "show", "mail", "--json", cwd=place).json
    assert (queue["max_attempts"], queue["lease_seconds"]) == (3, 60)
    assert (queue["retention_seconds"], queue["timeout_seconds"]) == (None, 3600)
    again = run("queues", "set", "mail", "--retention", "none", "--timeout", "1h", cwd=place)
    assert (again.code, again.out) == (0, "")
    assert "nothing changes" in again.err


def test_set_takes_every_setting(place: Path) -> None:
    options = ["--sink", "log:", "--completion", "worker", "--max-attempts", "7"]
    options += ["--retry-initial", "5s", "--retry-factor", "3", "--retry-max", "10m"]
    options += ["--lease", "30", "--timeout", "1h", "--retention", "PT1H"]
    options += ["--rate", "2.5", "--concurrency", "4", "--poison-after", "0"]
    changed = run("queues", "set", "new", *options, "--json", cwd=place).json
    assert changed["retry"] == {"initial_seconds": 5, "factor": 3, "max_seconds": 600}
    assert changed["changed"]["sink"] == {"from": None, "to": "log:"}
    queue = run("queues", "show", "new", "--json", cwd=place).json
    assert (queue["sink"], queue["completion"], queue["max_attempts"]) == ("log:", "worker", 7)
    assert (queue["lease_seconds"], queue["retention_seconds"]) == (30, 3600)
    assert (queue["rate_per_second"], queue["concurrency"]) == (2.5, 4)
    assert queue["poison_after"] == 0
    shown = run("queues", "show", "new", cwd=place).out
    assert "poison after  never" in shown


def test_limits_are_shown_where_settings_are(place: Path) -> None:
    ended = run("queues", "set", "mail", "--rate", "1500", "--concurrency", "20", cwd=place)
    lines = [line.split(maxsplit=2) for line in ended.out.splitlines()]
    assert lines[1:] == [
        ["rate", "any", "1,500 a second"],
        ["concurrency", "any", "20 at once"],
    ]
    assert "rate          1,500 a second" in run("queues", "show", "mail", cwd=place).out
    listed = run("queues", "list", cwd=place).out
    assert "lease 60 s, 1,500 a second, 20 at once, kept 7 d" in listed
    assert "concurrency   any" in run("queues", "show", "audit", cwd=place).out


def test_a_dry_run_changes_nothing(place: Path) -> None:
    ended = run("queues", "set", "audit", "--max-attempts", "5", "--dry-run", cwd=place)
    assert "log:" in ended.out
    assert "Nothing was changed" in ended.err
    assert run("queues", "show", "audit", "--json", cwd=place).json["sink"] == "log:"


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--sink", "memory:x"], "--sink: memory sinks are for tests"),
        (["--sink", "redis:x"], "--sink: there is no sink for 'redis:x'"),
        (["--completion", "delivery"], "--completion: 'delivery' needs a sink"),
        (["--retry-max", "-1"], "--retry-max"),
        (["--retry-factor", "0.5"], "--retry-factor: must be a finite number, at least 1"),
        (["--lease", "0"], "--lease: must be a finite number"),
        (["--rate", "0"], "--rate: must be a number above 0, at most 1,000,000"),
        (["--poison-after", "101"], "--poison-after: must be a whole number from 0 to 100; 0 for"),
        (["--concurrency", "0"], "--concurrency: must be a whole number from 1 to 100,000"),
        (["--lease", "none"], "--lease: 'none' is not a length of time"),
        (["--retention", "eternity"], "such as PT15M, or forever."),
    ],
)
def test_wrong_settings_are_refused(
    place: Path, options: list[str], told: str, dry_run: list[str]
) -> None:
    ended = run("queues", "set", "mail", *options, *dry_run, cwd=place)
    assert ended.code == 2
    assert told in ended.err


@pytest.mark.parametrize("typed", ["none", "forever", "for ever", "For Ever"])
def test_a_length_without_end_may_be_typed_as_it_is_shown(place: Path, typed: str) -> None:
    run("queues", "set", "mail", "--timeout", "1h", cwd=place)
    ended = run("queues", "set", "mail", "--retention", typed, "--timeout", typed, cwd=place)
    assert (ended.code, ended.err) == (0, "")
    assert re.search("retention +7 d +for ever", ended.out)
    assert re.search("timeout +60 min +none", ended.out)


def test_a_wrong_name_is_refused(place: Path) -> None:
    for command in ("show", "set", "pause", "resume"):
        ended = run("queues", command, "a b", cwd=place)
        assert ended.code == 2
        assert "NAME: a queue name is" in ended.err


def test_pause_and_resume(place: Path) -> None:
    assert run("queues", "pause", "mail", cwd=place).out == (
        "Queue mail is paused; scheduled jobs: 2.\n"
    )
    assert "paused, pulled" in run("queues", "list", cwd=place).out
    assert run("queues", "show", "mail", "--json", cwd=place).json["paused"] is True
    assert run("queues", "resume", "mail", "--json", cwd=place).json == {
        "name": "mail",
        "paused": False,
    }


def test_several_queues_are_resumed_at_once(place: Path) -> None:
    for name in ("mail", "audit"):
        run("queues", "pause", name, cwd=place)
    told = run("queues", "resume", "mail", "audit", cwd=place).out
    assert "Queue mail is no longer paused; scheduled jobs: 2.\nQueue audit is no longer" in told
    assert "paused," not in run("queues", "list", cwd=place).out
    assert run("queues", "resume", "mail", "audit", "--json", cwd=place).json == {
        "items": [{"name": "mail", "paused": False}, {"name": "audit", "paused": False}]
    }


def test_resuming_a_queue_that_nobody_knows_changes_nothing(place: Path) -> None:
    run("queues", "pause", "mail", cwd=place)
    ended = run("queues", "resume", "mail", "mial", cwd=place)
    assert (ended.code, ended.out) == (3, "")
    assert "there is no queue 'mial'" in ended.err
    assert "Did you mean 'mail'?" in ended.err
    found = run("queues", "list", "--json", cwd=place).json["items"]
    assert "mial" not in [queue["name"] for queue in found]
    assert run("queues", "show", "mail", "--json", cwd=place).json["paused"] is True


def test_pausing_a_queue_that_nobody_knows_is_told(place: Path) -> None:
    ended = run("queues", "pause", "mial", cwd=place)
    assert ended.code == 0
    assert "There was no queue of this name" in ended.err
    assert "Did you mean 'mail'?" in ended.err


def test_a_closed_pipe_is_no_failure(place: Path) -> None:
    ended = shell("oncue queues list | head -1", cwd=place)
    assert (ended.code, ended.err) == (0, "")


def test_no_queues_yet(tmp_path: Path) -> None:
    with scheduler(tmp_path):
        pass
    ended = run("queues", "list", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "")
    assert "There are no queues yet" in ended.err


def test_deleting_a_queue_asks_first(place: Path) -> None:
    arguments = ("queues", "delete", "audit")
    kept = see(*arguments, cwd=place, keys="n\n")
    assert (kept.code, "Nothing was changed." in kept.out) == (1, True)
    ended = run(*arguments, cwd=place)
    assert ended.code == 2
    assert "add --yes" in ended.err
    assert see(*arguments, cwd=place, keys="y\n").code == 0
    with scheduler(place) as cue:
        assert [queue.name for queue in cue.queues()] == ["mail", "video"]


def test_nobody_is_asked_about_a_deletion_that_would_be_refused(place: Path) -> None:
    with scheduler(place) as cue:
        cue.set_queue("nightly")
        cue.put_schedule("audit", cron="0 3 * * *", queue="nightly")
        cue.set_queue("fired")
        cue.put_rule("invoice", [CRON], queue="fired")
        cue.put_rule("letter", [CRON], queue="letters")  # which holds no job yet
    for name, why in (
        ("letters", "rule 'letter'"),
        ("mail", "unfinished jobs"),
        ("nightly", "schedule 'audit'"),
        ("fired", "rule 'invoice'"),
        ("default", "built in"),
    ):
        refused = see("queues", "delete", name, cwd=place)
        assert (refused.code, why in refused.out, "[y/N]" in refused.out) == (4, True, False)


@pytest.mark.parametrize("name", ["default", "tasks"])
def test_a_queue_that_is_built_in_is_refused_as_such(place: Path, name: str) -> None:
    refused = run("queues", "delete", name, "--yes", cwd=place)
    assert (refused.code, f"queue {name} is built in" in refused.err) == (4, True)


def test_setting_an_unknown_queue_with_defaults_says_that_it_was_made(place: Path) -> None:
    foreseen = run("queues", "set", "new", "--dry-run", cwd=place)
    assert "it would be made with default settings" in foreseen.err
    made = run("queues", "set", "new", cwd=place)
    assert "Queue new was not there before; it was made with default settings." in made.err
    again = run("queues", "set", "new", cwd=place)
    assert "has these settings already" in again.err


def test_a_number_with_a_fraction_is_refused_with_the_bounds(place: Path) -> None:
    ended = run("queues", "set", "mail", "--poison-after", "1.5", cwd=place)
    assert ended.code == 2
    assert "--poison-after: must be a whole number from 0 to 100; 0 for never." in ended.err


def test_one_finished_job_is_told_as_one(place: Path) -> None:
    with scheduler(place) as cue:
        cue.cancel(cue.schedule(queue="lone").id)
    ended = run("queues", "delete", "lone", "--yes", cwd=place)
    assert ended.out == "Deleted queue lone with 1 finished job.\n"


def test_a_queue_is_deleted_without_being_asked_unless_it_is_in_use(place: Path) -> None:
    refused = run("queues", "delete", "mail", "--yes", cwd=place)
    assert (refused.code, "unfinished jobs" in refused.err) == (4, True)
    with scheduler(place) as cue:
        cue.cancel_all(queue="mail")
    ended = run("queues", "delete", "mail", "--yes", cwd=place)
    assert ended.out == "Deleted queue mail with 2 finished jobs.\n"
    unknown = run("queues", "delete", "mial", "--yes", "--json", cwd=place)
    assert (unknown.code, "there is no queue" in unknown.err) == (3, True)
    told = run("queues", "delete", "audit", "--yes", "--json", cwd=place)
    assert told.json == {"name": "audit", "deleted": True}
