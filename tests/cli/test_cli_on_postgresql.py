"""What commands say on PostgreSQL only, with a password in the URL that none of them shows."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from oncue import Scheduler
from tests.acceptance.documents import ROOT
from tests.http.test_tour import free_port
from tests.servers.postgres import PostgresServer

from .on_postgresql import CANARY, schema_of, unused_url, with_password
from .on_servers import Place, empty, ready
from .terminal import PATIENCE_SECONDS, environment, run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return ready("postgresql", tmp_path)


def test_the_first_job_creates_the_store_and_says_so(tmp_path: Path) -> None:
    place = empty(tmp_path)
    told = place.run("jobs", "add", "1").err
    assert told.startswith("Created postgresql://postgres:***@127.0.0.1:")
    assert told.endswith("a new and empty store.\n")
    assert place.run("jobs", "add", "2").err == ""


def test_queues_and_what_is_seen_of_them(place: Place) -> None:
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


def test_lists_and_logs_have_what_others_lack(place: Place) -> None:
    place.run("jobs", "add", "--key", "k", "1")
    for choice in ([], ["--key", "k"]):
        assert place.run("jobs", "list", *choice, "--json").json["items"]
    assert place.run("events", "list", "--json").json["items"] == []
    place.run("inbox", "list", code=5)


def test_a_store_is_restored_into_a_schema_that_is_made_for_it(place: Place) -> None:
    place.run("jobs", "add", "--delay", "60", "1")
    place.run("dump", "d.ndjson")
    there = with_password(unused_url())
    told = place.run("restore", "d.ndjson", "--store", f"{there}&migrate=no", code=5).err
    assert told.startswith("Note: the list of processes shows the password in --store")
    assert "\nError: 127.0.0.1:" in told
    assert told.endswith("that 'oncue migrate --dry-run' prints. Nothing was stored.\n")
    told = place.run("restore", "d.ndjson", "--store", there).out
    assert "Stored 1 job" in told
    assert told.endswith(" queues resume default (with the password instead of ***)\n")


def test_a_dump_goes_on_only_from_the_same_schema(place: Place) -> None:
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
            *("long transactions", "replication slots", "connections", "notices"),
            *("server's clock", "locks"),
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
        as_they_are = ["-o", ".venv/installed", "-o", ".venv/installed-postgres"]
        command = ["make", "--no-print-directory", "run", f"BIN={tmp_path}"]
        command += [*as_they_are, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment({}), capture_output=True, text=True, check=True
        ).stdout

    url = "postgresql://u@h/db?schema=s&sslmode=disable"
    assert made(f"STORE={url}") == f"examples/tour.py on {url}\n"
    assert made() == "examples/tour.py on the default\n"
