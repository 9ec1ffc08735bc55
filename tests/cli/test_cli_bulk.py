"""`oncue jobs cancel`, `run`, `retry`, `move`, `reprioritise` by a filter."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import Terminal, run, scheduler

VERBS = {
    "cancel": ("cancel",),
    "run": ("run",),
    "retry": ("retry",),
    "move": ("move", "--to=letters"),
    "reprioritise": ("reprioritise", "--priority=9"),
}
verbs = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """30 jobs of queue mail, the first ten of them ada's; one of queue video that failed."""
    with scheduler(tmp_path) as cue:
        cue.schedule_many(
            {
                "id": f"m{n:02}",
                "queue": "mail",
                "delay": 600 + n,
                "owner": "ada" if n < 10 else "bob",
            }
            for n in range(30)
        )
        cue.schedule(queue="video", id="broken", max_attempts=1)
        [claimed] = cue.claim("video", "host:1")
        cue.fail("broken", cue.token(claimed), "bad file")
    return tmp_path


def states(place: Path, **wanted: Any) -> set[str]:
    with scheduler(place) as cue:
        return {str(job.state) for job in cue.jobs(**wanted)}


def test_a_dry_run_counts_and_shows_the_first(place: Path) -> None:
    ended = run("jobs", "cancel", "--queue", "mail", "--dry-run", cwd=place)
    assert ended.code == 0
    assert "m00" in ended.out
    assert "m19" in ended.out
    assert "m20" not in ended.out
    assert "… and 10 more jobs" in ended.out
    assert "30 jobs would be cancelled." in ended.out
    assert states(place, queue="mail") == {"scheduled"}


def test_filters_narrow_it_down_together(place: Path) -> None:
    ended = run("jobs", "cancel", "--queue", "mail", "--owner", "ada", "--yes", cwd=place)
    assert ended.out == "10 jobs cancelled.\n"
    assert states(place, owner="ada") == {"cancelled"}
    assert states(place, owner="bob") == {"scheduled"}


def test_every_verb_does_its_work(place: Path) -> None:
    for arguments, told in (
        (("reprioritise", "--priority=7", "--owner=ada"), "10 jobs given priority 7."),
        (("move", "--to=letters", "--owner=ada"), "10 jobs moved to letters."),
        (("run", "--queue=letters"), "10 jobs made due now."),
        (("retry", "--queue=video", "--state=failed"), "1 job made due again."),
        (("cancel", "--all"), "31 jobs cancelled."),
    ):
        assert run("jobs", *arguments, "--yes", cwd=place).out == f"{told}\n"
    with scheduler(place) as cue:
        job = cue.job("m00")
    assert (job.queue, job.priority, job.state) == ("letters", 7, "cancelled")


def test_reprioritise_takes_ids_too(place: Path) -> None:
    ended = run("jobs", "reprioritise", "--priority=3", "m00", "--json", cwd=place)
    assert [job["priority"] for job in ended.json["items"]] == [3]
    foreseen = run("jobs", "reprioritise", "--priority=3", "broken", "--dry-run", cwd=place)
    assert (
        foreseen.code == run("jobs", "reprioritise", "--priority=3", "broken", cwd=place).code == 4
    )


def test_the_answer_is_one_document_with_json(place: Path) -> None:
    told = run("jobs", "cancel", "--owner=ada", "--yes", "--json", cwd=place).json
    assert (told["dry_run"], told["matched"], told["changed"]) == (False, 10, 10)
    assert [job["id"] for job in told["sample"]] == [f"m{n:02}" for n in range(10)]
    assert told["next_cursor"] is None


def test_what_was_left_alone_is_told(place: Path) -> None:
    with scheduler(place) as cue:
        for queue in ("mail", "letters"):
            cue.schedule(queue=queue, key="weekly", delay=60)
    ended = run("jobs", "move", "--to=letters", "--key=weekly", "--yes", cwd=place)
    assert ended.out == "0 jobs moved to letters.\n"
    assert "1 job left alone: another unfinished job has the key." in ended.err
    assert "1 job left alone: as wanted already" in ended.err


@verbs
def test_nobody_changes_everything_by_oversight(place: Path, verb: tuple[str, ...]) -> None:
    ended = run("jobs", *verb, "--yes", cwd=place)
    assert ended.code == 2
    assert "--all means every job" in ended.err
    assert states(place, queue="mail") == {"scheduled"}


@verbs
def test_consent_is_needed_where_nobody_can_be_asked(place: Path, verb: tuple[str, ...]) -> None:
    ended = run("jobs", *verb, "--queue=mail", cwd=place)
    assert ended.code == 2
    assert "--yes" in ended.err
    assert "--dry-run" in ended.err


def test_jobs_are_named_by_ids_or_by_a_filter(place: Path) -> None:
    ended = run("jobs", "cancel", "m00", "--queue=mail", "--yes", cwd=place)
    assert ended.code == 2
    assert "not both" in ended.err
    assert states(place, queue="mail") == {"scheduled"}


@pytest.mark.parametrize(
    ("arguments", "place_named"),
    [
        (("cancel", "--state=failed"), "--state: "),
        (("run", "--queue=no such"), "--queue: "),
        (("run", "--due-before=never"), "--due-before: "),
        (("run", "--queue=mail", "--cursor=nonsense"), "--cursor: "),
        (("move", "--queue=mail", "--to=no such"), "--to: "),
        (("reprioritise", "--queue=mail", "--priority=10"), "--priority: "),
    ],
)
def test_what_is_wrong_is_named_as_it_was_typed(
    place: Path, arguments: tuple[str, ...], place_named: str
) -> None:
    ended = run("jobs", *arguments, "--yes", cwd=place)
    assert ended.code == 2
    assert f"Error: {place_named}" in ended.err


def test_nothing_that_fits_is_no_failure(place: Path) -> None:
    ended = run("jobs", "cancel", "--owner=nobody", "--yes", cwd=place)
    assert (ended.code, ended.out) == (0, "")
    assert "There are no such jobs." in ended.err


@pytest.mark.parametrize(
    ("answer", "code", "state"), [("y\n", 0, "cancelled"), ("\n", 1, "scheduled")]
)
def test_on_a_terminal_count_and_sample_come_before_the_question(
    place: Path, answer: str, code: int, state: str
) -> None:
    with Terminal("jobs", "cancel", "--queue=mail", cwd=place, lines=40) as terminal:
        shown = terminal.expect("Cancel 30 jobs? [y/N]")
        assert "m00" in shown
        assert "… and 10 more jobs" in shown
        terminal.type(answer)
        assert terminal.end() == code
    assert states(place, queue="mail") == {state}


def test_a_bar_shows_how_far_it_is_and_ctrl_c_tells_how_to_go_on(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        cue.schedule_many({"queue": "mail", "delay": 600} for _ in range(60_000))
    with Terminal("jobs", "cancel", "--queue=mail", "--yes", cwd=tmp_path, columns=200) as terminal:
        terminal.expect("█")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "jobs cancelled so far. Continue with:" in terminal.screen
    typed = shlex.split(terminal.screen.splitlines()[-1])
    assert typed[:5] == ["oncue", "jobs", "cancel", "--queue", "mail"]
    assert "scheduled" in states(tmp_path, queue="mail")
    assert run(*typed[1:], cwd=tmp_path).code == 0
    assert states(tmp_path, queue="mail") == {"cancelled"}
