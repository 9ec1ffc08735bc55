"""Running a server: is it alive, is it ready, what does it measure, what does its log say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from oncue import Scheduler, __version__
from oncue.stores.sqlite.connection import BUSY_MS
from tests.http.errand import created, one_taken, state, told
from tests.http.patience import until
from tests.http.server import Server, running_server


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Server]:
    """A server whose store may be broken."""
    with running_server(tmp_path, ONCUE_LOG_LEVEL="INFO", ONCUE_LOG_FORMAT="json") as server:
        yield server


def damage(server: Server, *statements: str) -> None:
    """Change the store behind the server's back. The server writes as well: wait for the lock, and
    take it before reading, because a read cannot become a write once somebody else has written."""
    connection = apsw.Connection(str(server.folder / "jobs.db"))
    connection.set_busy_timeout(BUSY_MS)
    try:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        connection.close()


def logged(server: Server, **fields: Any) -> Any:
    """The first line of the log that has these fields."""

    def look() -> Any:
        lines = [json.loads(line) for line in list(server.said) if line.startswith("{")]
        return next((line for line in lines if fields.items() <= line.items()), None)

    return until(look)


def test_a_server_is_alive_and_ready(server: Server) -> None:
    assert server.get("/livez").json == {"status": "alive", "version": __version__}
    ready = server.get("/readyz")
    assert (ready.status, ready.json["status"], ready.json["store"]) == (200, "ready", "sqlite")
    assert ready.json["schema"] >= 1


def test_a_broken_store_is_not_ready_but_the_process_is_alive(own: Server) -> None:
    assert own.get("/readyz").status == 200
    damage(own, "ALTER TABLE queues RENAME TO elsewhere")
    until(lambda: own.get("/readyz").status == 503)
    reply = own.get("/readyz")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["type"].endswith("/store-unavailable")
    assert str(own.folder) not in reply.json["detail"]
    assert int(reply.headers["retry-after"]) >= 1
    assert own.get("/livez").status == 200
    damage(own, "ALTER TABLE elsewhere RENAME TO queues")
    until(lambda: own.get("/readyz").status == 200)


@pytest.mark.parametrize(
    "damages", ["DROP TABLE events", "PRAGMA user_version = 99", "PRAGMA user_version = 1"]
)
def test_a_lost_table_or_another_schema_is_not_ready(own: Server, damages: str) -> None:
    assert own.get("/readyz").status == 200
    damage(own, damages)
    assert own.get("/readyz").status == 503


def test_a_backup_that_is_put_in_place_under_a_server_outlives_its_end(tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    with Scheduler(f"sqlite:///{backup}") as cue:
        cue.schedule_many(({"delay": 3600} for _ in range(3000)), queue="backup")
    with running_server(tmp_path) as first:
        for _ in range(30):
            assert first.post("/jobs", {"queue": "old", "delay": 3600}).status == 201
        os.replace(backup, tmp_path / "jobs.db")
        until(lambda: first.post("/jobs", {}).status == 503)
        assert first.stop() == 0
    with running_server(tmp_path) as second:
        assert second.get("/queues/backup").json["counts"]["scheduled"] == 3000
        assert [queue["name"] for queue in second.get("/queues").json["items"]] == ["backup"]


def test_a_store_that_cannot_say_who_may_ask_lets_nobody_in(own: Server) -> None:
    damage(own, "ALTER TABLE access_tokens RENAME TO elsewhere")
    until(lambda: own.get("/jobs").status == 503)
    assert own.post("/jobs", {}).status == 503
    assert own.get("/access").status == 503  # not 401: no token would help
    assert own.get("/livez").status == 200


# -- metrics ---------------------------------------------------------------------------------------


def test_metrics_are_named_as_promised(server: Server) -> None:
    created(server, "measured", delay=600)
    lost = one_taken(server, "measured", lease_seconds=0.05)
    server.put("/queues/measured-sink", {"sink": "log:"})
    delivered = created(server, "measured-sink")
    until(lambda: state(server, delivered) == "succeeded")
    until(lambda: state(server, lost["id"]) == "scheduled")
    assert told(server, lost, "complete").status == 409
    wanted = [
        r"^# TYPE oncue_lateness_seconds histogram$",
        r'^oncue_lateness_seconds_bucket{le="\+Inf",queue="measured-sink"} 1.0$',
        r'^oncue_jobs{queue="measured",state="scheduled"} 2.0$',
        r'^oncue_jobs{queue="measured-sink",state="succeeded"} 1.0$',
        r'^oncue_oldest_due_seconds{queue="measured"} ',
        r'^oncue_deliveries_total{outcome="delivered",queue="measured-sink"} 1.0$',
        r"^oncue_fenced_writes_total 1.0$",
        r'^oncue_reclaimed_total{outcome="retried"} [1-9]',
        r'^oncue_http_requests_total{method="POST",route="/jobs",status="201"} [1-9]',
    ]

    def missing() -> list[str]:
        text = server.get("/metrics").body.decode()
        return [line for line in wanted if not re.search(line, text, re.MULTILINE)]

    last: list[list[str]] = []

    def complete() -> bool:
        last.append(missing())
        return not last[-1]

    try:
        until(complete)
    finally:
        assert last[-1] == []
    assert server.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_what_callers_make_up_does_not_become_a_metric(server: Server) -> None:
    server.get("/made-up-path")
    server.get("/jobs/made-up-id")
    text = server.get("/metrics").body.decode()
    assert "made-up" not in text
    assert 'route="/jobs/{id}"' in text


def test_a_deleted_file_makes_the_server_not_ready_and_nothing_is_acknowledged(own: Server) -> None:
    created(own, "before")
    for file in own.folder.glob("jobs.db*"):
        file.unlink()
    until(lambda: own.get("/readyz").status == 503)
    reply = own.post("/jobs", {})
    assert reply.status == 503
    assert "The log of the server tells what to do" in reply.json["detail"]
    until(lambda: "was deleted or replaced while it was in use" in own.log)
    assert own.get("/livez").status == 200


# -- request ids and the log -----------------------------------------------------------------------


def test_every_answer_has_a_request_id_and_a_plain_one_is_kept(server: Server) -> None:
    seen = {server.get(path).headers["x-request-id"] for path in ("/livez", "/jobs", "/nowhere")}
    assert len(seen) == 3
    reply = server.get("/livez", headers={"X-Request-Id": "trace-7.A_b"})
    assert reply.headers["x-request-id"] == "trace-7.A_b"
    for strange in ("", "a b", "a" * 65, "<x>", "a\tb"):
        reply = server.get("/livez", headers={"X-Request-Id": strange})
        assert re.fullmatch(r"[0-9a-f]{16}", reply.headers["x-request-id"])


def test_a_crash_is_a_500_that_the_log_explains(own: Server) -> None:
    """A row that no version of the program can have written."""
    job_id = created(own, "crash", payload={"card": "4711-4711"}, delay=600)
    damage(own, f"UPDATE jobs SET state = 'bewitched' WHERE id = '{job_id}'")
    reply = own.get(f"/jobs/{job_id}", headers={"X-Request-Id": "crashed-1"})
    assert reply.status == 500
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["type"] == "/problems/internal"
    assert reply.json["request_id"] == reply.headers["x-request-id"] == "crashed-1"
    for secret in ("Traceback", "File", "bewitched", ".py"):
        assert secret not in reply.body.decode()
    line = logged(own, level="ERROR", request_id="crashed-1")
    assert "rows.py" in line["message"]
    assert "4711" not in own.log
    assert own.post("/jobs", {}).status == 201


def test_the_log_is_a_line_of_json_for_each_request(own: Server) -> None:
    job_id = created(own, "logged")
    line = logged(own, path="/jobs", status=201)
    assert (line["method"], line["job_id"], line["level"]) == ("POST", job_id, "INFO")
    assert line["request_id"]
    assert line["ms"] >= 0
    own.delete(f"/jobs/{job_id}", headers={"X-Request-Id": "mine"})
    assert logged(own, request_id="mine")["job_id"] == job_id


def test_a_path_cannot_write_lines_of_its_own_into_the_log(own: Server) -> None:
    own.get("/jobs/a%0Aforged", headers={"X-Request-Id": "forged"})
    line = logged(own, request_id="forged")
    assert line["path"] == "/jobs/a%0Aforged"
    assert "\n" not in line["message"]
