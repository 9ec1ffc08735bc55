"""`oncue jobs show`, `explain`, `cancel`, `run`, `retry`: one job, or several by id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncue import Scheduler
from oncue.clock import FakeClock, SystemClock
from tests.cli.terminal import Terminal, put_off, run, scheduler, see


@pytest.fixture
def place(tmp_path: Path) -> Path:
    # Ten seconds ago, so that the drawing of the times does not depend on how long this takes.
    clock = FakeClock(SystemClock().now() - 10_000)
    with Scheduler(f"sqlite:///{tmp_path}/oncue.db", clock=clock) as cue:
        cue.schedule({"to": "ada"}, queue="mail", id="due", owner="ada")
        cue.schedule({"to": "bob"}, queue="mail", id="later", delay=7200, key="weekly")
        cue.schedule(queue="video", id="broken", max_attempts=2)
        cue.schedule(queue="video", id="busy")
        broken, busy = cue.claim("video", "host-a:1", limit=2)
        cue.fail("broken", cue.token(broken), "bad file", retry_after=0)
        [broken] = cue.claim("video", "host-b:2")
        cue.fail("broken", cue.token(broken), "bad file")
        token = cue.token(busy)
        cue.operation("busy", token, "download", "succeeded", result={"bytes": 1})
        cue.operation("busy", token, "encode", "executing", percent=25, message="frame 3")
    return tmp_path


# -- show and explain ----------------------------------------------------------------------------


def test_show_draws_attempts_operations_and_diagnostics(place: Path) -> None:
    shown = see("jobs", "show", "busy", cwd=place, columns=120).out
    assert "state     executing" in shown
    assert "under way  host-a:1" in shown
    assert "█" * 30 in shown
    assert "████████████████████ 100 %  succeeded" in shown
    assert "█████                 25 %  executing" in shown
    assert "frame 3" in shown
    shown = see("jobs", "show", "broken", cwd=place, columns=120).out
    assert "attempt   2 of 2" in shown
    assert "retried" in shown
    assert "Failed: no attempt is left. bad file" in shown


def test_show_tells_that_a_job_is_put_off(place: Path) -> None:
    with scheduler(place) as cue:
        put_off(cue, "audit", "stuck")
    shown = see("jobs", "show", "stuck", cwd=place, columns=120).out
    [told] = [line for line in shown.splitlines() if line.startswith("put off")]
    assert re.search(r"until 2.* \(in \d.*\), refused once$", told.rstrip())


def test_the_list_tells_that_a_job_is_put_off(place: Path) -> None:
    with scheduler(place) as cue:
        put_off(cue, "audit", "stuck")
    listed = run("jobs", "list", "--queue", "audit", cwd=place).out
    assert re.search(r"put off, again in \d.*: busy$", listed.rstrip())


def test_show_marks_an_attempt_that_does_not_count(tmp_path: Path) -> None:
    clock = FakeClock(SystemClock().now() - 100_000)
    with Scheduler(f"sqlite:///{tmp_path}/oncue.db", clock=clock) as cue:
        cue.schedule_many([{"queue": "video", "id": "a"}, {"queue": "video", "id": "b"}])
        cue.claim("video", "host-a:1", limit=2)
        clock.advance(61)
        cue.engine.reclaimer.step()
        cue.claim("video", "host-b:2")
    shown = see("jobs", "show", "a", cwd=tmp_path, columns=120).out
    assert "attempt   1 of 3 (1 more not counted)" in shown
    assert "reclaimed, not counted  host-a:1" in shown
    assert re.search(r"under way +host-b:2", shown)


def test_show_leaves_out_the_drawing_where_it_does_not_fit(place: Path) -> None:
    shown = see("jobs", "show", "busy", cwd=place, columns=80).out
    assert "under way  host-a:1" in shown
    assert "█" * 30 not in shown


def test_show_tells_everything_as_json(place: Path) -> None:
    job = run("jobs", "show", "broken", "--json", cwd=place).json
    assert [a["outcome"] for a in job["attempts"]] == ["retried", "failed"]
    assert [a["worker"] for a in job["attempts"]] == ["host-a:1", "host-b:2"]
    assert [d["code"] for d in job["diagnostics"]] == ["failure", "failure"]
    busy = run("jobs", "show", "busy", "--json", cwd=place).json
    assert [o["name"] for o in busy["operations"]] == ["download", "encode"]
    assert busy["operations"][0]["result"] == {"bytes": 1}


@pytest.mark.parametrize("command", ["show", "explain", "cancel", "run", "retry"])
def test_an_unknown_job_is_not_found(place: Path, command: str) -> None:
    ended = run("jobs", command, "nope", cwd=place)
    assert ended.code == 3
    assert "there is no job 'nope'" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("job_id", "reason"),
    [("later", "not_due"), ("broken", "failed"), ("busy", "executing")],
)
def test_explain_answers_in_a_sentence_and_a_code(place: Path, job_id: str, reason: str) -> None:
    told = run("jobs", "explain", job_id, "--json", cwd=place).json
    assert told["reason"] == reason
    assert set(told) == {"reason", "sentence", "facts"}
    assert run("jobs", "explain", job_id, cwd=place).out.startswith(told["sentence"][:12])


def test_explain_tells_people_their_local_time(place: Path) -> None:
    ended = run("jobs", "explain", "later", cwd=place, env={"TZ": "Asia/Tokyo"})
    assert "JST" in ended.out.splitlines()[0]


# -- cancel, run, retry --------------------------------------------------------------------------


def test_one_job_is_changed_without_a_question(place: Path) -> None:
    assert run("jobs", "cancel", "later", cwd=place).out == "later  cancelled\n"
    assert run("jobs", "retry", "broken", cwd=place).out.startswith("broken  scheduled")
    with scheduler(place) as cue:
        assert cue.job("later").state == "cancelled"
        assert cue.job("broken").state == "scheduled"


def test_run_makes_a_job_due_now(place: Path) -> None:
    [job] = run("jobs", "run", "later", "--json", cwd=place).json["items"]
    assert job["due_at"] == job["updated_at"]


def test_reschedule_gives_a_job_another_due_time(place: Path) -> None:
    told = run("jobs", "reschedule", "later", "--delay", "3h", cwd=place).out
    assert told.startswith("id     later\n")
    assert "(in 3 h" in told or "(in 2 h 59" in told
    at = ("--at", "2099-12-24T18:00:00Z")
    job = run("jobs", "reschedule", "due", *at, "--json", cwd=place).json
    assert (job["id"], job["due_at"], job["state"]) == (
        "due",
        "2099-12-24T18:00:00.000Z",
        "scheduled",
    )
    refused = run("jobs", "reschedule", "broken", *at, cwd=place)
    assert (refused.code, "it has failed" in refused.err) == (4, True)
    assert run("jobs", "reschedule", "nope", *at, cwd=place).code == 3


@pytest.mark.parametrize("when", [(), ("--delay", "1h", "--at", "2099-12-24T18:00:00Z")])
def test_reschedule_needs_one_due_time(place: Path, when: tuple[str, ...]) -> None:
    refused = run("jobs", "reschedule", "later", *when, cwd=place)
    assert (refused.code, "either --at or --delay" in refused.err) == (2, True)


def test_what_the_state_forbids_is_a_conflict_with_a_way_on(place: Path) -> None:
    ended = run("jobs", "cancel", "busy", cwd=place)
    assert ended.code == 4
    assert "it is executing. With --running its worker is asked to stop." in ended.err
    assert run("jobs", "run", "busy", cwd=place).code == 4
    assert run("jobs", "retry", "due", cwd=place).code == 4


def test_a_running_job_is_asked_to_stop(place: Path) -> None:
    ended = run("jobs", "cancel", "--running", "busy", cwd=place)
    assert ended.code == 0
    assert "asked to stop" in ended.out
    assert run("jobs", "explain", "busy", "--json", cwd=place).json["reason"] == "cancel_requested"


def test_several_jobs_need_consent(place: Path) -> None:
    ended = run("jobs", "cancel", "due", "later", cwd=place)
    assert ended.code == 2
    assert "2 jobs are named" in ended.err
    assert "--yes" in ended.err
    with scheduler(place) as cue:
        assert cue.job("due").state == "scheduled"
    assert run("jobs", "cancel", "due", "later", "--yes", cwd=place).code == 0


@pytest.mark.parametrize(
    ("answer", "code", "state"), [("y\n", 0, "cancelled"), ("\n", 1, "scheduled")]
)
def test_on_a_terminal_the_question_is_asked(
    place: Path, answer: str, code: int, state: str
) -> None:
    with Terminal("jobs", "cancel", "due", "later", cwd=place) as terminal:
        terminal.expect("Cancel 2 jobs? [y/N]")
        terminal.type(answer)
        assert terminal.end() == code
    with scheduler(place) as cue:
        assert cue.job("later").state == state


def test_ctrl_c_at_the_question_changes_nothing(place: Path) -> None:
    with Terminal("jobs", "cancel", "due", "later", cwd=place) as terminal:
        terminal.expect("[y/N]")
        terminal.interrupt_waiting()
        assert terminal.end() == 130
    with scheduler(place) as cue:
        assert cue.job("due").state == "scheduled"


def test_one_refusal_does_not_stop_the_others(place: Path) -> None:
    ended = run("jobs", "cancel", "busy", "nope", "due", "--yes", "--json", cwd=place)
    assert ended.code == 4
    assert [job["id"] for job in ended.json["items"]] == ["due"]
    assert [refused["id"] for refused in ended.json["refused"]] == ["busy", "nope"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["cancel", "due"], "would be cancelled"),
        (["cancel", "--running", "busy"], "would ask worker host-a:1 to stop"),
        (["run", "later"], "would be due now"),
        (["retry", "broken"], "would be due again now"),
    ],
)
def test_a_dry_run_tells_and_changes_nothing(place: Path, command: list[str], told: str) -> None:
    with scheduler(place) as cue:
        before = list(cue.jobs())
    ended = run("jobs", *command, "--dry-run", cwd=place)
    assert ended.code == 0
    assert told in ended.out
    with scheduler(place) as cue:
        assert list(cue.jobs()) == before


def test_a_dry_run_foresees_refusals(place: Path) -> None:
    run("jobs", "cancel", "later", cwd=place)
    run("jobs", "add", "1", "--queue", "mail", "--key", "weekly", "--id", "new", cwd=place)
    for job_id in ("due", "later"):
        foreseen = run("jobs", "retry", job_id, "--dry-run", cwd=place)
        assert foreseen.code == run("jobs", "retry", job_id, cwd=place).code == 4
    assert "job new has its key 'weekly'" in run("jobs", "retry", "-n", "later", cwd=place).err
