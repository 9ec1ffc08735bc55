"""`oncue doctor`: what is well, what is not, and what to do about it."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from oncue import NodeReport, Queue, Scheduler, __version__
from oncue.cli import findings
from oncue.cli.app import cli
from oncue.clock import FakeClock, SystemClock
from oncue.core.moment import to_datetime
from oncue.stores.sqlite import connection as sqlite_connection
from oncue.testing import HandDriven
from oncue.usecases.queues import put_queue
from tests.contract.desk import claim_due

from .terminal import put_off, run, see

MINUTE = 60.0


def scheduler(folder: Path, *, ago_seconds: float = 0.0) -> Scheduler:
    """On the store of the folder; `ago_seconds`: as if it were so long ago."""
    clock = FakeClock(SystemClock().now() - round(ago_seconds * 1000))
    return Scheduler(f"sqlite:///{folder}/oncue.db", clock=clock)


def levels(told: dict[str, Any]) -> dict[str, str]:
    worst = {"ok": 0, "warn": 1, "bad": 2}
    found: dict[str, str] = {}
    for finding in told["findings"]:
        known = found.get(finding["name"], "ok")
        found[finding["name"]] = max(known, finding["level"], key=lambda level: worst[level])
    return found


def todo(told: dict[str, Any], name: str) -> str:
    found = [f for f in told["findings"] if f["name"] == name and f["level"] != "ok"]
    return str(found[0]["todo"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with scheduler(tmp_path) as cue:
        cue.set_queue("mail", sink="log:")
    return tmp_path


def test_a_sound_store_is_told_to_be_sound(place: Path) -> None:
    ended = run("doctor", "--json", cwd=place)
    assert ended.code == 0
    told = ended.json
    assert told["ok"] is True
    assert told["store"]["synchronous"] == "FULL"
    assert told["store"]["journal_mode"] == "wal"
    assert told["store"]["path"] == f"{place}/oncue.db"
    expected = {
        *("store", "durability", "SQLite", "schema", "file system", "disk space"),
        *("write-ahead log", "integrity", "clock", "lateness", "claims", "paused queues", "sinks"),
        *("nodes", "schedules", "write lock"),
    }
    found = levels(told)
    assert set(found) == expected
    assert {name for name, level in found.items() if level == "bad"} == set()


def test_people_get_lines_with_marks(place: Path) -> None:
    shown = see("doctor", cwd=place)
    assert shown.code == 0
    assert "✓ durability: journal_mode wal, synchronous FULL" in shown.out
    assert " 0 errors" in shown.out


def test_work_that_waits_for_somebody_is_a_warning(place: Path) -> None:
    with scheduler(place, ago_seconds=10 * MINUTE) as cue:
        cue.schedule(queue="mail")
        cue.schedule(queue="pulled")
        cue.schedule(queue="held")
        cue.pause("held")
        held = Queue("claimed", lease_seconds=1.0)
        cue.schedule(queue="claimed")
        claim_due(cue.store, [held], "somebody", 1, cue.clock.now())
    ended = run("doctor", "--json", cwd=place)
    assert ended.code == 0
    found = levels(ended.json)
    assert found["lateness"] == found["claims"] == found["paused queues"] == "warn"
    [claims] = [one["text"] for one in ended.json["findings"] if one["name"] == "claims"]
    assert claims.startswith("1 claim is lost for ")
    assert found["nodes"] == "warn"
    assert "oncue serve" in todo(ended.json, "nodes")
    texts = [one["text"] for one in ended.json["findings"] if one["name"] == "lateness"]
    assert [text.partition(", ")[2] for text in texts] == [
        "and no process delivers it.",
        "and no worker is seen that works on it.",
    ]
    assert "oncue serve" in todo(ended.json, "lateness")
    assert todo(ended.json, "paused queues") == "Resume it: oncue queues resume held"
    assert "reclaimer" in todo(ended.json, "claims")


def test_a_paused_queue_whose_jobs_are_due_later_is_no_warning(place: Path) -> None:
    with scheduler(place) as cue:
        cue.schedule(queue="later", delay=3600)
        cue.pause("later")
    assert levels(run("doctor", "--json", cwd=place).json)["paused queues"] == "ok"


def test_a_schedule_that_nobody_runs_is_a_warning(place: Path) -> None:
    with scheduler(place, ago_seconds=10 * MINUTE) as cue:
        cue.every(60, name="digest")
    ended = run("doctor", "--json", cwd=place)
    assert ended.code == 0
    assert levels(ended.json)["schedules"] == "warn"
    assert todo(ended.json, "schedules") == "Start 'oncue serve', or a program that calls work()."
    [text] = [one["text"] for one in ended.json["findings"] if one["name"] == "schedules"]
    assert text.startswith("schedule digest is 9")
    assert text.endswith(" min overdue, and nobody is running 'oncue serve' or work().")


def test_the_processes_are_told_and_another_version_is_a_warning(place: Path) -> None:
    with scheduler(place) as cue:
        at = to_datetime(cue.clock.now())
        same = NodeReport("same", "h", 1, __version__, at, at, engine=True)
        cue.store.report_node(same)
        cue.store.report_node(replace(same, id="old", version="0.0.1"))
    told = run("doctor", "--json", cwd=place).json
    texts = [(one["level"], one["text"]) for one in told["findings"] if one["name"] == "nodes"]
    assert texts == [
        ("warn", f"old has version 0.0.1, here is {__version__}."),
        ("ok", "old runs: loops."),
        ("ok", "same runs: loops."),
    ]


def test_work_is_late_once_it_has_waited_for_more_than_a_minute() -> None:
    with HandDriven() as cue:
        cue.schedule(queue="mail")
        cue.clock.advance(MINUTE)
        assert [one.level for one in findings.lateness(cue)] == ["ok"]
        cue.clock.advance(0.001)
        assert [one.level for one in findings.lateness(cue)] == ["warn"]


def test_jobs_that_are_put_off_are_told_and_are_not_late(place: Path) -> None:
    with scheduler(place, ago_seconds=10 * MINUTE) as cue:
        put_off(cue, "mail", "stuck")
    ended = run("doctor", "--json", cwd=place)
    found = levels(ended.json)
    assert (found["lateness"], found["sinks"]) == ("ok", "warn")
    told = [one["text"] for one in ended.json["findings"] if one["level"] == "warn"]
    assert "the sink of queue mail refused 1 job for now." in told
    assert "oncue jobs explain ID" in todo(ended.json, "sinks")


def test_a_sink_that_cannot_be_opened_is_bad(place: Path) -> None:
    with scheduler(place) as cue:
        put_queue(cue.store, Queue("lost", sink="pigeon:roof"))
    ended = run("doctor", cwd=place)
    assert ended.code == 1
    assert "✗ sinks: the sink of queue lost cannot be opened" in ended.out
    assert "→ Give it another one: oncue queues set lost --sink URL" in ended.out


def test_a_queue_of_sqs_that_does_not_answer_is_named(place: Path) -> None:
    with scheduler(place) as cue:
        put_queue(cue.store, Queue("mail", sink="sqs://post?endpoint=http://127.0.0.1:1"))
    credentials = {
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    ended = run("doctor", cwd=place, env=credentials)
    assert (
        "! sinks: queue mail cannot be delivered from here: SQS queue post: no answer" in ended.out
    )
    assert "→ If another sink is meant: oncue queues set mail --sink URL" in ended.out


def test_a_missing_file_is_bad_and_stays_missing(tmp_path: Path) -> None:
    ended = run("doctor", "--json", cwd=tmp_path)
    assert ended.code == 1
    assert ended.json["ok"] is False
    assert "there is no such file" in ended.json["findings"][0]["text"]
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_meant_is_named_as_the_option_is(tmp_path: Path) -> None:
    ended = run("doctor", "--store", "mongo://jobs", cwd=tmp_path)
    assert ended.code == 1
    assert "✗ store: --store: there is no store for 'mongo://jobs'" in ended.out


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not tell")
def test_a_process_that_uses_a_deleted_file_is_named(place: Path) -> None:
    path = place / "oncue.db"
    with scheduler(place) as cue:
        cue.schedule()
        path.unlink()
        path.touch()
        emptied = run("doctor", cwd=place)
        for file in list(place.iterdir()):
            file.unlink()
        missing = run("doctor", cwd=place)
        with apsw.Connection(str(path)):
            pass
        scheduler(place).close()
        replaced = run("doctor", cwd=place)
    for ended in (emptied, missing, replaced):
        assert ended.code == 1
        assert f"process {os.getpid()} uses a file of this name" in ended.out
        assert f"Its data is there until process {os.getpid()} ends." in ended.out
        assert "Stop every program that uses it, remove oncue.db-wal and oncue.db-shm" in ended.out
    assert "there is no such file" in missing.out


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not tell")
@pytest.mark.parametrize("lost", [["oncue.db"], ["oncue.db", "oncue.db-wal"], ["oncue.db-wal"]])
def test_a_deleted_file_can_be_saved_as_it_is_told(place: Path, lost: list[str]) -> None:
    with scheduler(place) as cue:
        cue.schedule(queue="last")
        for name in lost:
            (place / name).unlink()
        told = run("doctor", cwd=place).out
        steps = re.search(r"copy it first: (cp [^;]+; cp [^;]+);", told)
        assert steps is not None, told
        for step in steps[1].split("; "):
            subprocess.run(step.split(), cwd=place, check=True)
    ended = run(
        "--store", "sqlite:///saved.db", "jobs", "list", "--queue", "last", "--json", cwd=place
    )
    assert ended.code == 0, ended.err
    assert len(ended.json["items"]) == 1


def test_nobody_is_told_to_make_a_file_beside_the_log_of_another(place: Path) -> None:
    with scheduler(place) as cue:
        cue.schedule()
        (place / "oncue.db").unlink()
        for command in (["doctor"], ["queues", "list"]):
            ended = run(*command, cwd=place)
            assert ended.code != 0
            assert "adding a first job creates it" not in ended.out + ended.err
            assert "remove oncue.db-wal and oncue.db-shm, put the" in ended.out + ended.err
    assert run("jobs", "add", cwd=place).code == 5
    assert not (place / "oncue.db").exists()


def test_a_locked_file_is_told_with_the_next_step(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, where it can be given less patience than ten seconds."""
    monkeypatch.setattr(sqlite_connection, "BUSY_MS", 100)
    with closing(apsw.Connection(str(place / "oncue.db"))) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = CliRunner().invoke(cli, ["--store", f"sqlite:///{place}/oncue.db", "doctor"])
    assert ended.exit_code == 1
    assert "✗ write lock: " in ended.output
    assert "locked by another process" in ended.output
    assert "Find the program that holds a long transaction" in ended.output


def test_something_else_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "oncue.db").write_text("a letter")
    assert "not an SQLite database" in run("doctor", cwd=tmp_path).out
    (tmp_path / "oncue.db").unlink()
    (tmp_path / "oncue.db").mkdir()
    assert "cannot be opened" in run("doctor", cwd=tmp_path).out


def test_a_newer_schema_is_told(place: Path) -> None:
    connection = apsw.Connection(str(place / "oncue.db"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    ended = run("doctor", cwd=place)
    assert ended.code == 1
    assert "its schema is version 99" in ended.out


def test_a_damaged_file_is_bad(place: Path) -> None:
    with scheduler(place) as cue:
        cue.schedule_many({"payload": "x" * 400, "queue": "mail"} for _ in range(2000))
    path = place / "oncue.db"
    content = bytearray(path.read_bytes())
    for page in range(60, len(content) // 8192, 3):
        content[page * 8192 : page * 8192 + 4096] = b"\x55" * 4096
    path.write_bytes(content)
    ended = run("doctor", "--json", cwd=place)
    assert ended.code == 1
    assert levels(ended.json)["integrity"] == "bad"


def test_memory_is_no_place_for_jobs(tmp_path: Path) -> None:
    ended = run("doctor", "--store=memory:", "--json", cwd=tmp_path)
    assert ended.code == 0
    assert levels(ended.json)["store"] == "warn"


def test_a_large_log_is_a_warning(place: Path) -> None:
    reader = apsw.Connection(str(place / "oncue.db"))
    reader.execute("BEGIN; SELECT * FROM jobs").fetchall()
    try:
        with scheduler(place) as cue:
            cue.schedule(queue="mail")
        os.truncate(place / "oncue.db-wal", 300 * 1024**2)  # what follows the last commit is noise
        ended = run("doctor", "--json", cwd=place)
    finally:
        reader.execute("ROLLBACK")
        reader.close()
    assert ended.code == 0
    assert levels(ended.json)["write-ahead log"] == "warn"


def test_the_log_of_a_linked_file_is_measured_where_it_is(place: Path) -> None:
    (place / "links").mkdir()
    (place / "links" / "linked.db").symlink_to(place / "oncue.db")
    with scheduler(place) as cue:
        cue.schedule()
        ended = run("--store", "sqlite:///links/linked.db", "doctor", "--json", cwd=place)
    [log] = [one for one in ended.json["findings"] if one["name"] == "write-ahead log"]
    assert not log["text"].startswith("0 ")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no file system in memory here")
def test_a_file_system_in_memory_is_a_warning(tmp_path: Path) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(dir="/dev/shm") as folder:
        with scheduler(Path(folder)):
            pass
        ended = run("doctor", "--json", cwd=Path(folder))
    assert levels(ended.json)["file system"] == "warn"


def test_the_option_is_not_recommended_for_a_worker_whose_module_names_the_store(
    tmp_path: Path,
) -> None:
    with scheduler(tmp_path, ago_seconds=5 * MINUTE) as cue:
        cue.schedule(None, queue="mail")
    ended = run("doctor", "--store", "sqlite:///oncue.db", cwd=tmp_path)
    assert "→ Start 'oncue worker MODULE:SCHEDULER'." in ended.out
    assert ended.out.endswith(
        "Give commands that are named here the same --store, but not 'oncue worker': the "
        "Scheduler in its module names the store.\n"
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [("store = 'postgresql://oncue:geheim@127.0.0.1:1/jobs'", "store"), ("token = 'a'", "token")],
)
@pytest.mark.parametrize(("mode", "level"), [(0o644, "warn"), (0o640, "warn"), (0o600, "ok")])
def test_a_password_in_a_file_of_settings_that_others_can_read(
    place: Path, line: str, names: str, mode: int, level: str
) -> None:
    (place / "oncue.toml").write_text(f"{line}\n")
    (place / "oncue.toml").chmod(mode)
    ended = run("doctor", "--json", "--store", "sqlite:///oncue.db", cwd=place)
    [found] = [one for one in ended.json["findings"] if one["name"] == "settings"]
    assert (found["level"], found["todo"]) == (
        level,
        "Run: chmod 600 oncue.toml" if level == "warn" else "",
    )
    assert found["text"].startswith(f"oncue.toml has a password or a token in it ({names})")
    assert "geheim" not in ended.out + ended.err
    shown = run("doctor", "--store", "sqlite:///oncue.db", cwd=place)
    assert "the same --store" not in shown.out  # no command of oncue is named


def test_a_file_of_settings_without_a_password_may_be_read_by_all(place: Path) -> None:
    (place / "oncue.toml").write_text("store = 'sqlite:///oncue.db'\n")
    assert "settings" not in levels(run("doctor", "--json", cwd=place).json)
