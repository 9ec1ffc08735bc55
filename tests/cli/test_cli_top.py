"""`oncue top`: the live screen, and the snapshot where there is none."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from oncue.cli.top import Rates, look
from oncue.clock import FakeClock
from oncue.scheduler import Scheduler
from oncue.stores.memory import MemoryStore
from tests.cli.terminal import Terminal, run, scheduler, see, shell


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.schedule_many({"queue": "mail", "delay": 90 + n * 20} for n in range(100))
        cue.schedule(queue="video", id="v")
        cue.pause("video")
    return tmp_path


def test_without_a_terminal_it_prints_once_and_ends(place: Path) -> None:
    ended = run("top", cwd=place)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "video (paused)" in ended.out
    assert "Next 60 minutes: 100 jobs due, at most 3 a minute" in ended.out


def test_one_snapshot_as_json(place: Path) -> None:
    seen = run("top", "--json", cwd=place).json
    assert seen["store"] == "sqlite:///oncue.db"
    video, mail = seen["queues"]
    assert (video["name"], video["paused"]) == ("video", True)
    assert video["oldest_due_at"]
    assert mail["counts"]["scheduled"] == 100
    assert len(mail["load"]) == 60
    assert sum(minute["due"] for minute in mail["load"]) == 100


def test_a_dumb_terminal_gets_the_snapshot(place: Path) -> None:
    with Terminal("top", cwd=place, env={"TERM": "dumb"}) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.output


def test_the_screen_follows_and_q_gives_the_terminal_back(place: Path) -> None:
    with Terminal("top", "--interval", "0.2", cwd=place, columns=140) as terminal:
        shown = terminal.expect("Next 60 minutes")
        assert "q quits" in shown
        assert "█" in shown
        run("jobs", "add", "1", "--queue", "newcomer", cwd=place)
        terminal.expect("newcomer")
        assert terminal.attributes != terminal.attributes_before
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.screen == ""
        assert "\x1b[?25h" in terminal.output
        assert terminal.attributes == terminal.attributes_before


@pytest.mark.parametrize(("ending", "code"), [("key", 0), (signal.SIGTERM, 143)])
def test_however_it_ends_the_terminal_is_given_back(
    place: Path, ending: signal.Signals | str, code: int
) -> None:
    with Terminal("top", cwd=place) as terminal:
        terminal.expect("Next 60 minutes")
        if isinstance(ending, signal.Signals):
            terminal.process.send_signal(ending)
        else:
            terminal.interrupt()
        assert terminal.end() == code
        assert terminal.screen == ""
        assert terminal.attributes == terminal.attributes_before


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(place: Path) -> None:
    with Terminal("top", cwd=place, child=True) as terminal:
        terminal.expect("Next 60 minutes")
        terminal.process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(terminal.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert terminal.attributes == terminal.attributes_before
        terminal.process.send_signal(signal.SIGCONT)
        terminal.expect("Next 60 minutes")
        terminal.type("q")
        assert terminal.end() == 0


@pytest.mark.parametrize("columns", [40, 60, 80, 110, 160])
def test_it_fits_every_width(place: Path, columns: int) -> None:
    with Terminal("top", cwd=place, columns=columns, lines=12) as terminal:
        shown = terminal.expect("Next 60 minutes")
        assert "mail" in shown
        assert len(shown.splitlines()) == 7
        terminal.type("q")
        terminal.end()


def test_more_queues_than_lines_are_counted(tmp_path: Path) -> None:
    with scheduler(tmp_path) as cue:
        for number in range(20):
            cue.schedule(queue=f"queue-{number}")
    with Terminal("top", cwd=tmp_path, lines=12) as terminal:
        shown = terminal.expect("Next 60 minutes")
        assert "… and 15 more queues" in shown
        terminal.type("q")
        terminal.end()


@pytest.mark.parametrize("arguments", [["top"], ["jobs", "list", "--watch"]])
def test_the_screen_is_not_taken_to_say_that_there_is_no_store(
    tmp_path: Path, arguments: list[str]
) -> None:
    ended = see(*arguments, cwd=tmp_path)
    assert ended.code == 5
    assert ended.out.startswith("Error: ")


def test_nothing_there_yet(tmp_path: Path) -> None:
    assert run("top", cwd=tmp_path).code == 5
    with scheduler(tmp_path):
        pass
    assert "There are no queues yet" in run("top", cwd=tmp_path).out


def test_wrong_arguments(place: Path) -> None:
    for arguments in (["--interval", "0"], ["--interval", "x"], ["mail"]):
        assert run("top", *arguments, cwd=place).code == 2


def test_a_closed_pipe_is_no_failure(place: Path) -> None:
    ended = shell("oncue top | true", cwd=place)
    assert (ended.code, ended.err) == (0, "")


def test_rates_come_from_two_looks() -> None:
    clock = FakeClock()
    cue = Scheduler(MemoryStore(clock), clock=clock)
    cue.schedule_many({"queue": "mail"} for _ in range(10))
    rates = Rates()
    rates.update(look(cue))
    assert rates.done == {}
    for claimed in cue.claim("mail", "w", limit=6)[:4]:
        cue.complete(claimed.id, cue.token(claimed))
    clock.advance(2)
    rates.update(look(cue))
    assert (rates.taken["mail"], rates.done["mail"]) == (3, 2)
