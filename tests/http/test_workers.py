"""Pulled queues: claim, report, settle."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.patience import until
from tests.http.server import Server


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)) / timedelta(seconds=1)


# -- claiming --------------------------------------------------------------------------------------


def test_a_claim_brings_the_job_its_token_lease_and_operations(server: Server) -> None:
    job_id = created(server, "claimed", payload={"n": 1}, owner="ada")
    [job] = taken(server, "claimed", worker="w-1")
    assert (job["id"], job["payload"], job["owner"]) == (job_id, {"n": 1}, "ada")
    assert (job["state"], job["attempt"], job["operations"]) == ("dispatched", 1, [])
    assert job["token"]
    assert seconds_between(job["updated_at"], job["lease_until"]) == 60
    assert state(server, job_id) == "dispatched"
    assert server.get(f"/jobs/{job_id}").json["attempts"][0]["worker"] == "w-1"


def test_a_claim_needs_no_body_and_nothing_due_is_an_empty_answer(server: Server) -> None:
    reply = server.post("/queues/nothing/claim")
    assert (reply.status, reply.json) == (200, {"items": []})


def test_a_claim_takes_one_unless_it_asks_for_more(server: Server) -> None:
    for _ in range(5):
        created(server, "limits")
    assert len(taken(server, "limits")) == 1
    assert len(taken(server, "limits", limit=3)) == 3
    assert len(taken(server, "limits", limit=100)) == 1


def test_nothing_is_handed_out_twice(server: Server) -> None:
    job = one_taken(server, "twice")
    assert taken(server, "twice", limit=10) == []
    assert told(server, job, "complete").status == 200
    assert taken(server, "twice", limit=10) == []


def test_the_lease_is_the_claims_or_else_the_queues(server: Server) -> None:
    server.put("/queues/leases", {"lease_seconds": 7})
    job = one_taken(server, "leases")
    assert seconds_between(job["updated_at"], job["lease_until"]) == 7
    job = one_taken(server, "leases", lease_seconds=300)
    assert seconds_between(job["updated_at"], job["lease_until"]) == 300


def test_hand_over_is_by_priority_then_due_time_then_id(server: Server) -> None:
    due = "2020-01-01T00:00:00Z"
    for job_id, priority in (("h-5", 0), ("h-4", 0), ("h-3", 5), ("h-2", 9), ("h-1", 0)):
        created(server, "order", id=job_id, priority=priority, delay=60)
    ids = ("h-5", "h-4", "h-3", "h-2", "h-1")
    for job_id in ids:
        server.patch(f"/jobs/{job_id}", {"due_at": due})
    jobs = {job_id: server.get(f"/jobs/{job_id}").json for job_id in ids}
    expected = sorted(jobs, key=lambda one: (-jobs[one]["priority"], jobs[one]["due_at"], one))
    assert [job["id"] for job in taken(server, "order", limit=10)] == expected


def test_reclaimed_work_goes_first(server: Server) -> None:
    server.put("/queues/reclaimed-first", {"retry": {"initial_seconds": 0}})
    lost = one_taken(server, "reclaimed-first", lease_seconds=0.05)
    created(server, "reclaimed-first", priority=9)
    until(lambda: state(server, lost["id"]) == "scheduled")
    [first] = taken(server, "reclaimed-first")
    [second] = taken(server, "reclaimed-first")
    assert (first["id"], first["attempt"], first["priority"]) == (lost["id"], 2, 0)
    assert second["priority"] == 9


def test_reclaimed_work_is_handed_out_one_job_at_a_time(server: Server) -> None:
    ids = {created(server, "one-by-one") for _ in range(3)}
    lost = taken(server, "one-by-one", limit=3, lease_seconds=0.05)
    assert {job["id"] for job in lost} == ids
    until(lambda: all(state(server, one) == "scheduled" for one in ids))
    waiting = {created(server, "one-by-one"), created(server, "one-by-one-too")}
    both = {"queues": ["one-by-one-too", "one-by-one"], "limit": 10}
    by_one = [server.post("/claim", both).json["items"] for _ in range(2)]
    by_one.append(taken(server, "one-by-one", limit=10))
    assert [len(items) for items in by_one] == [1, 1, 1]
    assert {job["id"] for [job] in by_one} == ids
    # They were only fetched together: the number goes on, and no attempt is used.
    jobs = [server.get(f"/jobs/{one}").json for one in ids]
    assert {(job["attempt"], job["attempt_base"]) for job in jobs} == {(2, 1)}
    progress = [server.get(f"/agenda-progress/{one}").json for one in ids]
    assert {one["attemptsCompleted"] for one in progress} == {0}
    assert {job["id"] for job in server.post("/claim", both).json["items"]} == waiting


def test_several_queues_take_turns(server: Server) -> None:
    for queue in ("turn-a", "turn-b"):
        for _ in range(3):
            created(server, queue)
    first = [
        server.post("/claim", {"queues": ["turn-a", "turn-b"]}).json["items"][0]["queue"]
        for _ in range(4)
    ]
    assert sorted(first[:2]) == sorted(first[2:]) == ["turn-a", "turn-b"]
    rest = server.post("/claim", {"queues": ["turn-a", "turn-b"], "limit": 10}).json["items"]
    assert sorted(job["queue"] for job in rest) == ["turn-a", "turn-b"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"limit": 0}, "/limit"),
        ({"limit": 5001}, "/limit"),
        ({"limit": "1"}, "/limit"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"lease_seconds": "soon"}, "/lease_seconds"),
        ({"wait_seconds": -1}, "/wait_seconds"),
        ({"wait_seconds": 301}, "/wait_seconds"),
        ({"worker": ""}, "/worker"),
        ({"worker": "a\nb"}, "/worker"),
        ({"worker": "a" * 201}, "/worker"),
        ({"queues": ["a"]}, "/queues"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_wrong_claim_is_named_and_takes_nothing(
    server: Server, fields: object, pointer: str
) -> None:
    job_id = created(server, "wrong-claims")
    reply = server.post("/queues/wrong-claims/claim", fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert state(server, job_id) == "scheduled"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({}, "/queues"),
        ({"queues": []}, "/queues"),
        ({"queues": "a"}, "/queues"),
        ({"queues": ["a", "ü"]}, "/queues/1"),
        ({"queues": ["a", 1]}, "/queues/1"),
    ],
)
def test_a_claim_on_several_queues_names_them(server: Server, fields: object, pointer: str) -> None:
    reply = server.post("/claim", fields)
    assert (reply.status, reply.pointer) == (422, pointer)


# -- reporting -------------------------------------------------------------------------------------


def test_start_says_that_work_has_begun(server: Server) -> None:
    job = one_taken(server, "started")
    reply = told(server, job, "start")
    assert (reply.status, reply.json["state"]) == (200, "executing")
    assert state(server, job["id"]) == "executing"


def test_a_heartbeat_renews_the_lease_and_tells_how_far_it_is(server: Server) -> None:
    job = one_taken(server, "beating", lease_seconds=30)
    reply = told(server, job, "heartbeat", message="half", percent=50, lease_seconds=600)
    assert reply.json.keys() == {"lease_until", "cancel_requested"}
    assert seconds_between(job["lease_until"], reply.json["lease_until"]) >= 570
    found = server.get(f"/jobs/{job['id']}").json
    assert (found["state"], found["message"], found["percent"]) == ("executing", "half", 50)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"percent": 101}, "/percent"),
        ({"percent": "50"}, "/percent"),
        ({"message": "a" * 2001}, "/message"),
        ({"message": "\0"}, "/message"),
        ({"lease_seconds": 0}, "/lease_seconds"),
        ({"colour": 1}, "/colour"),
    ],
)
def test_a_wrong_heartbeat_is_named(
    server: Server, fields: dict[str, object], pointer: str
) -> None:
    job = one_taken(server, "wrong-beats")
    reply = server.post(f"/jobs/{job['id']}/heartbeat", {"token": job["token"], **fields})
    assert (reply.status, reply.pointer) == (422, pointer)
    assert told(server, job, "complete").status == 200


def test_the_result_of_an_operation_is_written_once(server: Server) -> None:
    job = one_taken(server, "steps")
    path = f"/jobs/{job['id']}/operations/charge"
    going = server.put(path, {"token": job["token"], "state": "executing", "percent": 10})
    assert (going.status, going.json["state"], going.json["percent"]) == (200, "executing", 10)
    done = {"token": job["token"], "state": "succeeded", "result": {"charged": 7}}
    assert server.put(path, done).json["result"] == {"charged": 7}
    assert server.put(path, done).status == 200
    reply = server.put(path, {**done, "result": {"charged": 8}})
    assert (reply.status, reply.json["type"]) == (409, "/problems/conflict")
    [operation] = server.get(f"/jobs/{job['id']}").json["operations"]
    assert operation["result"] == {"charged": 7}


@pytest.mark.parametrize("state", ["executing", "failed"])
def test_the_result_of_an_unfinished_operation_is_given_to_the_next_attempt(
    server: Server, state: str
) -> None:
    queue = f"unfinished-steps-{state}"
    job = one_taken(server, queue)
    path = f"/jobs/{job['id']}/operations/encode"
    report = {"token": job["token"], "state": state}
    for result in ({"external_id": "a"}, {"external_id": "b"}):
        assert server.put(path, {**report, "result": result}).json["result"] == result
    assert server.put(path, {**report, "percent": 10}).json["result"] == {"external_id": "b"}
    assert told(server, job, "release").status == 200
    [again] = taken(server, queue)
    assert [one["result"] for one in again["operations"]] == [{"external_id": "b"}]
    done = {"token": again["token"], "state": "succeeded", "result": {"size": 7}}
    assert server.put(path, done).json["result"] == {"size": 7}


def test_an_operation_names_its_state(server: Server) -> None:
    job = one_taken(server, "wrong-steps")
    path = f"/jobs/{job['id']}/operations"
    reply = server.put(f"{path}/a", {"token": job["token"], "state": "done"})
    assert (reply.status, reply.pointer) == (422, "/state")
    reply = server.put(f"{path}/%C3%BC", {"token": job["token"], "state": "executing"})
    assert (reply.status, reply.pointer) == (422, "/name")


# -- settling --------------------------------------------------------------------------------------


def test_complete_ends_a_job_with_its_result(server: Server) -> None:
    job = one_taken(server, "completed")
    reply = told(server, job, "complete", result={"sent": True})
    assert (reply.status, reply.json["state"]) == (200, "succeeded")
    found = server.get(f"/jobs/{job['id']}").json
    assert (found["state"], found["result"]) == ("succeeded", {"sent": True})
    assert found["finished_at"] is not None


def test_a_failure_is_tried_again_until_no_attempt_is_left(server: Server) -> None:
    server.put("/queues/failing", {"max_attempts": 2, "retry": {"initial_seconds": 0}})
    job_id = created(server, "failing")
    states = []
    for attempt in (1, 2):
        [job] = until(lambda: taken(server, "failing"))
        assert job["attempt"] == attempt
        states.append(told(server, job, "fail", error=f"no {attempt}").json["state"])
    assert states == ["scheduled", "failed"]
    assert server.get(f"/jobs/{job_id}").json["error"] == "no 2"


def test_a_failure_may_say_when_to_try_again(server: Server) -> None:
    job = one_taken(server, "after")
    assert told(server, job, "fail", error="busy", retry_after=600).json["state"] == "scheduled"
    found = server.get(f"/jobs/{job['id']}").json
    assert seconds_between(job["updated_at"], found["due_at"]) >= 600
    job = one_taken(server, "after")
    reply = told(server, job, "fail", error="busy", retry_after="later")
    assert (reply.status, reply.pointer) == (422, "/retry_after")


def test_a_failure_that_is_not_retryable_is_the_end(server: Server) -> None:
    job = one_taken(server, "fatal")
    assert told(server, job, "fail", error="never", retryable=False).json["state"] == "failed"


def test_a_failure_says_what_went_wrong(server: Server) -> None:
    job = one_taken(server, "wordless")
    reply = told(server, job, "fail")
    assert (reply.status, reply.pointer) == (422, "/error")


def test_a_released_job_goes_to_the_next_without_an_attempt_counted(server: Server) -> None:
    job = one_taken(server, "released")
    assert told(server, job, "release").json["state"] == "scheduled"
    [again] = taken(server, "released")
    assert (again["id"], again["attempt"]) == (job["id"], 1)
    assert again["token"] != job["token"]


# -- many at once ----------------------------------------------------------------------------------


def test_many_claims_are_settled_at_once_and_each_has_its_answer(server: Server) -> None:
    for _ in range(4):
        created(server, "many")
    done, failed, back, forged = taken(server, "many", limit=4)
    items = [
        {"id": done["id"], "token": done["token"], "outcome": "complete", "result": 1},
        {"id": failed["id"], "token": failed["token"], "outcome": "fail", "error": "x"},
        {"id": back["id"], "token": back["token"], "outcome": "release"},
        {"id": forged["id"], "token": done["token"], "outcome": "complete"},
        {"id": "nobody", "token": done["token"], "outcome": "complete"},
    ]
    reply = server.post("/settle", {"items": items})
    assert reply.status == 200
    told_items = reply.json["items"]
    assert [one["id"] for one in told_items] == [one["id"] for one in items]
    states = [one.get("state") for one in told_items[:3]]
    assert states == ["succeeded", "scheduled", "scheduled"]
    assert [one["problem"]["status"] // 100 for one in told_items[3:]] == [4, 4]
    assert state(server, forged["id"]) == "dispatched"
    assert server.get(f"/jobs/{done['id']}").json["result"] == 1


def test_a_failure_among_many_needs_an_error_as_a_single_one_does(server: Server) -> None:
    created(server, "silent")
    [claim] = taken(server, "silent")
    item = {"id": claim["id"], "token": claim["token"], "outcome": "fail"}
    [answer] = server.post("/settle", {"items": [item]}).json["items"]
    assert answer["problem"]["errors"][0]["pointer"] == "/error"
    assert state(server, claim["id"]) == "dispatched"
    assert server.post(f"/jobs/{claim['id']}/fail", {"token": claim["token"]}).pointer == "/error"


def test_many_heartbeats_at_once_each_have_their_answer(server: Server) -> None:
    for _ in range(2):
        created(server, "many-beats")
    alive, over = taken(server, "many-beats", limit=2)
    told(server, over, "complete")
    items = [{"id": one["id"], "token": one["token"], "percent": 5} for one in (alive, over)]
    first, second = server.post("/heartbeat", {"items": items}).json["items"]
    assert first["cancel_requested"] is False
    assert (second["problem"]["status"], second["problem"]["reason"]) == (409, "completed")
    assert server.get(f"/jobs/{alive['id']}").json["percent"] == 5


def test_a_batch_of_reports_that_is_wrong_names_the_item(server: Server) -> None:
    good = {"id": "a", "token": "t", "outcome": "complete"}
    reply = server.post("/settle", {"items": [good, {**good, "outcome": "forget"}]})
    assert (reply.status, reply.pointer) == (422, "/items/1/outcome")
    assert "is not a value of this field; /docs lists them." in reply.json["detail"]
    reply = server.post("/heartbeat", {"items": [{"id": "a"}]})
    assert (reply.status, reply.pointer) == (422, "/items/0/token")
