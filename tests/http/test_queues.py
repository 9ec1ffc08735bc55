"""Queues: settings, counts, pausing, limits, retention."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.patience import until
from tests.http.server import Server, running_server

OVERTAKING_SECONDS = 0.1  # whoever read the clock first may come to the store second
SETTINGS: dict[str, Any] = {
    "sink": "log:",
    "completion": "worker",
    "max_attempts": 7,
    "retry": {"initial_seconds": 2, "factor": 3, "max_seconds": 50},
    "lease_seconds": 30,
    "timeout_seconds": 90,
    "rate_per_second": 100,
    "concurrency": 5,
    "poison_after": 0,
    "retention_seconds": 3600,
}
DEFAULTS: dict[str, Any] = {
    "sink": None,
    "completion": "worker",
    "max_attempts": 3,
    "retry": {"initial_seconds": 1, "factor": 2, "max_seconds": 100},
    "lease_seconds": 60,
    "timeout_seconds": None,
    "rate_per_second": None,
    "concurrency": None,
    "poison_after": 3,
    "retention_seconds": 7 * 86_400,
}


def settings(queue: Any) -> dict[str, Any]:
    return {name: queue[name] for name in DEFAULTS}


def test_a_queue_that_nobody_set_has_the_defaults(server: Server) -> None:
    reply = server.get("/queues/unheard-of")
    assert reply.status == 200
    assert settings(reply.json) == DEFAULTS
    assert reply.json["paused"] is False


def test_put_replaces_all_settings(server: Server) -> None:
    assert settings(server.put("/queues/set", SETTINGS).json) == SETTINGS
    assert settings(server.get("/queues/set").json) == SETTINGS
    reply = server.put("/queues/set", {"max_attempts": 9})
    assert settings(reply.json) == {**DEFAULTS, "max_attempts": 9}


def test_put_leaves_a_paused_queue_paused(server: Server) -> None:
    assert server.post("/queues/still/pause").json["paused"] is True
    assert server.put("/queues/still", {"max_attempts": 9}).json["paused"] is True
    reply = server.put("/queues/still", {"paused": False})
    assert (reply.status, reply.pointer) == (422, "/paused")
    assert server.post("/queues/still/resume").json["paused"] is False


@pytest.mark.parametrize(
    "sink", ["carrier-pigeon:", "nonsense", "", "file:///etc/passwd", "LOG", "memory:x"]
)
def test_an_unknown_sink_is_refused_with_those_that_exist(server: Server, sink: str) -> None:
    server.put("/queues/sinks", {"max_attempts": 5})
    reply = server.put("/queues/sinks", {"sink": sink})
    assert (reply.status, reply.pointer) == (422, "/sink")
    assert "log:" in reply.json["detail"]
    assert settings(server.get("/queues/sinks").json) == {**DEFAULTS, "max_attempts": 5}


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"completion": "delivery"}, "/completion"),
        ({"completion": "maybe"}, "/completion"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"max_attempts": 21}, "/max_attempts"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"lease_seconds": -1}, "/lease_seconds"),
        ({"timeout_seconds": 0}, "/timeout_seconds"),
        ({"rate_per_second": 0}, "/rate_per_second"),
        ({"rate_per_second": "fast"}, "/rate_per_second"),
        ({"concurrency": 0}, "/concurrency"),
        ({"concurrency": 1.5}, "/concurrency"),
        ({"poison_after": -1}, "/poison_after"),
        ({"poison_after": 101}, "/poison_after"),
        ({"poison_after": None}, "/poison_after"),
        ({"max_attempts": None}, "/max_attempts"),
        ({"retention_seconds": -1}, "/retention_seconds"),
        ({"retention_seconds": 1e300}, "/retention_seconds"),
        ({"retry": {"factor": 0.5}}, "/retry/factor"),
        ({"retry": {"initial_seconds": -1}}, "/retry/initial_seconds"),
        ({"retry": {"colour": 1}}, "/retry/colour"),
        ({"colour": 1}, "/colour"),
        ({"name": "other"}, "/name"),
    ],
)
def test_a_wrong_setting_is_named_and_changes_nothing(
    server: Server, fields: object, pointer: str
) -> None:
    reply = server.put("/queues/wrong", fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert settings(server.get("/queues/wrong").json) == DEFAULTS


@pytest.mark.parametrize("wrong", [1.5, "x", True, [], -1, 100_001])
@pytest.mark.parametrize(
    ("setting", "bounds"),
    [
        ("max_attempts", "from 1 to 20."),
        ("concurrency", "from 1 to 100,000; leave it out for no bound."),
        ("poison_after", "from 0 to 100; 0 for never."),
    ],
)
def test_a_setting_that_is_no_whole_number_within_its_bounds_is_told_them(
    server: Server, setting: str, bounds: str, wrong: object
) -> None:
    [error] = server.put("/queues/wrong", {setting: wrong}).json["errors"]
    assert error == {"pointer": f"/{setting}", "detail": f"must be a whole number {bounds}"}


@pytest.mark.parametrize("name", ["%C3%BC", "a%2Fb", "-a", "a" * 81, "%00"])
def test_a_name_that_no_queue_can_have_is_refused(server: Server, name: str) -> None:
    for reply in (
        server.get(f"/queues/{name}"),
        server.put(f"/queues/{name}", {}),
        server.post(f"/queues/{name}/pause"),
        server.post(f"/queues/{name}/claim"),
    ):
        assert reply.status == 422
        assert "queue" in reply.pointer


def test_a_queue_counts_its_jobs_by_state_and_knows_the_oldest(server: Server) -> None:
    first = created(server, "counted")
    created(server, "counted", delay=600)
    cancelled = created(server, "counted")
    server.delete(f"/jobs/{cancelled}")
    queue = server.get("/queues/counted").json
    assert queue["counts"] == {
        "scheduled": 2,
        "dispatched": 0,
        "executing": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 1,
    }
    assert queue["oldest_due_at"] == server.get(f"/jobs/{first}").json["due_at"]
    [job] = taken(server, "counted")
    told(server, job, "complete")
    queue = server.get("/queues/counted").json
    assert (queue["counts"]["scheduled"], queue["counts"]["succeeded"]) == (1, 1)
    lateness = queue["lateness"]
    assert 0 <= lateness["p50_seconds"] <= lateness["p99_seconds"]


def test_nothing_is_claimed_while_a_queue_is_paused(server: Server) -> None:
    job_id = created(server, "paused")
    assert server.post("/queues/paused/pause").status == 200
    assert taken(server, "paused") == []
    assert state(server, job_id) == "scheduled"
    server.post("/queues/paused/resume")
    assert [job["id"] for job in taken(server, "paused")] == [job_id]


def test_nothing_is_delivered_while_a_queue_is_paused(server: Server) -> None:
    server.put("/queues/paused-sink", {"sink": "log:"})
    server.post("/queues/paused-sink/pause")
    held = created(server, "paused-sink")
    server.put("/queues/flowing", {"sink": "log:"})
    other = created(server, "flowing")
    until(lambda: state(server, other) == "succeeded")
    assert state(server, held) == "scheduled"
    server.post("/queues/paused-sink/resume")
    until(lambda: state(server, held) == "succeeded")


def test_a_job_taken_before_the_pause_is_finished_during_it(server: Server) -> None:
    job = one_taken(server, "finishing")
    server.post("/queues/finishing/pause")
    assert told(server, job, "complete").status == 200


# -- retention -------------------------------------------------------------------------------------


def test_without_retention_a_job_is_gone_when_settled(server: Server) -> None:
    server.put("/queues/gone", {"retention_seconds": 0})
    job = one_taken(server, "gone")
    assert server.get(f"/jobs/{job['id']}").status == 200
    assert told(server, job, "complete").json["state"] == "succeeded"
    assert server.get(f"/jobs/{job['id']}").status == 404
    job = one_taken(server, "gone")
    assert told(server, job, "fail", error="x", retryable=False).json["state"] == "failed"
    assert server.get(f"/jobs/{job['id']}").status == 404
    server.put("/queues/gone-sink", {"sink": "log:", "retention_seconds": 0})
    job_id = created(server, "gone-sink")
    until(lambda: server.get(f"/jobs/{job_id}").status == 404)


def test_without_retention_a_retry_is_not_gone(server: Server) -> None:
    server.put("/queues/unfinished", {"retention_seconds": 0})
    job = one_taken(server, "unfinished")
    assert told(server, job, "fail", error="x", retry_after=600).json["state"] == "scheduled"
    assert state(server, job["id"]) == "scheduled"


def test_null_keeps_what_is_finished(server: Server) -> None:
    queue = server.put("/queues/kept", {"retention_seconds": None}).json
    assert queue["retention_seconds"] is None
    job = one_taken(server, "kept")
    told(server, job, "complete")
    assert state(server, job["id"]) == "succeeded"


# -- limits, across processes ----------------------------------------------------------------------


def test_concurrency_holds_across_processes(server: Server) -> None:
    server.put("/queues/narrow", {"concurrency": 3})
    for _ in range(8):
        created(server, "narrow")
    with running_server(server.folder) as other:
        mine = taken(server, "narrow", limit=2)
        theirs = taken(other, "narrow", limit=8)
        assert (len(mine), len(theirs)) == (2, 1)
        assert taken(server, "narrow", limit=8) == taken(other, "narrow", limit=8) == []
        with ThreadPoolExecutor(1) as hands:
            wish = {"wait_seconds": 30, "limit": 8}
            waiting = hands.submit(other.post, "/queues/narrow/claim", wish)
            assert told(server, mine[0], "complete").status == 200
            assert len(waiting.result().json["items"]) == 1


def test_concurrency_holds_for_a_sink(server: Server) -> None:
    server.put("/queues/narrow-sink", {"sink": "log:", "completion": "worker", "concurrency": 2})
    for _ in range(5):
        created(server, "narrow-sink")

    def counts() -> Any:
        return server.get("/queues/narrow-sink").json["counts"]

    for done in (0, 2, 4):
        out = until(partial(handed_over, server, min(2, 5 - done)))
        assert counts()["dispatched"] <= 2
        for job_id in out:
            assert server.post(f"/jobs/{job_id}/complete", {"force": True}).status == 200
    assert counts()["succeeded"] == 5


def handed_over(server: Server, wanted: int) -> list[str]:
    items = server.get("/jobs?queue=narrow-sink&state=dispatched").json["items"]
    return [job["id"] for job in items] if len(items) >= wanted else []


def test_a_rate_holds_across_processes(tmp_path: Path) -> None:
    """Ten a second, twelve jobs, two processes that ask all the time: by the moments that the
    store wrote down, the first and the last are at least eleven turns apart."""
    rate, jobs = 10.0, 12
    with running_server(tmp_path) as one, running_server(tmp_path) as two:
        one.put("/queues/slow", {"rate_per_second": rate})
        ids = [created(one, "slow") for _ in range(jobs)]
        with ThreadPoolExecutor(2) as hands:
            wish = {"wait_seconds": 5, "limit": 3}
            found: list[str] = []
            while len(found) < jobs:
                asked = [hands.submit(s.post, "/queues/slow/claim", wish) for s in (one, two)]
                found += [job["id"] for reply in asked for job in reply.result().json["items"]]
        assert sorted(found) == sorted(ids)
        histories = [one.get(f"/jobs/{job_id}").json["attempts"] for job_id in ids]
    moments = sorted(datetime.fromisoformat(history[0]["claimed_at"]) for history in histories)
    spread = (moments[-1] - moments[0]).total_seconds()
    assert spread >= (jobs - 1) / rate - OVERTAKING_SECONDS


def test_a_queue_is_deleted_with_its_finished_jobs(server: Server) -> None:
    server.put("/queues/d-done", SETTINGS | {"sink": None})
    job = created(server, queue="d-done", delay=60)
    assert server.delete(f"/jobs/{job}").status == 200
    reply = server.delete("/queues/d-done")
    assert (reply.status, reply.body) == (204, b"")
    assert server.get(f"/jobs/{job}").status == 404
    assert "d-done" not in [one["name"] for one in server.get("/queues?limit=500").json["items"]]
    assert settings(server.get("/queues/d-done").json) == DEFAULTS
    again = server.delete("/queues/d-done")
    assert (again.status, "d-done" in again.json["detail"]) == (404, True)
    assert 'queue="d-done"' not in server.get("/metrics").body.decode()


def test_a_queue_that_is_in_use_is_not_deleted_and_the_problem_says_why(server: Server) -> None:
    job = created(server, queue="d-used", delay=60)
    refused = server.delete("/queues/d-used")
    assert (refused.status, "unfinished jobs" in refused.json["detail"]) == (409, True)
    assert state(server, job) == "scheduled"
    server.delete(f"/jobs/{job}")
    server.put("/schedules/d-nightly", {"every_seconds": 86_400, "queue": "d-used"})
    assert "schedule 'd-nightly'" in server.delete("/queues/d-used").json["detail"]
    server.delete("/schedules/d-nightly")
    waits = {"type": "TABLE", "resourceId": "d", "lifeDuration": 0}
    server.put("/rules/d-rule", {"name": "d-rule", "dependencies": [waits], "queue": "d-used"})
    assert "rule 'd-rule'" in server.delete("/queues/d-used").json["detail"]
    server.delete("/rules/d-rule")
    assert server.delete("/queues/d-used").status == 204
    for name in ("default", "tasks", "rules"):
        built_in = server.delete(f"/queues/{name}")
        assert (built_in.status, "built in" in built_in.json["detail"]) == (409, True)


@pytest.mark.parametrize("path", ["/queues/a%20b", "/queues/d-done?x=1"])
def test_a_deletion_that_makes_no_sense_is_refused(server: Server, path: str) -> None:
    assert server.delete(path).status == 422
