"""`/agenda-progress/{id}`: a job as reclaimers made for other systems see it and write it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.server import Reply, Server

TIMED_OUT = {"message": "AgendaProgress timed out.", "details": {"ageMinutes": 4320}}


def seen(server: Server, job_id: str) -> tuple[Any, str]:
    """What GET tells, and its ETag."""
    reply = server.get(f"/agenda-progress/{job_id}")
    assert reply.status == 200, reply.body
    return reply.json, reply.headers["ETag"]


def put(server: Server, job_id: str, fields: Any, tag: str | None = None) -> Reply:
    headers = {} if tag is None else {"If-Match": tag}
    return server.put(f"/agenda-progress/{job_id}", fields, headers=headers)


def changed(told: Any, processing_state: str, message: str | None = None, **more: Any) -> Any:
    return {
        **told,
        "processingState": processing_state,
        "processingStateMessage": message,
        **more,
    }


# -- seeing ----------------------------------------------------------------------------------------


def test_each_state_has_its_name(server: Server) -> None:
    job_id = created(server, "named")
    assert seen(server, job_id)[0]["processingState"] == "WAITING"
    [job] = taken(server, "named")
    assert seen(server, job_id)[0]["processingState"] == "DEQUEUED"
    told(server, job, "heartbeat", message="half way")
    told_now, _ = seen(server, job_id)
    assert told_now["processingState"] == "EXECUTING"
    assert told_now["processingStateMessage"] == "half way"
    told(server, job, "complete")
    told_now, _ = seen(server, job_id)
    assert told_now["processingState"] == "COMPLETE"
    assert told_now["processingStateMessage"] == "succeeded"
    other = created(server, "named", due_at="2050-01-01T00:00:00Z")
    server.delete(f"/jobs/{other}")
    assert seen(server, other)[0]["processingStateMessage"] == "failed"


def test_it_tells_attempts_operations_and_diagnostics(server: Server) -> None:
    job = one_taken(server, "whole", worker="ada")
    told(server, job, "fail", error="no", retry_after=0)
    [job] = taken(server, "whole", worker="ada")
    operation = {"token": job["token"], "state": "succeeded", "result": {"bytes": 1}}
    server.put(f"/jobs/{job['id']}/operations/download", operation)
    half = {"token": job["token"], "state": "executing", "percent": 40, "message": "frame 2"}
    server.put(f"/jobs/{job['id']}/operations/encode", half)
    fields, _ = seen(server, job["id"])
    assert (fields["attemptsCompleted"], fields["maximumAttempts"]) == (1, 3)
    download, encode = fields["operationProgress"]
    assert (download["processingState"], download["processingStateMessage"]) == (
        "COMPLETE",
        "succeeded",
    )
    assert (download["name"], download["result"]) == ("download", {"bytes": 1})
    assert (encode["processingState"], encode["percent"]) == ("EXECUTING", 40)
    [event] = fields["diagnosticEvents"]
    assert (event["code"], event["attempt"]) == ("failure", 1)
    assert event["details"]["error"] == "no"
    datetime.fromisoformat(fields["updatedTime"])


def test_an_unknown_job_is_a_404(server: Server) -> None:
    assert server.get("/agenda-progress/nobody").status == 404
    assert put(server, "nobody", {"processingState": "WAITING"}, '"x"').status == 404


# -- the fence -------------------------------------------------------------------------------------


def test_a_write_needs_what_was_seen(server: Server) -> None:
    job = one_taken(server, "fence")
    fields, tag = seen(server, job["id"])
    failed = {"processingState": "COMPLETE", "processingStateMessage": "failed"}
    for told_seen, if_match in (
        ({}, None),
        ({"updatedTime": "2020-01-01T00:00:00.000Z"}, None),
        ({}, '"something else"'),
        ({}, "*"),
        ({"updatedTime": fields["updatedTime"]}, '"something else"'),
    ):
        reply = put(server, job["id"], {**failed, **told_seen}, if_match)
        assert (reply.status, reply.json["type"]) == (409, "/problems/conflict")
    assert state(server, job["id"]) == "dispatched"
    assert put(server, job["id"], failed, f'"other", {tag}').status == 200
    assert state(server, job["id"]) == "failed"


@pytest.mark.parametrize("in_milliseconds", [False, True])
def test_the_last_update_in_the_body_is_proof_enough(server: Server, in_milliseconds: bool) -> None:
    job = one_taken(server, f"proof-{in_milliseconds}")
    fields, _ = seen(server, job["id"])
    at = fields["updatedTime"]
    if in_milliseconds:
        at = round(datetime.fromisoformat(at).timestamp() * 1000)
    reply = put(server, job["id"], {"processingState": "EXECUTING", "updatedTime": at})
    assert (reply.status, reply.json["processingState"]) == (200, "EXECUTING")


def test_a_job_that_was_heard_of_in_between_is_a_lost_race(server: Server) -> None:
    job = one_taken(server, "race")
    fields, tag = seen(server, job["id"])
    told(server, job, "heartbeat", message="alive")
    failed = changed(fields, "COMPLETE", "failed")
    assert put(server, job["id"], failed, tag).status == 409
    assert put(server, job["id"], failed).status == 409
    assert state(server, job["id"]) == "executing"
    assert told(server, job, "complete").status == 200


def test_of_two_that_saw_the_same_one_wins(server: Server) -> None:
    job = one_taken(server, "two")
    fields, tag = seen(server, job["id"])
    waiting = changed(fields, "WAITING")
    assert put(server, job["id"], waiting, tag).status == 200
    assert put(server, job["id"], changed(fields, "COMPLETE", "failed"), tag).status == 409
    after, _ = seen(server, job["id"])
    assert (after["processingState"], after["attemptsCompleted"]) == ("WAITING", 1)
    assert len(after["diagnosticEvents"]) == 1


# -- writing ---------------------------------------------------------------------------------------


def test_complete_and_failed_fails_the_job_and_keeps_the_new_event(server: Server) -> None:
    job = one_taken(server, "failing", worker="ada")
    fields, tag = seen(server, job["id"])
    body = changed(fields, "COMPLETE", "failed", diagnosticEvents=[TIMED_OUT])
    reply = put(server, job["id"], body, tag)
    assert reply.status == 200
    assert reply.headers["ETag"] == seen(server, job["id"])[1]
    assert reply.json["processingState"] == "COMPLETE"
    assert reply.json["processingStateMessage"] == "failed"
    events = reply.json["diagnosticEvents"]
    assert [event["message"] for event in events][-1] == "AgendaProgress timed out."
    assert (events[-1]["code"], events[-1]["details"]) == ("reported", {"ageMinutes": 4320})
    job_now = server.get(f"/jobs/{job['id']}").json
    assert job_now["state"] == "failed"
    assert "AgendaProgress timed out." in job_now["error"]
    late = told(server, job, "complete", result="late")
    assert (late.status, late.json["reason"], late.json["state"]) == (409, "reclaimed", "failed")
    assert late.json["diagnostic"]["code"] == "failure"


def test_events_that_were_there_are_not_kept_twice(server: Server) -> None:
    job = one_taken(server, "events")
    for number in (1, 2):
        fields, tag = seen(server, job["id"])
        events = [*fields["diagnosticEvents"], {"message": f"odd {number}", "by": "cron"}]
        body = changed(fields, "EXECUTING", diagnosticEvents=events)
        assert put(server, job["id"], body, tag).status == 200
    fields, _ = seen(server, job["id"])
    assert [event["message"] for event in fields["diagnosticEvents"]] == ["odd 1", "odd 2"]
    assert fields["diagnosticEvents"][0]["details"] == {"by": "cron"}


def test_complete_and_succeeded_completes_the_job(server: Server) -> None:
    job = one_taken(server, "succeeding")
    fields, tag = seen(server, job["id"])
    reply = put(server, job["id"], changed(fields, "COMPLETE", "succeeded"), tag)
    assert (reply.status, reply.json["processingStateMessage"]) == (200, "succeeded")
    assert state(server, job["id"]) == "succeeded"
    again, tag = seen(server, job["id"])
    assert put(server, job["id"], again, tag).status == 200
    assert put(server, job["id"], changed(again, "COMPLETE", "failed"), tag).status == 409


def test_waiting_retries_the_job_ahead_of_others_and_the_server_counts(server: Server) -> None:
    job = one_taken(server, "retrying")
    created(server, "retrying")
    fields, tag = seen(server, job["id"])
    body = changed(fields, "WAITING", attemptsCompleted=17)
    reply = put(server, job["id"], body, tag)
    assert (reply.status, reply.json["processingState"]) == (200, "WAITING")
    assert reply.json["attemptsCompleted"] == 1
    [again] = taken(server, "retrying")
    assert (again["id"], again["attempt"]) == (job["id"], 2)
    assert told(server, job, "heartbeat").status == 409


def test_waiting_records_no_timeout_of_a_healthy_job(server: Server) -> None:
    job = one_taken(server, "healthy")
    fields, tag = seen(server, job["id"])
    assert put(server, job["id"], changed(fields, "WAITING"), tag).status == 200
    [told_of] = server.get(f"/jobs/{job['id']}").json["diagnostics"]
    assert (told_of["code"], told_of["attempt"]) == ("reported", 1)
    assert told_of["detail"] == "It was set to WAITING. Due again at once."


@pytest.mark.parametrize(
    ("written", "message", "became"),
    [
        ("Waiting", None, "scheduled"),
        ("executing", None, "executing"),
        ("Complete", "Succeeded", "succeeded"),
        ("cOMPLETE", "FAILED", "failed"),
    ],
)
def test_states_may_be_written_in_capitals_or_not(
    server: Server, written: str, message: str | None, became: str
) -> None:
    job = one_taken(server, f"spelt-{became}")
    fields, tag = seen(server, job["id"])
    assert put(server, job["id"], changed(fields, written, message), tag).status == 200
    assert state(server, job["id"]) == became


def test_waiting_fails_a_job_that_has_no_attempt_left(server: Server) -> None:
    job_id = created(server, "exhausted", max_attempts=1)
    taken(server, "exhausted")
    fields, tag = seen(server, job_id)
    reply = put(server, job_id, changed(fields, "WAITING"), tag)
    assert (reply.json["processingState"], reply.json["processingStateMessage"]) == (
        "COMPLETE",
        "failed",
    )


def test_executing_is_a_sign_of_life(server: Server) -> None:
    job = one_taken(server, "beating", lease_seconds=5)
    before = server.get(f"/jobs/{job['id']}").json
    fields, tag = seen(server, job["id"])
    assert put(server, job["id"], changed(fields, "EXECUTING", "frame 7"), tag).status == 200
    after = server.get(f"/jobs/{job['id']}").json
    assert (after["state"], after["message"]) == ("executing", "frame 7")
    assert after["lease_until"] > before["lease_until"]
    assert told(server, job, "complete").status == 200


def test_a_cancelled_claim_ends_cancelled(server: Server) -> None:
    job = one_taken(server, "called-off")
    server.delete(f"/jobs/{job['id']}?running=true")
    fields, tag = seen(server, job["id"])
    assert put(server, job["id"], changed(fields, "COMPLETE", "failed"), tag).status == 200
    assert state(server, job["id"]) == "cancelled"


def test_nobody_at_work_means_nothing_to_write(server: Server) -> None:
    job_id = created(server, "idle")
    fields, tag = seen(server, job_id)
    for wanted in (changed(fields, "EXECUTING"), changed(fields, "COMPLETE", "succeeded")):
        reply = put(server, job_id, wanted, tag)
        assert (reply.status, reply.json["type"]) == (409, "/problems/illegal-state")
    assert put(server, job_id, fields, tag).status == 200


def test_a_job_of_a_queue_without_history_is_gone_when_it_is_complete(server: Server) -> None:
    server.put("/queues/fleeting", {"retention_seconds": 0})
    job = one_taken(server, "fleeting")
    fields, tag = seen(server, job["id"])
    reply = put(server, job["id"], changed(fields, "COMPLETE", "succeeded"), tag)
    assert (reply.status, reply.json["processingState"]) == (200, "COMPLETE")
    assert server.get(f"/agenda-progress/{job['id']}").status == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/processingState"),
        ({"processingState": "DEQUEUED"}, "/processingState"),
        ({"processingState": "COMPLETE"}, "/processingStateMessage"),
        (
            {"processingState": "COMPLETE", "processingStateMessage": "done"},
            "/processingStateMessage",
        ),
        ({"processingState": "WAITING", "state": "x"}, "/state"),
        ({"processingState": "WAITING", "updatedTime": "yesterday"}, "/updatedTime"),
        ({"processingState": "EXECUTING", "diagnosticEvents": ["x"]}, "/diagnosticEvents/0"),
        ({"processingState": "EXECUTING", "diagnosticEvents": [{}]}, "/diagnosticEvents/0/message"),
        (
            {
                "processingState": "EXECUTING",
                "diagnosticEvents": [{"message": f"{n}"} for n in range(21)],
            },
            "/diagnosticEvents",
        ),
    ],
)
def test_a_body_that_makes_no_sense_is_a_422(server: Server, body: Any, pointer: str) -> None:
    job = one_taken(server, "senseless")
    reply = put(server, job["id"], body, seen(server, job["id"])[1])
    assert (reply.status, reply.pointer) == (422, pointer)
    assert state(server, job["id"]) == "dispatched"
    told(server, job, "complete")


def test_what_was_seen_of_another_job_is_refused(server: Server) -> None:
    job, other = one_taken(server, "mine"), one_taken(server, "another")
    fields, tag = seen(server, job["id"])
    assert put(server, other["id"], changed(fields, "WAITING"), tag).status == 409
    assert state(server, other["id"]) == "dispatched"
