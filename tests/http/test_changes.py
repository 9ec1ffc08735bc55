"""Changing a job: another time, cancelled, due now, due again; and why it is where it is."""

from __future__ import annotations

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.server import Server


def test_a_scheduled_job_gets_another_time_priority_and_payload(server: Server) -> None:
    job_id = created(server, "patched", payload=1, delay=60, priority=1)
    sent = {"due_at": "2032-02-03T04:05:06.789Z", "priority": 7, "payload": {"new": [1]}}
    reply = server.patch(f"/jobs/{job_id}", sent)
    assert reply.status == 200
    found = server.get(f"/jobs/{job_id}").json
    assert {name: found[name] for name in sent} == sent
    assert {name: reply.json[name] for name in sent} == sent


def test_what_a_patch_does_not_name_stays(server: Server) -> None:
    job_id = created(server, "patched", payload="kept", due_at="2032-01-01T00:00:00Z", priority=3)
    before = server.get(f"/jobs/{job_id}").json
    for sent in ({}, {"priority": None, "due_at": None, "delay": None}):
        assert server.patch(f"/jobs/{job_id}", sent).status == 200
    after = server.get(f"/jobs/{job_id}").json
    for name in ("payload", "due_at", "priority"):
        assert after[name] == before[name]
    assert server.patch(f"/jobs/{job_id}", {"payload": None}).json["payload"] is None


def test_an_earlier_time_lets_a_job_be_claimed(server: Server) -> None:
    job_id = created(server, "earlier", delay=600)
    assert server.patch(f"/jobs/{job_id}", {"delay": 0}).status == 200
    assert [job["id"] for job in taken(server, "earlier")] == [job_id]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"queue": "other"}, "/queue"),
        ({"priority": 10}, "/priority"),
        ({"priority": "high"}, "/priority"),
        ({"delay": "soon"}, "/delay"),
        ({"due_at": 7}, "/due_at"),
        ({"payload": "\0"}, "/payload"),
    ],
)
def test_a_wrong_patch_is_named_and_changes_nothing(
    server: Server, fields: object, pointer: str
) -> None:
    job_id = created(server, "patched", payload=1, delay=60)
    before = server.get(f"/jobs/{job_id}").json
    reply = server.patch(f"/jobs/{job_id}", fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert server.get(f"/jobs/{job_id}").json == before


def test_a_scheduled_job_is_cancelled(server: Server) -> None:
    job_id = created(server, "cancelled")
    reply = server.delete(f"/jobs/{job_id}")
    assert (reply.status, reply.json["state"]) == (200, "cancelled")
    assert reply.json["finished_at"] is not None
    assert taken(server, "cancelled") == []
    assert server.delete(f"/jobs/{job_id}").status == 409


def test_a_taken_job_is_not_changed_by_others(server: Server) -> None:
    job = one_taken(server, "held")
    replies = [
        server.patch(f"/jobs/{job['id']}", {"priority": 1}),
        server.delete(f"/jobs/{job['id']}"),
        server.delete(f"/jobs/{job['id']}?running=false"),
        server.post(f"/jobs/{job['id']}/run"),
        server.post(f"/jobs/{job['id']}/retry"),
    ]
    assert [reply.status for reply in replies] == [409] * 5
    assert {reply.json["type"] for reply in replies} == {"/problems/illegal-state"}
    assert {reply.json["state"] for reply in replies} == {"dispatched"}
    assert told(server, job, "complete").status == 200


def test_a_taken_job_is_asked_to_stop_and_its_worker_hears_of_it(server: Server) -> None:
    job = one_taken(server, "asked")
    assert told(server, job, "heartbeat").json["cancel_requested"] is False
    reply = server.delete(f"/jobs/{job['id']}?running=true")
    assert (reply.status, reply.json["cancel_requested"]) == (202, True)
    assert reply.json["state"] == "executing"
    assert told(server, job, "heartbeat").json["cancel_requested"] is True
    assert told(server, job, "release").status == 200
    assert state(server, job["id"]) == "cancelled"


def test_asking_a_scheduled_job_to_stop_cancels_it(server: Server) -> None:
    reply = server.delete(f"/jobs/{created(server, 'asked2', delay=60)}?running=true")
    assert (reply.status, reply.json["state"]) == (200, "cancelled")


def test_running_is_true_or_false(server: Server) -> None:
    reply = server.delete(f"/jobs/{created(server, 'asked3', delay=60)}?running=yes")
    assert (reply.status, reply.pointer) == (422, "?running")


def test_a_job_is_made_due_now(server: Server) -> None:
    job_id = created(server, "run", delay=600)
    reply = server.post(f"/jobs/{job_id}/run")
    assert (reply.status, reply.json["state"]) == (200, "scheduled")
    assert [job["id"] for job in taken(server, "run")] == [job_id]


def test_a_failed_job_is_due_again_with_its_operations_and_fresh_attempts(server: Server) -> None:
    job_id = created(server, "again", max_attempts=1)
    [job] = taken(server, "again")
    path = f"/jobs/{job_id}/operations/first"
    server.put(path, {"token": job["token"], "state": "succeeded", "result": 42})
    assert told(server, job, "fail", error="no").json["state"] == "failed"
    reply = server.post(f"/jobs/{job_id}/retry")
    assert (reply.status, reply.json["state"]) == (200, "scheduled")
    [job] = taken(server, "again")
    assert [(one["name"], one["result"]) for one in job["operations"]] == [("first", 42)]
    assert job["attempt"] == 2
    assert told(server, job, "fail", error="no").json["state"] == "failed"


def test_a_cancelled_job_is_due_again_and_a_finished_one_is_not(server: Server) -> None:
    job_id = created(server, "revived")
    server.delete(f"/jobs/{job_id}")
    assert server.post(f"/jobs/{job_id}/retry").json["state"] == "scheduled"
    [job] = taken(server, "revived")
    told(server, job, "complete")
    assert server.post(f"/jobs/{job_id}/retry").status == 409
    assert server.post(f"/jobs/{job_id}/run").status == 409


def test_a_job_whose_key_is_taken_is_not_due_again(server: Server) -> None:
    job_id = created(server, "key-again", key="k", delay=60)
    server.delete(f"/jobs/{job_id}")
    created(server, "key-again", key="k", delay=60)
    reply = server.post(f"/jobs/{job_id}/retry")
    assert (reply.status, reply.json["type"]) == (409, "/problems/key-taken")


def test_requests_that_need_no_body_take_an_empty_one_and_nothing_else(server: Server) -> None:
    job_id = created(server, "bodyless", delay=60)
    assert server.post(f"/jobs/{job_id}/run", {}).status == 200
    reply = server.post(f"/jobs/{job_id}/run", {"now": True})
    assert (reply.status, reply.pointer) == (422, "/now")


# -- what happened ---------------------------------------------------------------------------------


def test_a_job_tells_of_its_attempts_operations_and_diagnostics(server: Server) -> None:
    job = one_taken(server, "told", worker="w-1")
    path = f"/jobs/{job['id']}/operations/step.1"
    server.put(path, {"token": job["token"], "state": "executing", "percent": 5, "message": "m"})
    told(server, job, "fail", error="out of luck", retry_after=600)
    found = server.get(f"/jobs/{job['id']}").json
    [attempt] = found["attempts"]
    assert (attempt["worker"], attempt["outcome"]) == ("w-1", "retried")
    assert attempt["claimed_at"] is not None
    [operation] = found["operations"]
    assert (operation["name"], operation["percent"]) == ("step.1", 5)
    assert found["error"] == "out of luck"
    assert found["diagnostics"][0]["attempt"] == 1


def test_explain_says_why_in_a_sentence_and_a_word(server: Server) -> None:
    reasons = {}
    job_id = created(server, "why", delay=600)
    reasons["later"] = server.get(f"/jobs/{job_id}/explain").json
    server.post(f"/jobs/{job_id}/run")
    server.post("/queues/why/pause")
    reasons["held"] = server.get(f"/jobs/{job_id}/explain").json
    server.post("/queues/why/resume")
    [job] = taken(server, "why")
    reasons["taken"] = server.get(f"/jobs/{job_id}/explain").json
    told(server, job, "fail", error="no", retry_after=600)
    reasons["failed"] = server.get(f"/jobs/{job_id}/explain").json
    server.delete(f"/jobs/{job_id}")
    reasons["gone"] = server.get(f"/jobs/{job_id}/explain").json
    told_reasons = [one["reason"] for one in reasons.values()]
    assert told_reasons == ["not_due", "paused", "taken", "backoff", "cancelled"]
    assert all(one["sentence"].endswith(".") for one in reasons.values())
