"""Every command on stores that a server keeps, as a newcomer tries them. What only one of them has
stands in `test_cli_on_dynamodb.py` and `test_cli_on_postgresql.py`."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from oncue import Scheduler, State
from oncue.cli.app import COMMANDS
from tests.program import Program

from .on_dynamodb import CREDENTIALS
from .on_postgresql import schema_of
from .on_servers import Place, ready
from .terminal import PATIENCE_SECONDS, environment, wait_until

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
    *("aws", "adopt"),  # in test_cli_on_dynamodb.py and test_cli_adopt.py
}
PLACES = {"dynamodb": "store dynamodb oncue-", "postgresql": "store postgresql 127.0.0.1:"}
"""By kind of store: how it is named in the log."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, str(value))
    return ready(request.param, tmp_path)


def test_every_command_is_tried_here() -> None:
    assert set(COMMANDS) - TRIED == {"cost", "completion"}, "they need no store"


def test_jobs(place: Place) -> None:
    job = place.run("jobs", "add", "--queue", "mail", "--owner", "ada", '{"to": "ada"}', "--json")
    name = job.json["id"]
    place.run("jobs", "add", "--queue", "mail", "--id", "mine", "--delay", "2h", "--key", "k", "1")
    for choice in (["--queue", "mail"], ["--owner", "ada"], ["--queue", "mail", "--key", "k"]):
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


def test_tasks(place: Place) -> None:
    task = place.run("tasks", "add", "ada", "--after-days", "15", '{"text": "call"}', "--json").json
    assert [one["requestId"] for one in place.run("tasks", "list", "ada", "--json").json["items"]]
    assert place.run("tasks", "show", "ada", task["requestId"], "--json").json["text"] == "call"
    place.run("tasks", "remove", "ada", task["requestId"])
    assert place.run("tasks", "list", "ada", "--json").json["items"] == []


def test_rules_events_schedules_and_tokens(place: Place) -> None:
    place.write("rules.json", RULE)
    place.run("rules", "apply", "rules.json")
    place.write("event.json", EVENT)
    assert "1 job created" in place.run("events", "send", "event.json").out
    assert "orders" in place.run("events", "list", "--rule", "load").out
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


def test_work_is_done_and_the_processes_are_seen(place: Place) -> None:
    place.write("app.py", APP)
    place.run("jobs", "add", "--queue", "mail", '{"to": "ada"}')
    worked = place.run("worker", "app:cue", "--until-empty")
    assert "mail to ada" in worked.out
    assert PLACES[place.kind] in worked.err
    assert "0 claims seen" in place.run("reclaim", "--dry-run").out
    said = _served(place)
    assert PLACES[place.kind] in said
    assert place.kind == "dynamodb" or f"/postgres {schema_of(place.url)}, schema " in said
    assert place.secret not in said
    place.run("config", "show")


def _served(place: Place) -> str:
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
        if place.kind == "postgresql":  # the server of the tests is not durable
            told = place.run("doctor", "--json", code=1).json
            [found] = [one["text"] for one in told["findings"] if one["name"] == "connections"]
            assert "; 1 process of oncue runs on this store; each may open 12" in found
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(PATIENCE_SECONDS) == 0
        assert serving.stderr is not None
        return str(serving.stderr.read())


def test_a_store_moves_to_a_file(place: Place) -> None:
    with Scheduler(place.url) as cue:
        cue.schedule_many({"queue": "mail", "delay": 60 + n, "payload": n} for n in range(30))
    assert "Dumped 30 jobs and 1 queue" in place.run("dump", "d.ndjson").err
    assert place.secret not in (place.folder / "d.ndjson").read_text()
    assert "Stored 30 jobs" in place.run("restore", "d.ndjson", "--store", "sqlite:///n.db").out
    place.run("restore", "d.ndjson", "--dry-run")
