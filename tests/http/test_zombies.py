"""Over HTTP, a worker that was given up for dead tries everything while another does its job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.errand import one_taken, state, taken, told
from tests.http.patience import until
from tests.http.server import Reply, Server

REPORTS: dict[str, dict[str, Any]] = {
    "start": {},
    "heartbeat": {"message": "late", "percent": 99, "lease_seconds": 999},
    "complete": {"result": "late"},
    "fail": {"error": "late", "retryable": False},
    "release": {},
}
WRITES = [*REPORTS, "operation"]
OUTCOMES = ("complete", "fail", "release")
QUEUES = [
    *(f"undead-{one}" for one in WRITES),
    *(f"bulk-{one}" for one in OUTCOMES),
    "late-success",
]


def tried(server: Server, job: Any, write: str) -> Reply:
    if write == "operation":
        fields = {"token": job["token"], "state": "succeeded", "result": "late"}
        return server.put(f"/jobs/{job['id']}/operations/encode", fields)
    return told(server, job, write, **REPORTS[write])


@pytest.fixture(scope="module")
def abandoned(server: Server) -> dict[str, Any]:
    """In each queue a job that was taken back from the dead (attempt 1). They wait together for the
    reclaimer, which rests for up to two seconds."""
    jobs = {name: one_taken(server, name, lease_seconds=0.05, worker="dead") for name in QUEUES}
    until(lambda: {state(server, job["id"]) for job in jobs.values()} == {"scheduled"})
    return jobs


def replaced(server: Server, abandoned: dict[str, Any], queue: str) -> tuple[Any, Any]:
    """A job in the hands of the dead (attempt 1) and of the living (attempt 2)."""
    dead = abandoned[queue]
    [living] = taken(server, queue, worker="living")
    assert (living["id"], living["attempt"]) == (dead["id"], 2)
    told(server, living, "heartbeat", message="at work")
    return dead, living


@pytest.mark.parametrize("write", WRITES)
def test_a_zombie_of_the_first_attempt_cannot_disturb_the_second(
    server: Server, abandoned: dict[str, Any], write: str
) -> None:
    dead, living = replaced(server, abandoned, f"undead-{write}")
    before = server.get(f"/jobs/{living['id']}").json
    for _ in range(2):
        reply = tried(server, dead, write)
        assert (reply.status, reply.json["type"]) == (409, "/problems/fenced")
        assert (reply.json["reason"], reply.json["state"]) == ("reclaimed", "executing")
        assert reply.json["diagnostic"]["code"] == "timeout_dispatched"
    after = server.get(f"/jobs/{living['id']}").json
    assert {**after, "diagnostics": []} == {**before, "diagnostics": []}
    assert [one["code"] for one in after["diagnostics"]] == ["timeout_dispatched", "fenced"]
    assert told(server, living, "complete", result="mine").status == 200
    assert told(server, living, "complete", result="mine").status == 200
    assert server.get(f"/jobs/{living['id']}").json["result"] == "mine"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_nor_can_it_by_settling_in_bulk(
    server: Server, abandoned: dict[str, Any], outcome: str
) -> None:
    dead, living = replaced(server, abandoned, f"bulk-{outcome}")
    before = server.get(f"/jobs/{living['id']}").json
    item = {"id": dead["id"], "token": dead["token"], "outcome": outcome, "error": "late"}
    [answer] = server.post("/settle", {"items": [item]}).json["items"]
    assert answer["problem"]["type"] == "/problems/fenced"
    [beaten] = server.post(
        "/heartbeat", {"items": [{"id": dead["id"], "token": dead["token"]}]}
    ).json["items"]
    assert beaten["problem"]["reason"] == "reclaimed"
    after = server.get(f"/jobs/{living['id']}").json
    assert {**after, "diagnostics": []} == {**before, "diagnostics": []}


def test_a_late_success_is_recorded_once(server: Server, abandoned: dict[str, Any]) -> None:
    dead, living = replaced(server, abandoned, "late-success")
    for _ in range(3):
        assert tried(server, dead, "complete").status == 409
    found = server.get(f"/jobs/{living['id']}").json["diagnostics"]
    fenced = [one for one in found if one["code"] == "fenced"]
    assert len(fenced) == 1
    assert (fenced[0]["attempt"], fenced[0]["facts"]["write"]) == (1, "complete")
