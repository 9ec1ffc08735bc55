"""A task whose last attempt times out shows FAILED, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue import Scheduler
from oncue.core import token
from tests.http.patience import until
from tests.http.server import Server, running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path) as running:
        yield running


def test_a_task_whose_third_attempt_times_out_has_failed_with_the_diagnostic_as_its_error(
    server: Server,
) -> None:
    task = server.post("/tasks", {"userId": "ada", "afterDays": 0}).json
    task_id = task["requestId"]

    def attempt(number: int) -> Any:
        job = server.get(f"/jobs/{task_id}").json
        return job if (job["attempt"], job["state"]) == (number, "dispatched") else None

    for number in (1, 2, 3):
        until(lambda: attempt(number))  # noqa: B023
        with Scheduler(server.store) as cue:
            proof = token.sign(cue.store.secret, task_id, cue.job(task_id).epoch)
        fields = {"token": proof, "state": "succeeded", "result": number}
        assert server.put(f"/jobs/{task_id}/operations/step-{number}", fields).status == 200
        assert server.get(f"/tasks/ada/{task_id}").json["status"] == "STARTED"
        until(lambda: server.post("/reclaim", {"reclaimAgeMinutes": 0.0001}).json["reclaimed"])
    shown = server.get(f"/tasks/ada/{task_id}").json
    job = server.get(f"/jobs/{task_id}").json
    assert (shown["status"], job["state"], job["attempt"]) == ("FAILED", "failed", 3)
    last = job["diagnostics"][-1]
    assert (last["code"], shown["error"]) == ("timeout_executing", last["detail"])
    assert {one["state"] for one in job["operations"]} == {"succeeded"}
