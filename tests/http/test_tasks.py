"""Tasks for users: scheduled for a date, history per user, removal while scheduled."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from oncue import Scheduler
from oncue.api.routes.jobs import derived_id
from oncue.usecases import intake, tasks
from tests.http.errand import state
from tests.http.patience import until
from tests.http.server import Reply, Server

FAR = "2099-12-01"
FORCE = {"force": True}


def scheduled(server: Server, user: Any, **fields: Any) -> Any:
    reply = server.post("/tasks", {"userId": user, "dueDate": FAR, **fields})
    assert reply.status == 201, reply.body
    return reply.json


def seen(server: Server, task: Any) -> Reply:
    return server.get(f"/tasks/{quote(task['userId'], safe='')}/{task['requestId']}")


def started(server: Server, user: str) -> Any:
    """A task that was handed over."""
    task = scheduled(server, user, dueDate="2020-01-01")
    until(lambda: seen(server, task).json["status"] == "STARTED")
    return task


def history(server: Server, user: str, limit: int = 50) -> list[Any]:
    items: list[Any] = []
    place = f"/tasks/{quote(user, safe='')}?limit={limit}"
    page = server.get(place).json
    while True:
        assert len(page["items"]) <= limit
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        page = server.get(f"{place}&cursor={page['next_cursor']}").json


def test_a_task_is_scheduled_for_a_user_on_a_date(server: Server) -> None:
    sent = {"userId": "1234", "dueDate": FAR, "type": "follow-up", "mail": {"to": "a@b.example"}}
    reply = server.post("/tasks", sent)
    assert reply.status == 201
    request_id = reply.json["requestId"]
    assert reply.json == {**sent, "requestId": request_id, "status": "SCHEDULED"}
    assert reply.headers["location"] == f"/tasks/1234/{request_id}"
    assert server.get(reply.headers["location"]).json == reply.json


def test_a_task_may_be_due_after_days(server: Server) -> None:
    task = server.post("/tasks", {"userId": "days", "afterDays": 15}).json
    job = server.get(f"/jobs/{task['requestId']}").json
    made = datetime.fromisoformat(job["created_at"]).date()
    assert date.fromisoformat(task["dueDate"]) == made + timedelta(days=15)
    assert "afterDays" not in task


def test_a_task_is_a_job_due_at_midnight_utc(server: Server) -> None:
    task = scheduled(server, "as-job", note="x")
    job = server.get(f"/jobs/{task['requestId']}").json
    assert (job["queue"], job["owner"]) == ("tasks", "as-job")
    assert job["due_at"] == f"{FAR}T00:00:00.000Z"
    assert job["payload"]["note"] == "x"


def test_the_queue_of_tasks_is_there_from_the_start(server: Server) -> None:
    queue = server.get("/queues/tasks").json
    assert (queue["sink"], queue["completion"]) == ("log:", "worker")
    assert (queue["timeout_seconds"], queue["retention_seconds"]) == (None, None)


def test_a_past_date_is_due_at_once_and_handed_over(server: Server) -> None:
    task = scheduled(server, "past", dueDate="1999-12-31")
    assert (task["status"], task["dueDate"]) == ("SCHEDULED", "1999-12-31")
    until(lambda: seen(server, task).json["status"] == "STARTED")
    assert seen(server, task).json["dueDate"] == "1999-12-31"


def test_a_started_task_is_completed_on_an_administrators_word(server: Server) -> None:
    task = started(server, "completed")
    reply = server.post(f"/jobs/{task['requestId']}/complete", FORCE)
    assert (reply.status, reply.json["state"]) == (200, "succeeded")
    assert seen(server, task).json["status"] == "COMPLETED"
    assert [one["status"] for one in history(server, "completed")] == ["COMPLETED"]


def test_completing_needs_a_token_or_force(server: Server) -> None:
    task = started(server, "unforced")
    for body in ({}, {"result": 1}, {"force": False}, {"token": None}):
        reply = server.post(f"/jobs/{task['requestId']}/complete", body)
        assert (reply.status, reply.pointer) == (422, "/token")
    assert seen(server, task).json["status"] == "STARTED"


def test_the_id_of_a_task_is_a_uuid(server: Server) -> None:
    task = scheduled(server, "uuids")
    assert str(UUID(task["requestId"])) == task["requestId"]
    assert server.get(f"/jobs/{task['requestId']}").json["queue"] == "tasks"
    header = {"Idempotency-Key": "once"}
    body = {"userId": "uuids", "dueDate": FAR}
    keyed = [server.post("/tasks", body, headers=header).json for _ in range(2)]
    assert keyed[0] == keyed[1]
    assert str(UUID(keyed[0]["requestId"])) == keyed[0]["requestId"]


def test_a_task_of_an_earlier_version_keeps_its_id_and_its_key(server: Server) -> None:
    body = {"userId": "earlier", "dueDate": FAR}
    header = {"Idempotency-Key": "kept"}
    with Scheduler(server.store) as cue:
        fields = dict(body)
        job = tasks.as_job(fields, cue.clock.now(), derived_id("kept"))
        new = intake.new_job(job, cue.clock.now())._replace(digest=intake.digests(body).digest)
        cue.store.insert([new], cue.clock.now())
    again = server.post("/tasks", body, headers=header)
    assert (again.status, again.json["requestId"]) == (201, derived_id("kept"))
    assert len(history(server, "earlier")) == 1
    assert seen(server, again.json).status == 200


def test_an_early_start_keeps_the_date(server: Server) -> None:
    task = scheduled(server, "early")
    assert server.post(f"/jobs/{task['requestId']}/run").status == 200
    until(lambda: seen(server, task).json["status"] == "STARTED")
    assert seen(server, task).json["dueDate"] == FAR
    server.post(f"/jobs/{task['requestId']}/complete", FORCE)
    assert seen(server, task).json["dueDate"] == FAR


def test_tasks_are_listed_by_status(server: Server) -> None:
    done = started(server, "filtered")
    server.post(f"/jobs/{done['requestId']}/complete", FORCE)
    running, waiting = started(server, "filtered"), scheduled(server, "filtered")
    wanted = {"COMPLETED": done, "started": running, "SCHEDULED": waiting}
    for status, task in wanted.items():
        page = server.get(f"/tasks/filtered?status={status}").json
        assert [one["requestId"] for one in page["items"]] == [task["requestId"]]
    assert server.get("/tasks/filtered?status=FAILED").json["items"] == []
    reply = server.get("/tasks/filtered?status=DONE")
    assert (reply.status, reply.pointer) == (422, "?status")


def test_tasks_of_a_status_come_a_page_at_a_time(server: Server) -> None:
    ids = [scheduled(server, "paged", number=number)["requestId"] for number in range(5)]
    done = started(server, "paged")
    server.post(f"/jobs/{done['requestId']}/complete", FORCE)
    found, cursor = [], ""
    while True:
        page = server.get(f"/tasks/paged?status=SCHEDULED&limit=2{cursor}").json
        found += [one["requestId"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(found) == sorted(ids)


def test_a_task_that_is_only_scheduled_cannot_be_completed(server: Server) -> None:
    task = scheduled(server, "too-soon")
    reply = server.post(f"/jobs/{task['requestId']}/complete", FORCE)
    assert (reply.status, reply.json["state"]) == (409, "scheduled")
    assert seen(server, task).json["status"] == "SCHEDULED"


def test_the_history_of_a_user_holds_every_task_and_nobody_elses(server: Server) -> None:
    done = started(server, "historian")
    server.post(f"/jobs/{done['requestId']}/complete", FORCE)
    running = started(server, "historian")
    waiting = scheduled(server, "historian")
    scheduled(server, "historian2")
    found = {one["requestId"]: one["status"] for one in history(server, "historian")}
    assert found == {
        done["requestId"]: "COMPLETED",
        running["requestId"]: "STARTED",
        waiting["requestId"]: "SCHEDULED",
    }
    assert server.get("/tasks/nobody-at-all").json == {"items": [], "next_cursor": None}


def test_the_history_comes_a_page_at_a_time(server: Server) -> None:
    ids = [scheduled(server, "pager", number=number)["requestId"] for number in range(7)]
    removed = ids.pop(3)
    server.delete(f"/tasks/pager/{removed}")
    found = [one["requestId"] for one in history(server, "pager", limit=2)]
    assert sorted(found) == sorted(ids)


def test_a_scheduled_task_is_removed(server: Server) -> None:
    task = scheduled(server, "remover")
    reply = server.delete(f"/tasks/remover/{task['requestId']}")
    assert (reply.status, reply.body) == (204, b"")
    assert seen(server, task).status == 404
    assert server.delete(f"/tasks/remover/{task['requestId']}").status == 404
    assert history(server, "remover") == []
    assert state(server, task["requestId"]) == "cancelled"


def test_a_task_is_removed_only_while_it_is_scheduled(server: Server) -> None:
    task = started(server, "too-late")
    reply = server.delete(f"/tasks/too-late/{task['requestId']}")
    assert (reply.status, reply.json["type"]) == (409, "/problems/illegal-state")
    assert reply.json["detail"].endswith("it is STARTED.")
    server.post(f"/jobs/{task['requestId']}/complete", FORCE)
    assert server.delete(f"/tasks/too-late/{task['requestId']}").status == 409
    assert seen(server, task).json["status"] == "COMPLETED"


def test_another_users_task_is_not_there(server: Server) -> None:
    task = scheduled(server, "mine")
    for path in (f"/tasks/yours/{task['requestId']}", "/tasks/mine/nothing", "/tasks/mine/%00"):
        assert server.get(path).status == 404
        assert server.delete(path).status == 404
    assert seen(server, task).json["status"] == "SCHEDULED"


def test_a_job_of_another_queue_is_no_task(server: Server) -> None:
    job = server.post("/jobs", {"queue": "no-tasks", "owner": "jobber", "delay": 60}).json
    assert server.get(f"/tasks/jobber/{job['id']}").status == 404
    assert server.delete(f"/tasks/jobber/{job['id']}").status == 404
    assert server.get("/tasks/jobber").json["items"] == []


@pytest.mark.parametrize(
    "user",
    ["a/b", "...", "5%", "ü ñ", "?x=1#y", "<script>", "'; DROP TABLE jobs;--", "❤\ufe0f\u200d🔥"],
)
def test_a_user_may_have_any_printable_name(server: Server, user: str) -> None:
    task = scheduled(server, user)
    place = f"/tasks/{quote(user, safe='')}/{task['requestId']}"
    assert server.get(place).json["userId"] == user
    assert [one["requestId"] for one in history(server, user)] == [task["requestId"]]
    assert server.delete(place).status == 204


def test_a_number_may_be_a_user(server: Server) -> None:
    task = scheduled(server, 98765)
    assert task["userId"] == "98765"
    assert [one["requestId"] for one in history(server, "98765")] == [task["requestId"]]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"dueDate": FAR}, "/userId"),
        ({"userId": "", "dueDate": FAR}, "/userId"),
        ({"userId": "a\0", "dueDate": FAR}, "/userId"),
        ({"userId": "a" * 201, "dueDate": FAR}, "/userId"),
        ({"userId": ["a"], "dueDate": FAR}, "/userId"),
        ({"userId": True, "dueDate": FAR}, "/userId"),
        ({"userId": "bad"}, "/dueDate"),
        ({"userId": "bad", "dueDate": FAR, "afterDays": 1}, "/dueDate"),
        ({"userId": "bad", "dueDate": "2026-13-01"}, "/dueDate"),
        ({"userId": "bad", "dueDate": "2026-02-30"}, "/dueDate"),
        ({"userId": "bad", "dueDate": "20261201"}, "/dueDate"),
        ({"userId": "bad", "dueDate": "2026-W10-1"}, "/dueDate"),
        ({"userId": "bad", "dueDate": "2026-12-01T00:00:00Z"}, "/dueDate"),
        ({"userId": "bad", "dueDate": 20261201}, "/dueDate"),
        ({"userId": "bad", "dueDate": "9999-12-31"}, "/dueDate"),
        ({"userId": "bad", "afterDays": -1}, "/afterDays"),
        ({"userId": "bad", "afterDays": 1.5}, "/afterDays"),
        ({"userId": "bad", "afterDays": "15"}, "/afterDays"),
        ({"userId": "bad", "afterDays": 10**30}, "/afterDays"),
        ({"userId": "bad", "afterDays": 1, "status": "COMPLETED"}, "/status"),
        ({"userId": "bad", "afterDays": 1, "requestId": "mine"}, "/requestId"),
        ({"userId": "bad", "afterDays": 1, "note": "a\0b"}, "/note"),
        (["not", "an", "object"], ""),
    ],
)
def test_a_wrong_task_is_named_and_not_stored(server: Server, fields: object, pointer: str) -> None:
    reply = server.post("/tasks", fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert server.get("/tasks/bad").json["items"] == []


def test_a_failed_task_says_so(server: Server) -> None:
    """Whoever holds the token of the hand-over may say that it failed."""
    server.put("/queues/tasks", {"retention_seconds": None})
    try:
        task = scheduled(server, "unlucky", dueDate="2020-01-01")
        [job] = server.post("/queues/tasks/claim", {"wait_seconds": 10}).json["items"]
        fields = {"token": job["token"], "error": "no such mailbox", "retryable": False}
        assert server.post(f"/jobs/{job['id']}/fail", fields).status == 200
    finally:
        settings = {"sink": "log:", "completion": "worker", "retention_seconds": None}
        server.put("/queues/tasks", settings)
    found = seen(server, task).json
    assert (found["status"], found["error"]) == ("FAILED", "no such mailbox")


def test_an_idempotency_key_makes_scheduling_repeatable(server: Server) -> None:
    sent, header = {"userId": "repeater", "dueDate": FAR}, {"Idempotency-Key": "task 1"}
    first = server.post("/tasks", sent, headers=header)
    again = server.post("/tasks", sent, headers=header)
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert len(history(server, "repeater")) == 1
    reply = server.post("/tasks", {**sent, "note": "other"}, headers=header)
    assert (reply.status, reply.json["type"]) == (422, "/problems/idempotency-key-reused")


def test_the_key_of_a_removed_task_does_not_bring_it_back(server: Server) -> None:
    key = {"Idempotency-Key": "removed"}
    task = {"userId": "forgetful", "afterDays": 3}
    created = server.post("/tasks", task, headers=key).json
    assert server.delete(f"/tasks/forgetful/{created['requestId']}").status == 204
    assert server.post("/tasks", task, headers=key).status == 409
    assert server.get("/tasks/forgetful").json["items"] == []


def test_a_task_that_was_moved_shows_its_new_date(server: Server) -> None:
    created = server.post("/tasks", {"userId": "mover", "dueDate": "2090-01-01"}).json
    moved = server.patch(f"/jobs/{created['requestId']}", {"due_at": "2090-02-03T00:00:00Z"})
    assert moved.status == 200
    [task] = server.get("/tasks/mover").json["items"]
    assert task["dueDate"] == "2090-02-03"
