"""Writes by those who no longer hold the claim, or never did."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from oncue import Scheduler
from oncue.core.ids import REMEMBERED_MS
from oncue.core.retention import Retention
from tests.http.errand import created, one_taken, state, taken, told
from tests.http.patience import until
from tests.http.server import Reply, Server

WRITES: dict[str, dict[str, Any]] = {
    "start": {},
    "heartbeat": {},
    "complete": {"result": "late"},
    "fail": {"error": "late"},
    "release": {},
}


def is_reclaimed(server: Server, job: Any) -> bool:
    return state(server, job["id"]) == "scheduled"


def written(server: Server, job: Any, write: str) -> Reply:
    if write == "operation":
        fields = {"token": job["token"], "state": "succeeded", "result": "late"}
        return server.put(f"/jobs/{job['id']}/operations/late", fields)
    return told(server, job, write, **WRITES[write])


def test_a_lost_claim_can_write_nothing_and_leaves_one_trace(server: Server) -> None:
    lost = {
        write: one_taken(server, f"lost-{write}", lease_seconds=0.05)
        for write in (*WRITES, "operation")
    }
    for write, job in lost.items():
        until(partial(is_reclaimed, server, job))
        refused_and_noted(server, job, write)


def refused_and_noted(server: Server, job: Any, write: str) -> None:
    before = server.get(f"/jobs/{job['id']}").json
    for _ in range(3):
        reply = written(server, job, write)
        assert reply.status == 409
        problem = reply.json
        assert problem["type"].endswith("/fenced")
        assert (problem["reason"], problem["state"]) == ("reclaimed", "scheduled")
        assert problem["diagnostic"]["epoch"] == before["diagnostics"][-1]["epoch"]
    after = server.get(f"/jobs/{job['id']}").json
    assert len(after["diagnostics"]) == len(before["diagnostics"]) + 1
    assert after["diagnostics"][-1]["code"] == "fenced"
    assert {**after, "diagnostics": []} == {**before, "diagnostics": []}


def test_each_kind_of_late_write_leaves_its_own_trace(server: Server) -> None:
    job = one_taken(server, "kinds", lease_seconds=0.05)
    until(partial(is_reclaimed, server, job))
    for write in ("complete", "fail", "complete", "fail"):
        written(server, job, write)
    found = server.get(f"/jobs/{job['id']}").json["diagnostics"]
    traces = [one["facts"]["write"] for one in found if one["code"] == "fenced"]
    assert traces == ["complete", "fail"]


def test_the_next_worker_is_not_disturbed_by_the_one_before(server: Server) -> None:
    old = one_taken(server, "zombies", lease_seconds=0.05)
    until(partial(is_reclaimed, server, old))
    [new] = taken(server, "zombies")
    reply = told(server, old, "complete", result="old")
    assert (reply.status, reply.json["reason"]) == (409, "reclaimed")
    assert reply.json["state"] == "dispatched"
    assert told(server, new, "complete", result="new").status == 200
    assert server.get(f"/jobs/{new['id']}").json["result"] == "new"


@pytest.mark.parametrize("write", ["complete", "fail", "release"])
def test_repeating_the_write_that_settled_a_claim_is_fine(server: Server, write: str) -> None:
    job = one_taken(server, f"repeated-{write}")
    first = written(server, job, write)
    before = server.get(f"/jobs/{job['id']}").json
    again = written(server, job, write)
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json
    assert server.get(f"/jobs/{job['id']}").json == before


@pytest.mark.parametrize(
    ("settled", "write", "reason"),
    [
        ("complete", "heartbeat", "completed"),
        ("complete", "fail", "completed"),
        ("complete", "release", "completed"),
        ("complete", "operation", "completed"),
        ("fail", "complete", "failed"),
        ("fail", "start", "failed"),
        ("release", "complete", "released"),
        ("release", "heartbeat", "released"),
    ],
)
def test_any_other_write_after_the_end_is_told_how_it_ended(
    server: Server, settled: str, write: str, reason: str
) -> None:
    job = one_taken(server, f"over-{settled}-{write}")
    assert written(server, job, settled).status == 200
    now = state(server, job["id"])
    reply = written(server, job, write)
    assert (reply.status, reply.json["reason"], reply.json["state"]) == (409, reason, now)
    assert reply.json["diagnostic"]["detail"]
    assert state(server, job["id"]) == now


def test_completing_with_another_result_does_not_change_the_first(server: Server) -> None:
    job = one_taken(server, "one-result")
    assert told(server, job, "complete", result=1).status == 200
    reply = told(server, job, "complete", result=2)
    assert (reply.status, reply.json["reason"]) == (409, "completed")
    assert server.get(f"/jobs/{job['id']}").json["result"] == 1


def test_a_cancelled_claim_is_told_so(server: Server) -> None:
    job = one_taken(server, "called-off")
    server.delete(f"/jobs/{job['id']}?running=true")
    assert told(server, job, "release").status == 200
    reply = told(server, job, "heartbeat")
    assert (reply.status, reply.json["reason"]) == (409, "cancelled")
    assert reply.json["state"] == "cancelled"


def test_the_first_and_last_fifty_diagnostics_are_kept(server: Server) -> None:
    job_id = created(server, "much-ado")
    for _ in range(103):
        [job] = taken(server, "much-ado")
        told(server, job, "fail", error="no", retryable=False)
        server.post(f"/jobs/{job_id}/retry")
    kept = [one["attempt"] for one in server.get(f"/jobs/{job_id}").json["diagnostics"]]
    assert kept == [*range(1, 51), *range(54, 104)]


# -- tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [*WRITES, "operation"])
def test_a_token_proves_one_claim_on_one_job(server: Server, write: str) -> None:
    mine = one_taken(server, f"mine-{write}")
    other = one_taken(server, f"other-{write}")
    version, epoch, mac = mine["token"].split(".")
    forged = [
        other["token"],
        f"{version}.{int(epoch) + 1}.{mac}",
        mine["token"][:-1],
        mine["token"] + "0",
        *("", "1.1.", "x" * 10_000, "ü", "1.٣.a"),
    ]
    for token in forged:
        reply = written(server, {**mine, "token": token}, write)
        assert (reply.status, reply.pointer) == (422, "/token")
    assert state(server, mine["id"]) == "dispatched"


def test_a_number_in_another_form_is_another_token(server: Server) -> None:
    job = one_taken(server, "leading-zeros")
    version, epoch, mac = job["token"].split(".")
    for form in (f"0{epoch}", f"000{epoch}", f"+{epoch}", f"{epoch}.0", f"{epoch} "):
        reply = written(server, {**job, "token": f"{version}.{form}.{mac}"}, "complete")
        assert (reply.status, reply.pointer) == (422, "/token")
    assert state(server, job["id"]) == "dispatched"


@pytest.mark.parametrize("chosen_by", ["id", "Idempotency-Key"])
def test_a_token_of_an_earlier_job_of_the_same_id_is_fenced(
    server: Server, cue: Scheduler, chosen_by: str
) -> None:
    queue = f"twice-{chosen_by.lower()}"
    old = chosen(server, queue, chosen_by)
    assert told(server, old, "complete").status == 200
    later = cue.clock.now() + 2 * REMEMBERED_MS
    cue.store.prune(Retention({queue: later}), later, 100)
    new = chosen(server, queue, chosen_by)
    assert new["id"] == old["id"]
    before = server.get(f"/jobs/{new['id']}").json

    for write in (*WRITES, "operation"):
        reply = written(server, old, write)
        assert (reply.status, reply.json["type"]) == (409, "/problems/fenced")
        assert (reply.json["reason"], reply.json["state"]) == ("unknown", "dispatched")
    assert server.get(f"/jobs/{new['id']}").json == before
    for write in ("start", "heartbeat", "operation", "complete"):
        assert written(server, new, write).status == 200


def chosen(server: Server, queue: str, chosen_by: str) -> Any:
    """A claimed job whose id its client chose."""
    fields, headers = {"queue": queue}, {}
    if chosen_by == "id":
        fields["id"] = queue
    else:
        headers[chosen_by] = queue
    assert server.post("/jobs", fields, headers=headers).status == 201
    [job] = taken(server, queue)
    return job


@pytest.mark.parametrize("write", [*WRITES, "operation"])
def test_reports_on_an_unknown_job_are_a_404(server: Server, write: str) -> None:
    job = one_taken(server, f"known-{write}")
    reply = written(server, {"id": "nobody", "token": job["token"]}, write)
    assert (reply.status, reply.json["type"]) == (404, "/problems/not-found")


@pytest.mark.parametrize("write", ["start", "heartbeat", "fail", "release"])
def test_reports_need_a_token(server: Server, write: str) -> None:
    job = one_taken(server, f"tokenless-{write}")
    reply = server.post(f"/jobs/{job['id']}/{write}", WRITES[write])
    assert (reply.status, reply.pointer) == (422, "/token")


@pytest.mark.parametrize(
    ("verb", "fields", "other"),
    [
        ("complete", {}, {"result": 1}),
        ("complete", {"result": {"sent": True}}, {"result": {"sent": False}}),
        ("fail", {"error": "no", "retryable": False}, {"error": "yes", "retryable": False}),
    ],
)
def test_a_lost_answer_may_be_asked_for_again_where_nothing_is_kept(
    server: Server, verb: str, fields: dict[str, Any], other: dict[str, Any]
) -> None:
    server.put("/queues/nothing-kept", {"retention_seconds": 0})
    job = one_taken(server, "nothing-kept")
    first = told(server, job, verb, **fields)
    assert first.status == 200
    assert server.get(f"/jobs/{job['id']}").status == 404
    again = told(server, job, verb, **fields)
    assert (again.status, again.json) == (200, first.json)
    item = {"id": job["id"], "token": job["token"], "outcome": verb, **fields}
    settled = server.post("/settle", {"items": [item]}).json
    assert settled == {"items": [first.json]}
    assert told(server, job, verb, **other).status == 404
    assert told(server, job, "release").status == 404
    assert told(server, job, "heartbeat").status == 404


@pytest.mark.parametrize("retention", [0, 60])
def test_a_release_that_ended_in_a_cancel_may_be_repeated(server: Server, retention: int) -> None:
    queue = f"released-{retention}"
    server.put(f"/queues/{queue}", {"retention_seconds": retention})
    job = one_taken(server, queue)
    assert server.delete(f"/jobs/{job['id']}?running=true").status == 202
    first = told(server, job, "release")
    assert first.status == 200
    again = told(server, job, "release")
    assert (again.status, again.json) == (200, first.json)
