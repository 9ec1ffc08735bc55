"""`oncue jobs load`: many jobs, good and bad, once and again."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from oncue.cli import load
from tests.cli.terminal import (
    PATIENCE_SECONDS,
    Terminal,
    environment,
    run,
    scheduler,
    shell,
)
from tests.program import Program

GOOD = {"queue": "bulk", "delay": 60, "payload": {"to": "ada"}}


def write(path: Path, *lines: object) -> None:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts))


def ids(place: Path) -> list[str]:
    with scheduler(place) as cue:
        return [job.id for job in cue.jobs()]


def test_every_line_becomes_a_job(tmp_path: Path) -> None:
    write(
        tmp_path / "jobs.ndjson",
        GOOD,
        {"queue": "bulk", "due_at": "2050-01-01T00:00:00Z", "owner": "ada", "priority": 3},
        {"queue": "bulk", "at": "2050-01-02T00:00:00Z", "id": "mine", "key": None},
    )
    ended = run("jobs", "load", "jobs.ndjson", cwd=tmp_path)
    assert (ended.code, ended.out) == (
        0,
        "3 stored, 0 there already, 0 rejected (batch jobs.ndjson)\n",
    )
    with scheduler(tmp_path) as cue:
        first, second, third = cue.jobs(queue="bulk")
    assert first.payload == {"to": "ada"}
    assert (second.owner, second.priority, second.due_at.year) == ("ada", 3, 2050)
    assert third.id == "mine"


def test_repeating_it_stores_only_what_is_missing(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", GOOD, "{bad", GOOD)
    first = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert first.code == 1
    assert (first.json["accepted"], first.json["existing"]) == (2, 0)
    before = ids(tmp_path)
    write(tmp_path / "jobs.ndjson", GOOD, GOOD, GOOD, GOOD)
    again = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert again.code == 0
    assert again.json == {
        "batch": "jobs.ndjson",
        "accepted": 4,
        "existing": 2,
        "key_held": 0,
        "rejected_count": 0,
        "rejected": [],
    }
    assert set(before) < set(ids(tmp_path))
    assert len(ids(tmp_path)) == 4


def test_another_batch_stores_the_same_lines_again(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", GOOD)
    for batch in ("monday", "tuesday", "tuesday"):
        run("jobs", "load", "jobs.ndjson", "--batch", batch, cwd=tmp_path)
    assert len(ids(tmp_path)) == 2


def test_a_line_that_was_another_one_before_is_rejected(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", GOOD)
    run("jobs", "load", "jobs.ndjson", cwd=tmp_path)
    write(tmp_path / "jobs.ndjson", {"queue": "other"})
    ended = run("jobs", "load", "jobs.ndjson", cwd=tmp_path)
    assert ended.code == 1
    assert "line 1: " in ended.err
    assert "another --batch" in ended.err


def test_bad_lines_are_named_and_do_not_stop_the_good_ones(tmp_path: Path) -> None:
    bad = ["{bad", "[]", '{"queue": "a b"}', '{"prio": 1}', '{"at": "x"}', '"\udcff"']
    bad += ['{"at": "2050-01-01T00:00:00Z", "due_at": "2050-01-01T00:00:00Z"}', '{"priority": 10}']
    lines = [json.dumps(GOOD), *bad, "", json.dumps(GOOD)]
    (tmp_path / "jobs.ndjson").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    ended = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert ended.code == 1
    assert (ended.json["accepted"], ended.json["rejected_count"]) == (2, 8)
    assert [bad["line"] for bad in ended.json["rejected"]] == list(range(2, 10))
    assert "line 5: /prio: there is no such field" in ended.err


def test_only_the_first_bad_lines_are_shown(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", *["{bad"] * 50)
    ended = run("jobs", "load", "jobs.ndjson", cwd=tmp_path)
    assert ended.err.count("is not JSON") == 20
    assert "… and 30 more rejected lines" in ended.err
    assert "50 rejected" in ended.out


def test_a_line_too_long_is_rejected_without_being_read_whole(tmp_path: Path) -> None:
    huge = "x" * (3 * load.LINE_BYTES)
    write(tmp_path / "jobs.ndjson", GOOD, f'{{"payload": "{huge}"}}', GOOD)
    ended = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert ended.json["accepted"] == 2
    assert [bad["line"] for bad in ended.json["rejected"]] == [2]


def test_a_payload_too_large_is_rejected_alone(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", {"payload": "x" * 300_000}, GOOD)
    ended = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert (ended.json["accepted"], ended.json["rejected_count"]) == (1, 1)
    assert "at most 262,144 are allowed" in ended.err


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "jobs.ndjson").write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert run("jobs", "load", "jobs.ndjson", cwd=tmp_path).code == 0


def test_keys_are_kept_once(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", {**GOOD, "key": "k"}, {**GOOD, "key": "k"})
    ended = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert (ended.json["accepted"], ended.json["existing"]) == (2, 1)
    assert len(ids(tmp_path)) == 1


def test_lines_may_be_piped_in(tmp_path: Path) -> None:
    line = json.dumps(GOOD)
    ended = run("jobs", "load", "-", "--batch", "b", cwd=tmp_path, stdin=f"{line}\n{line}\n")
    assert ended.out == "2 stored, 0 there already, 0 rejected (batch b)\n"
    run("jobs", "load", "-", cwd=tmp_path, stdin=line)
    run("jobs", "load", "-", cwd=tmp_path, stdin=line)
    assert len(ids(tmp_path)) == 4


def test_more_than_a_chunk(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", *[GOOD] * (2 * load.CHUNK_JOBS + 1))
    summary = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path).json
    assert summary["accepted"] == 2 * load.CHUNK_JOBS + 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ended = run("jobs", "load", "nope.ndjson", cwd=tmp_path)
    assert ended.code == 2
    assert "nope.ndjson" in ended.err
    assert run("jobs", "load", cwd=tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


def test_progress_is_drawn_on_a_terminal_and_wiped(tmp_path: Path) -> None:
    write(tmp_path / "jobs.ndjson", *[GOOD] * load.CHUNK_JOBS)
    with Terminal("jobs", "load", "jobs.ndjson", cwd=tmp_path) as terminal:
        assert terminal.end() == 0
        assert "█" in terminal.output
        assert terminal.screen.splitlines()[-1].startswith("2,000 stored")
        assert "█" not in terminal.screen


def test_an_interrupted_load_says_what_is_stored_and_can_be_repeated(tmp_path: Path) -> None:
    # The pipe stays open, so that the program is still reading when the signal comes.
    with Program(
        *("jobs", "load", "-", "--batch", "b"),
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        lines = f"{json.dumps(GOOD)}\n" * load.CHUNK_JOBS
        process.stdin.write(lines)
        # Empty lines, more than a pipe holds: once they are written, the program has begun to read
        # them, so the jobs before them are stored and counted.
        process.stdin.write(f"{' ' * 1000}\n" * 1000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
        told = process.stderr.read()
    assert "Stopped; 2,000 jobs are stored. Continue with: oncue jobs load - --batch b\n" in told
    again = run("jobs", "load", "-", "--batch", "b", "--json", cwd=tmp_path, stdin=lines * 2).json
    assert (again["accepted"], again["existing"]) == (4000, 2000)


@pytest.mark.parametrize("options", ["", "--json"])
def test_a_closed_pipe_is_no_failure(tmp_path: Path, options: str) -> None:
    write(tmp_path / "jobs.ndjson", GOOD)
    ended = shell(f"oncue jobs load jobs.ndjson {options} | true", cwd=tmp_path)
    assert ended.code == 0
    assert len(ids(tmp_path)) == 1


def test_a_line_whose_key_is_held_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "jobs.ndjson").write_text(
        '{"key": "k", "payload": 1}\n{"key": "k", "payload": 2}\n'
    )
    ended = run("jobs", "load", "jobs.ndjson", "--json", cwd=tmp_path)
    assert (ended.code, ended.json["existing"], ended.json["key_held"]) == (0, 1, 1)
    assert "those lines are not stored" in ended.err
