"""Every command on PostgreSQL, with a password in the URL that none of them shows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from oncue import Scheduler, State
from oncue.cli.app import COMMANDS
from oncue.stores import open_store
from tests.acceptance.documents import ROOT
from tests.http.test_tour import free_port
from tests.program import Program
from tests.servers.postgres import PostgresServer

from .on_postgresql import CANARY, schema_of, unused_url, with_password
from .terminal import PATIENCE_SECONDS, Ended, environment, run, wait_until

APP = """
import os
from oncue import Scheduler
cue = Scheduler(os.environ["ONCUE_STORE"])
cue.handler("mail")(lambda job: print("mail to", job.payload["to"], flush=True))
"""
RULE = {
    "name": "load",
    "queue": "loads",
    "dependencies": [{"type": "TABLE", "resourceId": "orders", "lifeDuration": 60}],
}
EVENT = {
    "eventType": "TABLE",
    "eventResourceId": "orders",
    "eventTimestamp": "2026-01-01T12:00:00Z",
}
TRIED = {
    *("migrate", "config", "jobs", "tasks", "queues", "rules", "events", "schedules", "top"),
    *("nodes", "forecast", "reclaim", "worker", "serve", "dump", "restore", "token", "doctor"),
    *("bench", "inbox"),
}


class Database:
    """A folder in which the settings name a new store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = with_password(unused_url())
        self.env: dict[str, str | None] = {"ONCUE_STORE": self.url, "ONCUE_LOG_LEVEL": "INFO"}

    def run(self, *arguments: str, code: int = 0) -> Ended:
        ended = run(*arguments, cwd=self.folder, env=self.env)
        assert ended.code == code, ended.err
        assert CANARY not in ended.out + ended.err
        assert "Traceback" not in ended.err
        return ended

    def write(self, name: str, content: object) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_text(text)


@pytest.fixture
def place(tmp_path: Path) -> Database:
    made = Database(tmp_path)
    open_store(made.url).close()
    return made


def test_every_command_is_tried_here() -> None:
    others = {"cost", "completion", "aws", "adopt"}
    assert set(COMMANDS) - TRIED == others, "they need no store, or DynamoDB"


def test_the_first_job_creates_the_store_and_says_so(tmp_path: Path) -> None:
    place = Database(tmp_path)
    told = place.run("jobs", "add", "1").err
    assert told.startswith("Created postgresql://postgres:***@127.0.0.1:")
    assert told.endswith("a new and empty store.\n")
    assert place.run("jobs", "add", "2").err == ""


def test_jobs(place: Database) -> None:
    job = place.run("jobs", "add", "--queue", "mail", "--owner", "ada", '{"to": "ada"}', "--json")
    name = job.json["id"]
    place.run("jobs", "add", "--queue", "mail", "--id", "mine", "--delay", "2h", "--key", "k", "1")
    for choice in ([], ["--queue", "mail"], ["--owner", "ada"], ["--key", "k"]):
        assert place.run("jobs", "list", *choice, "--json").json["items"]
    assert "waits to be taken" in place.run("jobs", "explain", name).out
    place.run("jobs", "show", "mine")
    place.run("jobs", "reprioritise", "--priority", "3", "mine")
    place.run("jobs", "move", "--queue", "mail", "--owner", "ada", "--to", "letters", "--yes")
    place.run("jobs", "run", "mine")
    place.run("jobs", "cancel", "mine")
    place.run("jobs", "retry", "mine")
    assert "1 job would be cancelled" in place.run("jobs", "cancel", "--queue", "mail", "-n").out
    place.write("l.ndjson", '{"queue": "mail", "delay": 60, "payload": {"to": "ada"}}\n')
    assert place.run("jobs", "load", "l.ndjson").out.startswith("1 stored")
    assert place.run("jobs", "load", "l.ndjson").out.startswith("0 stored, 1 there already")
    assert "only SQLite stores can be measured" in place.run("bench", code=2).err
    place.run("inbox", "list", code=5)


def test_queues_and_what_is_seen_of_them(place: Database) -> None:
    place.run("queues", "set", "mail", "--max-attempts", "5", "--shards", "8")
    place.run("jobs", "add", "--queue", "mail", "--delay", "60", "1")
    [queue] = place.run("queues", "list", "--json").json["items"]
    assert queue["counts"]["scheduled"] == 1
    assert place.run("queues", "show", "mail", "--json").json["shards"] == 8
    place.run("queues", "pause", "mail")
    place.run("queues", "resume", "mail")
    assert "postgres:***@" in place.run("top").out
    assert place.run("top", "--json").json["store"].startswith("postgresql://postgres:***@")
    place.run("forecast")
    place.run("jobs", "cancel", "--queue", "mail", "--yes")
    place.run("queues", "delete", "mail", "--yes")


def test_tasks(place: Database) -> None:
    task = place.run("tasks", "add", "ada", "--after-days", "15", '{"text": "call"}', "--json").json
    assert [one["requestId"] for one in place.run("tasks", "list", "ada", "--json").json["items"]]
    assert place.run("tasks", "show", "ada", task["requestId"], "--json").json["text"] == "call"
    place.run("tasks", "remove", "ada", task["requestId"])
    assert place.run("tasks", "list", "ada", "--json").json["items"] == []


def test_rules_events_schedules_and_tokens(place: Database) -> None:
    place.write("rules.json", RULE)
    place.run("rules", "apply", "rules.json")
    place.write("event.json", EVENT)
    assert "1 job created" in place.run("events", "send", "event.json").out
    assert "orders" in place.run("events", "list").out
    place.run("rules", "explain", "load")
    place.run("rules", "delete", "load", "--yes")
    place.write("schedules.json", {"name": "nightly", "cron": "0 2 * * *", "queue": "mail"})
    place.run("schedules", "apply", "schedules.json")
    assert "nightly" in place.run("schedules", "list").out
    place.run("schedules", "next", "nightly")
    place.run("schedules", "pause", "nightly")
    place.run("schedules", "resume", "nightly")
    place.run("schedules", "delete", "nightly", "--yes")
    token = place.run("token", "create", "--scope", "read", "--json").json
    place.run("token", "list")
    place.run("token", "revoke", token["id"])


def test_work_is_done_and_the_processes_are_seen(place: Database) -> None:
    place.write("app.py", APP)
    place.run("jobs", "add", "--queue", "mail", '{"to": "ada"}')
    worked = place.run("worker", "app:cue", "--until-empty")
    assert "mail to ada" in worked.out
    assert "store postgresql 127.0.0.1:" in worked.err
    assert "0 claims seen" in place.run("reclaim", "--dry-run").out
    said = _served(place)
    assert f"/postgres {schema_of(place.url)}, schema 1" in said
    assert CANARY not in said
    place.run("config", "show")


def _served(place: Database) -> str:
    """What `oncue serve` says between its start and its stop. It delivers a job meanwhile."""
    with (
        Scheduler(place.url) as cue,
        Program(
            *("serve", "--port", "0"),
            cwd=place.folder,
            env=environment(place.env),
            stderr=subprocess.PIPE,
        ) as serving,
    ):
        cue.set_queue("out", sink="log:")
        job = cue.schedule(1, queue="out")
        wait_until(lambda: cue.job(job.id).state is State.SUCCEEDED)
        wait_until(lambda: "delivers out" in place.run("nodes").out)
        told = place.run("doctor", "--json", code=1).json  # the server of the tests is not durable
        [found] = [one["text"] for one in told["findings"] if one["name"] == "connections"]
        assert "; 1 process of oncue with up to 12" in found
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(PATIENCE_SECONDS) == 0
        assert serving.stderr is not None
        return str(serving.stderr.read())


def test_a_store_moves_to_a_file_and_back(place: Database) -> None:
    with Scheduler(place.url) as cue:
        cue.schedule_many({"queue": "mail", "delay": 60 + n, "payload": n} for n in range(30))
    assert "Dumped 30 jobs and 1 queue" in place.run("dump", "d.ndjson").err
    assert CANARY not in (place.folder / "d.ndjson").read_text()
    assert "Stored 30 jobs" in place.run("restore", "d.ndjson", "--store", "sqlite:///n.db").out
    place.run("restore", "d.ndjson", "--dry-run")
    place.run("dump", "e.ndjson", "--store", "sqlite:///n.db")
    there = with_password(unused_url())
    told = place.run("restore", "e.ndjson", "--store", f"{there}&migrate=no", code=5).err
    assert told.startswith("Error: 127.0.0.1:")
    assert told.endswith("that 'oncue migrate --dry-run' prints. Nothing was stored.\n")
    assert "Stored 30 jobs" in place.run("restore", "e.ndjson", "--store", there).out


def test_a_dump_goes_on_only_from_the_same_schema(place: Database) -> None:
    place.run("jobs", "add", "1")
    place.run("dump", "d.ndjson")
    other = with_password(unused_url())
    place.run("jobs", "add", "1", "--store", other)
    told = place.run("dump", "d.ndjson", "--resume", "--store", other, code=2).err
    assert f"this dump was begun from schema {schema_of(place.url)} of 127.0.0.1:" in told


def test_doctor_finds_a_sound_store_sound(tmp_path: Path) -> None:
    with PostgresServer(tmp_path / "server") as server:
        url = with_password(server.url)
        run("migrate", "--store", url, cwd=tmp_path)
        ended = run("doctor", "--json", "--store", url, cwd=tmp_path)
        assert CANARY not in ended.out + ended.err
        told = ended.json
        assert [one for one in told["findings"] if one["level"] != "ok"] == []
        assert (ended.code, told["ok"]) == (0, True)
        assert told["store"]["schema_name"] == "oncue"
        assert {one["name"] for one in told["findings"]} == {
            *("store", "clock", "claims", "nodes", "schedules", "lateness", "paused queues"),
            *("sinks", "PostgreSQL", "durability", "schema", "rights", "indexes", "dead rows"),
            *("long transactions", "replication slots", "connections", "server's clock"),
        }
        people = run("doctor", "--store", url, cwd=tmp_path)
        assert "✓ store: postgresql 127.0.0.1:" in people.out
        assert " 0 errors, 0 warnings." in people.out


def test_make_run_works_on_it(tmp_path: Path) -> None:
    url, port = with_password(unused_url()), free_port()
    env = environment({"ONCUE_STORE": url, "ONCUE_PORT": str(port)})
    tour = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "tour.py")],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert tour.stdout is not None
    with tour, closing(tour.stdout):
        said = ""
        try:
            while "Listening on" not in said:
                line = tour.stdout.readline()
                assert line, said
                said += line
        finally:
            tour.send_signal(signal.SIGTERM)
        said += tour.stdout.read()
        assert tour.wait(PATIENCE_SECONDS) == 0, said
    assert CANARY not in said
    assert "with the jobs in postgresql://postgres:***@127.0.0.1:" in said
    with Scheduler(url) as cue:
        assert len(list(cue.jobs())) >= 3


def test_make_gives_the_store_to_the_tour_and_only_if_it_is_a_url(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$1 on ${ONCUE_STORE-the default}"\n')
    python.chmod(0o755)

    def made(*arguments: str) -> str:
        as_they_are = ["-o", ".venv/installed", "-o", ".venv/installed-dev", f"BIN={tmp_path}"]
        command = ["make", "--no-print-directory", "run", *as_they_are, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment({}), capture_output=True, text=True, check=True
        ).stdout

    url = "postgresql://u@h/db?schema=s&sslmode=disable"
    assert made(f"STORE={url}") == f"examples/tour.py on {url}\n"
    assert made() == "examples/tour.py on the default\n"
