"""What people are told to type works: by `make run`, and by the README."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.acceptance.documents import ROOT, blocks
from tests.http.server import Server

PATIENCE_SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(line: str) -> Any:
    """What a curl line that was printed is answered with."""
    words = shlex.split(line)
    url = next(word for word in words if word.startswith("http"))
    body = words[words.index("-d") + 1] if "-d" in words else None
    headers = {"Content-Type": "application/json"} if "-H" in words else {}
    method = "POST" if body else "GET"
    answer = urllib3.request(method, url, body=body, headers=headers, timeout=PATIENCE_SECONDS)
    assert answer.status < 300, answer.data
    return json.loads(answer.data)


def test_the_lines_that_make_run_prints_work_one_after_the_other(tmp_path: Path) -> None:
    port = free_port()
    tour = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "tour.py")],
        cwd=tmp_path,
        env={"ONCUE_PORT": str(port), "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tour.stdout is not None
    assert tour.stderr is not None
    listening = threading.Event()
    said: list[str] = []

    def read() -> None:
        assert tour.stderr is not None
        for line in tour.stderr:
            said.append(line)
            if "Listening" in line:
                listening.set()
        listening.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert listening.wait(PATIENCE_SECONDS)
        printed = ""
        while "Ctrl-C" not in printed:
            line = tour.stdout.readline()
            assert line, "".join(said)  # it has ended
            printed += line
        create, claim, complete, tasks = re.findall(r"^  (curl .*)$", printed, re.MULTILINE)
        assert asked(create)["queue"] == "tour"
        [job] = asked(claim)["items"]
        assert job["payload"]["to"] == "ada"
        told = complete.replace("ID", job["id"]).replace("TOKEN", job["token"])
        assert asked(told)["state"] == "succeeded"
        assert [task["status"] for task in asked(tasks)["items"]] == ["SCHEDULED"]
    finally:
        tour.send_signal(signal.SIGTERM)
        tour.wait(PATIENCE_SECONDS)
        reader.join(PATIENCE_SECONDS)
        tour.stdout.close()
        tour.stderr.close()
    assert tour.returncode == 0, "".join(said)


def test_the_tour_is_not_printed_at_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        ended = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "tour.py")],
            cwd=tmp_path,
            env={"ONCUE_PORT": str(other.getsockname()[1]), "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: cannot listen on 127.0.0.1:")
    assert ended.stderr.endswith("Choose another port with --port or ONCUE_PORT.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("variable", "word"), [("8421", ""), ("", "ONCUE_PORT=8421"), ("8422", "ONCUE_PORT=8421")]
)
def test_make_run_may_be_given_a_port(tmp_path: Path, variable: str, word: str) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$ONCUE_PORT"\n')
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "ONCUE_PORT": variable}
    command = ["make", "--old-file=.venv/installed", "run", f"BIN={tmp_path}", word]
    ended = subprocess.run(command[: 5 if word else 4], cwd=ROOT, env=env, capture_output=True)
    assert ended.stdout == b"8421\n"


def test_the_curl_lines_of_the_readme_work_one_after_the_other(server: Server) -> None:
    [block] = blocks("README.md", "bash")
    lines = block.text.replace("\\\n", " ").replace("localhost:8420", server.url).splitlines()
    create, claim, complete = lines
    created = asked(create)
    [job] = asked(claim)["items"]
    assert (job["id"], job["payload"]) == (created["id"], {"to": "ada"})
    told = complete.replace("ID", job["id"]).replace("TOKEN", job["token"])
    assert asked(told)["state"] == "succeeded"


@pytest.mark.parametrize(
    ("given", "taken"), [([], ""), (["STORE=sqlite"], ""), (["STORE=jobs.db"], "jobs.db")]
)
def test_make_run_passes_on_any_store_that_it_is_given(
    tmp_path: Path, given: list[str], taken: str
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$ONCUE_STORE"\n')
    python.chmod(0o755)
    env = {"PATH": os.environ["PATH"]}
    command = ["make", "--old-file=.venv/installed", "run", f"BIN={tmp_path}", *given]
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert ended.stdout == f"{taken}\n"
