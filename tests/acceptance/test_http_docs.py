"""docs/http.md: every command is carried out, in order, and answered as it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from oncue import Scheduler
from oncue.core.access import Scope
from oncue.usecases.tokens import Access
from oncue.wire.problems import TITLES
from oncue.wire.queues import QueueSettings
from tests.http.server import Server, running_server

from .documents import PATIENCE_SECONDS, read

GUIDE = "docs/http.md"
ORIGIN = "http://127.0.0.1:8420"
_STEP = re.compile(r"^```bash\n(.*?)^```$(?:\s*^```json\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    commands: list[str]
    answer: Any
    """The part of the last command's answer that is shown, if any is."""


STEPS = [
    Step(commands.splitlines(), json.loads(answer) if answer else None)
    for commands, answer in _STEP.findall(read(GUIDE))
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("guide")) as running:
        yield running


class Reader:
    """Somebody who types what the guide says and keeps the id and the token of the last claim, and
    the last cursor."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._kept = {"ONCUE_TOKEN": "unused"}

    def type(self, command: str) -> Any:
        done = subprocess.run(
            ["sh", "-c", command.replace(ORIGIN, self._url)],
            env={**os.environ, **self._kept},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        answer = json.loads(done.stdout)
        if cursor := answer.get("next_cursor"):
            self._kept["CURSOR"] = cursor
        for claimed in answer.get("items", []):
            if "token" in claimed:
                self._kept |= {"ID": claimed["id"], "TOKEN": claimed["token"]}
        return answer


def shows(shown: Any, answered: Any) -> bool:
    """Whether all that is shown is in the answer, which may say more."""
    match shown, answered:
        case dict(), dict():
            return all(name in answered and shows(shown[name], answered[name]) for name in shown)
        case list(), list():
            return len(shown) == len(answered) and all(map(shows, shown, answered))
    return bool(shown == answered)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide speaks curl")
def test_every_command_is_answered_as_the_guide_says(server: Server) -> None:
    reader = Reader(server.url)
    for commands, answer in STEPS:
        for command in commands:
            answered = reader.type(command)
        assert answer is None or shows(answer, answered), (commands, answered)


def test_there_are_commands_and_most_show_their_answer() -> None:
    shown = [step for step in STEPS if step.answer is not None]
    assert len(shown) >= 20
    assert len(STEPS) - len(shown) <= 2


def test_what_is_shown_must_be_in_the_answer() -> None:
    assert shows({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3})
    assert not shows({"a": 1}, {"a": 2})
    assert not shows({"a": 1}, {"b": 1})
    assert not shows([1], [1, 2])


def test_a_token_of_the_guide_s_scopes_may_look(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("access")
    with Scheduler(f"sqlite:///{folder / 'jobs.db'}") as cue:
        _, token = Access(cue.store, cue.clock).create("ci", [Scope.READ, Scope.WRITE])
    with running_server(folder) as guarded:
        assert guarded.get("/jobs").status == 401
        bearer = {"Authorization": f"Bearer {token}"}
        assert guarded.get("/jobs", headers=bearer).status == 200
        assert guarded.post("/queues/mail/claim", headers=bearer).status == 403


def test_the_guide_lists_every_kind_of_problem_in_order_of_status() -> None:
    table = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", read(GUIDE), re.MULTILINE)
    assert {kind for kind, _ in table} == set(TITLES)
    assert [status for _, status in table] == sorted(status for _, status in table)


def test_the_guide_speaks_of_every_setting_of_a_queue_and_every_scope() -> None:
    table = re.findall(r"^\| `(\w+)` \|", read(GUIDE), re.MULTILINE)
    assert {*QueueSettings.__struct_fields__, *Scope} <= set(table)
