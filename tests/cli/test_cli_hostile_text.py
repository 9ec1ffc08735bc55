"""Text that attacks a terminal: shown, and never carried out, whatever command shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue.scheduler import Scheduler
from tests.http.happenings import Happenings
from tests.http.meddler import Meddler, meddling
from tests.http.server import running_server

from .terminal import Terminal, run

HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b[8mhidden \x1b[2Jcleared "
    "\x1b]52;c;ZXZpbA==\x07 \x1bPq\x1b\\ \x9b31m \x9d0;t "
    "\u202ereversed\u2066 \u200b\ufeff \rover \x08\x7f\x85 \u2028 \nforged line \U000e0041"
)
OUR_OWN = re.compile(r"\r\x1b\[K|\x1b\[([01]|3[0-7]|9[0-7])m|\r?\n")
FREE = {
    *("payload", "result", "owner", "key", "error", "message", "worker", "rule", "schedule"),
    *("detail", "title", "sentence", "reason", "resourceId", "eventResourceId", "sink", "host"),
    *("name", "next_cursor", "version", "url", "eventId"),
}
ASKED = [
    *("jobs list", "jobs show hostile", "jobs explain hostile", "jobs list --owner ada --limit 1"),
    *("rules list", "rules show r", "rules explain r", "events list", "schedules list"),
    *("schedules show s", "nodes"),
]


def fill(cue: Scheduler) -> None:
    """A job whose every text is hostile, as far as a server takes it."""
    cue.schedule({HOSTILE: HOSTILE}, queue="q", id="hostile", max_attempts=1, owner="ada")
    [claimed] = cue.claim("q", "w")
    token = cue.token(claimed)
    cue.heartbeat("hostile", token, message=HOSTILE, percent=1)
    cue.operation("hostile", token, "first", "executing", message=HOSTILE)
    cue.operation("hostile", token, "first", "succeeded", result=[HOSTILE])
    cue.fail("hostile", token, HOSTILE)
    cue.schedule(queue="q", id="other", delay=60, owner="ada", key="k")
    cue.put_schedule("s", every_seconds=600, queue="q", payload=HOSTILE, owner="ada")


def spoilt(body: bytes) -> bytes:
    """An answer of a server that adds hostile text to all texts that are free."""
    try:
        return json.dumps(_spoilt(json.loads(body))).encode()
    except ValueError:
        return body


def _spoilt(value: Any, free: bool = False) -> Any:
    if isinstance(value, dict) and "poison_after" in value:  # a queue: a client takes no other
        return value
    if isinstance(value, dict):
        return {name: _spoilt(one, name in FREE) for name, one in value.items()}
    if isinstance(value, list):
        return [_spoilt(one, free) for one in value]
    return value + HOSTILE if free and isinstance(value, str) else value


def shown(*arguments: str, cwd: Path, lines: int = 200) -> str:
    """All that a command writes to a terminal, as long as it ends by itself."""
    env = {"ONCUE_LOG_LEVEL": "DEBUG"}
    with Terminal(*arguments, cwd=cwd, columns=3000, lines=lines, env=env) as terminal:
        terminal.end()
        return terminal.output


def judge(output: str) -> None:
    """Nothing in it does anything but colour our own words and end our own lines."""
    left = OUR_OWN.sub("", output)
    assert left.isprintable(), [hex(ord(c)) for c in left if not c.isprintable()]
    assert "\x1b[31mred" not in output, "a foreign colour"
    assert not re.search("^forged line", output, re.MULTILINE), "a foreign line end"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meddler]:
    """A server whose answers are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    with running_server(folder) as server:
        rule = Happenings(server, "r").hourly()
        rule.post(rule.file_at(0))
        with Scheduler(server.store) as cue:
            fill(cue)
        with meddling(server.url) as proxy:
            proxy.alter = spoilt
            yield proxy


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_no_answer_of_a_server_moves_the_terminal(
    place: Meddler, tmp_path: Path, asked: str, as_json: bool
) -> None:
    options = ["--json"] if as_json else []
    output = shown("--url", place.url, *asked.split(), *options, cwd=tmp_path)
    judge(output)
    assert "reversed" in output, output
    assert "u202e" in output, output


@pytest.mark.parametrize(
    "asked",
    ["jobs cancel hostile", "jobs show nobody", "queues delete q --yes", "queues list", "forecast"],
)
def test_no_refusal_of_a_server_moves_the_terminal(
    place: Meddler, tmp_path: Path, asked: str
) -> None:
    judge(shown("--url", place.url, *asked.split(), cwd=tmp_path))


def test_what_redraws_itself_shows_it_too(place: Meddler, tmp_path: Path) -> None:
    options = ("--url", place.url, "jobs", "list", "--watch")
    with Terminal(*options, cwd=tmp_path, columns=3000) as terminal:
        terminal.expect("u202ereversed")
        terminal.type("q")
        assert terminal.end() == 0
    judge(re.sub(r"\r(?=\r\n)|\x1b\[([HJK]|\?(1049|25)[hl])", "", terminal.output))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = tmp_path_factory.mktemp("store")
    with Scheduler(f"sqlite:///{chosen}/oncue.db") as cue:
        fill(cue)
    return chosen


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("asked", ["jobs list", "jobs show hostile", "schedules show s"])
def test_no_text_of_a_store_moves_the_terminal(folder: Path, asked: str, as_json: bool) -> None:
    output = shown(*asked.split(), *(["--json"] if as_json else []), cwd=folder)
    judge(output)
    assert "u202e" in output


def test_a_dump_on_a_terminal_is_shown_too(folder: Path) -> None:
    output = shown("dump", cwd=folder)
    judge(output)
    assert '"end":' in output
    assert "\\u202ereversed" in output


def test_json_on_a_terminal_still_says_the_same(folder: Path) -> None:
    output = shown("jobs", "show", "hostile", "--json", cwd=folder)
    document = json.loads(output[output.index("{\r\n") :])
    assert document["payload"] == {HOSTILE: HOSTILE}
    assert document["error"] == HOSTILE


def test_json_in_a_pipe_is_exact(folder: Path) -> None:
    piped = run("jobs", "show", "hostile", "--json", cwd=folder)
    assert "\u202ereversed" in piped.out
    assert piped.json["payload"] == {HOSTILE: HOSTILE}
    dumped = run("dump", cwd=folder)
    assert "\u202ereversed" in dumped.out


def test_a_line_of_a_dump_that_is_refused_moves_nothing(tmp_path: Path) -> None:
    for number, line in enumerate(
        [HOSTILE, json.dumps({HOSTILE: 1}), '{"job": {"state": "\x9b"}}']
    ):
        path = tmp_path / f"{number}.ndjson"
        header = {
            "format": "oncue-dump",
            "version": 1,
            "oncue": HOSTILE,
            "created_at": "",
            "store": {},
        }
        path.write_text(json.dumps({"header": header}) + "\n" + line + "\n")
        judge(shown("restore", str(path), cwd=tmp_path))
    header["version"] = 9
    path.write_text(json.dumps({"header": header}) + "\n")
    judge(shown("restore", str(path), cwd=tmp_path))
