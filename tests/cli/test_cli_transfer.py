"""`oncue dump` and `oncue restore`: into files and pipes, torn, interrupted, out of space."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncue import Queue, Scheduler

from .terminal import Terminal, run, shell

FEW = 130  # more than the first page of a dump
MANY = 3000  # more than a pipe holds


def filled(folder: Path, count: int = FEW, name: str = "oncue.db") -> Path:
    """A folder with a store of so many waiting jobs and one that was cancelled."""
    with Scheduler(f"sqlite:///{folder}/{name}") as cue:
        cue.set_queue("mail", sink="log:", max_attempts=7)
        items = ({"payload": {"n": n}, "queue": "mail", "delay": 3600 + n} for n in range(count))
        cue.schedule_many(items)
        cue.schedule({"to": "ada"}, id="mine", key="k")
        cue.cancel("mine")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


def jobs(path: Path) -> dict[str, Any]:
    with Scheduler(f"sqlite:///{path}") as cue:
        return {job.id: job for job in cue.jobs()}


def job_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.startswith('{"job":')]


def queues(path: Path) -> dict[str, Queue]:
    with Scheduler(f"sqlite:///{path}") as cue:
        return {queue.name: queue for queue in cue.queues()}


# -- dump ------------------------------------------------------------------------------------------


def test_a_store_moves_through_a_file(folder: Path) -> None:
    ended = run("dump", "d.ndjson", cwd=folder)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"Dumped {FEW + 1} jobs and 2 queues to d.ndjson (")
    ended = run("--store", "sqlite:///new.db", "restore", "d.ndjson", cwd=folder)
    assert ended.code == 0
    assert f"Stored {FEW + 1} jobs and 2 queues." in ended.out
    assert jobs(folder / "new.db") == jobs(folder / "oncue.db")
    assert queues(folder / "new.db")["mail"].max_attempts == 7


def test_a_store_moves_through_a_pipe_and_is_released(folder: Path) -> None:
    line = "oncue dump | oncue restore - --release --store sqlite:///new.db --json"
    ended = shell(line, cwd=folder)
    assert ended.code == 0
    assert ended.json == {
        "dry_run": False,
        "stored": FEW + 1,
        "existing": 0,
        "queues": 2,
        "schedules": 0,
        "rules": 0,
        "events": 0,
        "kept_queues": [],
        "kept_schedules": [],
        "kept_rules": [],
        "paused": [],
        "paused_before": [],
        "released": ["default", "mail"],
    }
    assert not any(queue.paused for queue in queues(folder / "new.db").values())


def test_schedules_rules_and_events_move_too_and_are_counted(tmp_path: Path) -> None:
    rule = {"type": "TABLE", "resourceId": "orders", "lifeDuration": 60}
    with Scheduler(f"sqlite:///{tmp_path}/oncue.db") as cue:
        cue.every(3600, name="hourly", queue="beats")
        cue.put_rule("load", [rule], queue="loads")
        cue.publish(
            {"eventType": "TABLE", "eventResourceId": "x", "eventTimestamp": "2021-01-01 00:00:00"}
        )
        cue.schedule(1, queue="held", delay=60)
        cue.pause("held")
    ended = run("dump", "d.ndjson", cwd=tmp_path)
    what = "1 job, 1 queue, 1 schedule, 1 rule and 1 event"
    assert ended.err.startswith(f"Dumped {what} to d.ndjson (")
    file = tmp_path / "d.ndjson"
    assert restore(file, "--dry-run").out.startswith(f"Would store {what}.\n")
    ended = restore(file)
    assert ended.out == (
        f"Stored {what}.\n"
        "Paused: held, beats, loads. Resume them with: "
        "oncue --store sqlite:///new.db queues resume beats loads\n"
        "Paused when they were dumped: held.\n"
    )
    with Scheduler(f"sqlite:///{tmp_path}/new.db") as cue:
        assert cue.schedule_named("hourly").queue == "beats"
        assert cue.rule("load").queue == "loads"
        assert len(list(cue.events())) == 1
        cue.put_rule("load", [rule | {"lifeDuration": 61}], queue="loads")
    ended = restore(file, "--release")
    assert "Stored 0 jobs and 0 queues." in ended.out
    assert "These rules are different here, and were not changed: load." in ended.out
    assert {name for name, queue in queues(tmp_path / "new.db").items() if queue.paused} == {"held"}


def test_a_dump_to_standard_output_is_only_the_dump(folder: Path) -> None:
    ended = run("dump", cwd=folder)
    lines = [msgspec.json.decode(line) for line in ended.out.splitlines()]
    assert next(iter(lines[0])) == "header"
    assert lines[-1] == {"end": {"jobs": FEW + 1, "queues": 2}}
    assert "Dumped" in ended.err


def test_a_dump_and_a_restored_store_can_be_read_by_their_owner_only(folder: Path) -> None:
    ended = shell(
        "umask 022; oncue dump d.ndjson && oncue --store sqlite:///new.db restore d.ndjson",
        cwd=folder,
    )
    assert ended.code == 0, ended.err
    for name in ("d.ndjson", "new.db"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600


def test_one_queue_alone(folder: Path) -> None:
    ended = run("dump", "d.ndjson", "--queue", "default", "--json", cwd=folder)
    assert ended.json["jobs"] == 1
    assert ended.json["bytes"] == (folder / "d.ndjson").stat().st_size


def test_on_a_terminal_there_is_a_bar_while_it_lasts(folder: Path) -> None:
    with Terminal("dump", "d.ndjson", cwd=folder) as terminal:
        assert terminal.end() == 0
    assert "█" in terminal.output
    assert "%" in terminal.output
    assert terminal.screen.startswith("Dumped")


def test_an_existing_file_is_not_overwritten(folder: Path) -> None:
    (folder / "d.ndjson").write_text("precious")
    ended = run("dump", "d.ndjson", cwd=folder)
    assert ended.code == 2
    assert "the file exists" in ended.err
    assert "--resume" in ended.err
    ended = run("dump", "d.ndjson", "--resume", cwd=folder)
    assert ended.code == 2
    assert "d.ndjson: is not a dump of oncue; nothing was changed" in ended.err
    assert (folder / "d.ndjson").read_text() == "precious"


def test_a_missing_store_is_not_dumped_as_an_empty_one(tmp_path: Path) -> None:
    ended = run("dump", "d.ndjson", cwd=tmp_path)
    assert ended.code == 5
    assert "oncue.db: there is no such file" in ended.err
    assert "--store" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_torn_dump_is_resumed(folder: Path) -> None:
    run("dump", "whole.ndjson", cwd=folder)
    whole = (folder / "whole.ndjson").read_bytes()
    for cut in (0, 40, len(whole) // 2, len(whole) - 3, len(whole)):
        (folder / "d.ndjson").write_bytes(whole[:cut])
        ended = run("dump", "d.ndjson", "--resume", cwd=folder)
        assert ended.code == 0, ended.err
        assert f"Dumped {FEW + 1} jobs" in ended.err
        assert job_lines(folder / "d.ndjson") == job_lines(folder / "whole.ndjson")


def test_a_dump_goes_on_only_from_where_it_came(folder: Path) -> None:
    run("dump", "d.ndjson", cwd=folder)
    whole = (folder / "d.ndjson").read_bytes()
    (folder / "d.ndjson").write_bytes(whole[: len(whole) - 3])
    ended = run("dump", "d.ndjson", "--resume", "--queue", "mail", cwd=folder)
    assert (ended.code, "begun with no --queue" in ended.err) == (2, True)
    filled(folder, 1, "other.db")
    ended = run("--store", "sqlite:///other.db", "dump", "d.ndjson", "--resume", cwd=folder)
    assert (ended.code, "begun from" in ended.err) == (2, True)
    ended = run("dump", "none.ndjson", "--resume", cwd=folder)
    assert (ended.code, "no such file to resume" in ended.err) == (2, True)


def test_a_full_disk_is_told_with_the_next_step(tmp_path: Path) -> None:
    folder = filled(tmp_path, MANY)
    ended = shell("ulimit -f 200; oncue dump d.ndjson", cwd=folder)
    assert ended.code == 1
    assert ended.err.startswith("Error: d.ndjson: File too large; the dump is incomplete.")
    assert "oncue dump d.ndjson --resume" in ended.err
    assert run("dump", "d.ndjson", "--resume", cwd=folder).code == 0
    assert len(job_lines(folder / "d.ndjson")) == MANY + 1


@pytest.mark.parametrize("line", ["oncue dump > /dev/full", "oncue dump /dev/full"])
def test_a_full_device_is_told(folder: Path, line: str) -> None:
    ended = shell(line, cwd=folder)
    assert ended.code == 1
    assert "No space left on device; the dump is incomplete." in ended.err
    assert "Traceback" not in ended.err


def test_a_dump_into_a_closed_pipe_has_failed(tmp_path: Path) -> None:
    ended = shell("(oncue dump; echo code $? >&2) | true", cwd=filled(tmp_path, MANY))
    assert "standard output was closed; the dump is incomplete." in ended.err
    assert "code 1" in ended.err
    assert "Traceback" not in ended.err


def test_an_interrupted_dump_tells_how_to_go_on(tmp_path: Path) -> None:
    filled(tmp_path, 40_000)
    with Terminal("dump", "d.ndjson", cwd=tmp_path) as terminal:
        terminal.expect("jobs")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "Continue with: oncue dump d.ndjson --resume" in terminal.screen
    assert run("dump", "d.ndjson", "--resume", cwd=tmp_path).code == 0
    assert len(job_lines(tmp_path / "d.ndjson")) == 40_001


def test_an_interrupted_dump_into_a_stuck_reader_ends(tmp_path: Path) -> None:
    folder = filled(tmp_path, MANY)
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Terminal("dump", "pipe", cwd=folder) as terminal:
            terminal.expect("jobs")
            terminal.interrupt_waiting()
            assert terminal.end() == 130
    finally:
        os.close(reader)


# -- restore ---------------------------------------------------------------------------------------


@pytest.fixture
def dumped(folder: Path) -> Path:
    run("dump", "d.ndjson", cwd=folder)
    return folder / "d.ndjson"


def restore(file: Path, *options: str, store: str = "new.db") -> Any:
    return run("restore", file.name, f"--store=sqlite:///{store}", *options, cwd=file.parent)


def test_restored_queues_are_paused_and_it_says_so(dumped: Path) -> None:
    ended = restore(dumped)
    assert (
        "Paused: default, mail. Resume them with: "
        "oncue --store sqlite:///new.db queues resume default mail\n" in ended.out
    )
    assert all(queue.paused for queue in queues(dumped.parent / "new.db").values())
    ended = restore(dumped, "--release")
    assert f"Existed already, and not changed: {FEW + 1} jobs." in ended.out
    assert not any(queue.paused for queue in queues(dumped.parent / "new.db").values())


def test_a_dry_run_makes_no_file_and_stores_nothing(dumped: Path) -> None:
    ended = restore(dumped, "--dry-run")
    assert ended.out == f"Would store {FEW + 1} jobs and 2 queues.\n"
    assert not (dumped.parent / "new.db").exists()
    ended = restore(dumped, "--dry-run", "--json", store="oncue.db")
    assert (ended.json["stored"], ended.json["existing"]) == (0, FEW + 1)


def test_a_torn_dump_is_refused_in_the_end_and_can_be_repeated(dumped: Path) -> None:
    whole = dumped.read_bytes()
    dumped.write_bytes(whole[: len(whole) - 3])
    ended = restore(dumped)
    assert (ended.code, ended.out) == (2, "")
    assert "d.ndjson: the dump is torn" in ended.err
    assert "--resume" in ended.err
    dumped.write_bytes(whole)
    assert restore(dumped).code == 0
    assert jobs(dumped.parent / "new.db") == jobs(dumped.parent / "oncue.db")


def test_a_bad_line_is_named_by_its_number(dumped: Path) -> None:
    lines = dumped.read_text().splitlines(keepends=True)
    lines[9] = lines[9].replace('"scheduled"', '"asleep"')
    dumped.write_text("".join(lines))
    ended = restore(dumped)
    assert ended.code == 2
    assert "d.ndjson: line 10: is not a line of a dump" in ended.err
    assert "asleep" in ended.err
    assert jobs(dumped.parent / "new.db") == {}


def test_a_newer_dump_is_refused_with_the_next_step(dumped: Path) -> None:
    dumped.write_text(dumped.read_text().replace('"version":1', '"version":2', 1))
    ended = restore(dumped)
    assert ended.code == 2
    assert "format 2, but this oncue reads only up to 1. Upgrade oncue" in ended.err


def test_something_else_is_no_dump(tmp_path: Path) -> None:
    ended = run("restore", "-", cwd=tmp_path, stdin=b"\x1f\x8b\x00gzip")
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == (
        "Error: standard input: line 1: is not a dump of oncue; those begin with a header. "
        "Nothing was stored."
    )


def test_a_refused_restore_leaves_no_empty_store_behind(dumped: Path) -> None:
    whole = dumped.read_bytes()
    header, *rest = whole.splitlines(keepends=True)
    asleep = whole.replace(b'"scheduled"', b'"asleep"', 1)
    key = next(line for line in rest if b'"mine"' in line)
    twice = [
        key.replace(b"cancelled", b"scheduled").replace(b'"mine"', b'"%d"' % n) for n in (1, 2)
    ]
    wrong = (
        b"garbage\n",
        b"",
        header[:-9],
        header,
        header + rest[0],
        asleep,
        header + b"".join(twice),
    )
    for text in wrong:
        dumped.write_bytes(text)
        ended = restore(dumped)
        assert (ended.code, "Created" in ended.err) == (2, False), ended.err
        assert not (dumped.parent / "new.db").exists()


def test_a_line_that_is_nested_too_deeply_is_a_bad_line(dumped: Path) -> None:
    lines = dumped.read_bytes().splitlines(keepends=True)
    deep = b"[" * 100_000 + b"]" * 100_000
    lines[9] = b'{"job": {"payload": %s}}\n' % deep
    for text, told in (
        (b"".join(lines), "line 10: is not a line of a dump: it is nested too deeply."),
        (deep + b"\n", "line 1: is not a dump of oncue"),
    ):
        dumped.write_bytes(text)
        ended = restore(dumped)
        assert (ended.code, told in ended.err, "Traceback" in ended.err) == (2, True, False)


def test_a_key_that_is_taken_there_is_a_conflict(folder: Path) -> None:
    with Scheduler(f"sqlite:///{folder}/oncue.db") as cue:
        cue.schedule(1, key="only")
    run("dump", "d.ndjson", cwd=folder)
    with Scheduler(f"sqlite:///{folder}/new.db") as cue:
        cue.schedule(2, key="only")
    for options in ([], ["--dry-run"]):
        ended = restore(folder / "d.ndjson", *options)
        assert ended.code == 4
        assert "its key 'only' belongs to another unfinished job" in ended.err


def test_on_a_terminal_a_restore_shows_its_progress(dumped: Path) -> None:
    with Terminal("restore", "d.ndjson", "--store=sqlite:///new.db", cwd=dumped.parent) as terminal:
        assert terminal.end() == 0
    assert "restore █" in terminal.output
    assert "restore" not in terminal.screen


def test_a_dump_torn_before_its_first_mark_is_not_resumed_from_another_store(
    tmp_path: Path,
) -> None:
    filled(tmp_path, count=1, name="one.db")
    filled(tmp_path, count=1, name="two.db")
    assert run("--store", "sqlite:///one.db", "dump", "d.ndjson", cwd=tmp_path).code == 0
    file = tmp_path / "d.ndjson"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line for line in lines if not line.startswith((b'{"mark', b'{"end'))))
    before = file.read_bytes()
    ended = run("--store", "sqlite:///two.db", "dump", "d.ndjson", "--resume", cwd=tmp_path)
    assert ended.code == 2
    assert file.read_bytes() == before


def test_an_output_that_was_closed_before_the_start_is_no_failure(folder: Path) -> None:
    ended = shell("oncue jobs list >&-", cwd=folder)
    assert (ended.code, "Traceback" in ended.err) == (0, False)


def test_a_dump_says_how_many_access_tokens_are_not_in_it(folder: Path) -> None:
    assert "token" not in run("dump", "before.ndjson", cwd=folder).err
    run("token", "create", "--name", "ci", cwd=folder)
    ended = run("dump", "after.ndjson", cwd=folder)
    assert "Without 1 access token: where it is restored, make them anew with" in ended.err
    assert "'oncue token create'." in ended.err
    restored = run("restore", "after.ndjson", "--store", "sqlite:///new.db", cwd=folder)
    assert (restored.code, restored.err) == (0, "Created new.db, a new and empty store.\n")


def test_a_restore_into_a_store_that_others_work_on_says_so(dumped: Path) -> None:
    with Scheduler(f"sqlite:///{dumped.parent}/used.db") as cue:
        cue.run_loops()
        cue.reporter.step()
        ended = restore(dumped, store="used.db")
    assert ended.code == 0
    assert "This store is in use by 1 node (see 'oncue nodes')." in ended.err
