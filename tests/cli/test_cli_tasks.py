"""`oncue tasks`: the tasks of a user, on a store and on a server alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.server import running_server

from .terminal import Ended, run

Tasks = Callable[..., Ended]


@pytest.fixture(params=["store", "server"])
def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tasks]:
    """Runs `oncue tasks …` on the one or the other."""
    if request.param == "store":
        yield lambda *arguments: run("tasks", *arguments, cwd=tmp_path)
        return
    with running_server(tmp_path, "--no-engine") as server:
        yield lambda *given: run("tasks", *given, cwd=tmp_path, env={"ONCUE_URL": server.url})


def test_a_task_is_added_listed_shown_and_removed(tasks: Tasks) -> None:
    added = tasks("add", "ada", '{"text": "Call Bob"}', "--due-date", "2099-12-01", "--json").json
    request_id = added["requestId"]
    assert str(uuid.UUID(request_id)) == request_id
    assert added == {
        "userId": "ada",
        "requestId": request_id,
        "dueDate": "2099-12-01",
        "status": "SCHEDULED",
        "text": "Call Bob",
    }
    assert tasks("show", "ada", request_id, "--json").json == added
    assert tasks("list", "ada", "--json").json == {"items": [added], "next_cursor": None}
    [_, line] = tasks("list", "ada").out.splitlines()
    assert line.split()[:3] == [request_id, "2099-12-01", "SCHEDULED"]
    assert "Call Bob" in tasks("show", "ada", request_id).out
    removed = tasks("remove", "ada", request_id)
    assert (removed.code, removed.out) == (0, f"Task {request_id} is removed.\n")
    assert tasks("show", "ada", request_id).code == 3
    assert tasks("list", "ada", "--json").json["items"] == []


def test_only_tasks_of_a_status_are_listed(tasks: Tasks) -> None:
    for days in ("1", "2"):
        assert tasks("add", "ada", "--after-days", days).code == 0
    assert len(tasks("list", "ada", "--status", "scheduled", "--json").json["items"]) == 2
    assert tasks("list", "ada", "--status", "FAILED", "--json").json["items"] == []
    first = tasks("list", "ada", "--limit", "1", "--json").json
    after = tasks("list", "ada", "--cursor", first["next_cursor"], "--json").json
    assert first["items"] != after["items"]


def test_the_task_of_another_user_is_not_found(tasks: Tasks) -> None:
    request_id = tasks("add", "ada", "--after-days", "3", "--json").json["requestId"]
    for command in ("show", "remove"):
        refused = tasks(command, "bob", request_id)
        assert (refused.code, refused.out) == (3, "")
        assert "there is no such task of this user" in refused.err
    assert len(tasks("list", "ada", "--json").json["items"]) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["add", "ada"], "Error: give either --due-date YYYY-MM-DD or --after-days N."),
        (["add", "ada", "--due-date", "tomorrow"], "--due-date: must be a date such as 2026-12-01"),
        (["add", "ada", "--after-days", "-1"], "--after-days: must be a whole number from 0"),
        (["add", "", "--after-days", "1"], "USER: must be text of 1 to 200 characters"),
        (["add", "ada", "[]", "--after-days", "1"], "JSON: the content of a task is a JSON object"),
        (["add", "ada", '{"status": 1}', "--after-days", "1"], "JSON /status: the server sets"),
        (["add", "ada", '{"userId": 1}', "--after-days", "1"], "JSON /userId: is not content"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    refused = run("tasks", *arguments, cwd=tmp_path)
    assert refused.code == 2
    assert complaint in refused.err
