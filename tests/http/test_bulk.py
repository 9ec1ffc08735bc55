"""Bulk verbs over HTTP: count first, change in parts, and never everything by oversight."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.errand import created, one_taken, state, taken, told
from tests.http.server import Server

VERBS = ("cancel", "run", "retry", "move", "reprioritise")
NEEDED: dict[str, dict[str, Any]] = {
    "move": {"queue": "elsewhere"},
    "reprioritise": {"priority": 5},
}


def ask(server: Server, verb: str, of: str, **fields: Any) -> Any:
    """The answer to a verb over a queue."""
    sent = {"filter": {"queue": of}, **NEEDED.get(verb, {}), **fields}
    reply = server.post(f"/jobs/{verb}", sent)
    assert reply.status == 200, reply.body
    return reply.json


def test_a_dry_run_counts_and_shows_a_sample(server: Server) -> None:
    ids = [created(server, "dry", delay=60 + n, payload=n) for n in range(25)]
    answer = ask(server, "cancel", "dry", dry_run=True)
    assert set(answer) == {"matched", "changed", "key_taken", "sample", "next_cursor"}
    assert (answer["matched"], answer["changed"], answer["next_cursor"]) == (25, 0, None)
    assert [job["id"] for job in answer["sample"]] == ids[:20]
    assert [job["payload"] for job in answer["sample"]] == list(range(20))
    assert {state(server, job_id) for job_id in ids} == {"scheduled"}


def test_jobs_that_fit_are_cancelled_and_others_are_not(server: Server) -> None:
    ids = [created(server, "off", owner="ada", delay=60) for _ in range(3)]
    other = created(server, "off", owner="bob", delay=60)
    reply = server.post("/jobs/cancel", {"filter": {"queue": "off", "owner": "ada"}})
    assert (reply.json["matched"], reply.json["changed"]) == (3, 3)
    assert {job["state"] for job in reply.json["sample"]} == {"cancelled"}
    assert {state(server, job_id) for job_id in ids} == {"cancelled"}
    assert state(server, other) == "scheduled"


def test_it_goes_on_with_the_cursor(server: Server) -> None:
    for n in range(5):
        created(server, "parts", delay=60 + n)
    first = ask(server, "cancel", "parts", limit=2)
    assert (first["changed"], len(first["sample"])) == (2, 2)
    rest = ask(server, "cancel", "parts", cursor=first["next_cursor"])
    assert (rest["changed"], rest["next_cursor"]) == (3, None)


def test_taken_jobs_are_asked_to_stop(server: Server) -> None:
    job = one_taken(server, "busy")
    assert ask(server, "cancel", "busy")["matched"] == 0
    assert ask(server, "cancel", "busy", running=True)["changed"] == 1
    assert told(server, job, "heartbeat").json["cancel_requested"] is True


def test_jobs_are_made_due_now_moved_and_given_a_priority(server: Server) -> None:
    job_id = created(server, "verbs", delay=600)
    assert ask(server, "reprioritise", "verbs", priority=9)["changed"] == 1
    assert ask(server, "move", "verbs", queue="verbs-2")["changed"] == 1
    assert ask(server, "run", "verbs-2")["changed"] == 1
    [job] = taken(server, "verbs-2")
    assert (job["id"], job["priority"]) == (job_id, 9)


def test_failed_jobs_are_due_again(server: Server) -> None:
    job = one_taken(server, "again")
    told(server, job, "fail", error="no", retryable=False)
    answer = server.post("/jobs/retry", {"filter": {"queue": "again", "state": "failed"}}).json
    assert answer["changed"] == 1
    assert state(server, job["id"]) == "scheduled"


def test_a_key_that_is_taken_is_counted(server: Server) -> None:
    created(server, "keyed", key="k", delay=60)
    created(server, "keyed-2", key="k", delay=60)
    answer = ask(server, "move", "keyed", queue="keyed-2")
    assert (answer["matched"], answer["changed"], answer["key_taken"]) == (1, 0, 1)


def test_moments_narrow_it_down(server: Server) -> None:
    created(server, "window", due_at="2032-01-01T00:00:00Z")
    within = created(server, "window", due_at="2032-01-02T00:00:00Z")
    window = {"due_after": "2032-01-01T12:00:00+02:00", "due_before": "2032-02-01T00:00:00Z"}
    answer = server.post("/jobs/cancel", {"filter": {"queue": "window", **window}}).json
    assert [job["id"] for job in answer["sample"]] == [within]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("sent", [{}, {"filter": {}}, {"filter": {"queue": None}}], ids=str)
def test_nobody_changes_everything_by_an_empty_body(
    server: Server, verb: str, sent: dict[str, Any]
) -> None:
    job_id = created(server, "safe", delay=60)
    reply = server.post(f"/jobs/{verb}", {**sent, **NEEDED.get(verb, {})})
    assert (reply.status, reply.pointer) == (422, "/filter")
    assert "everything" in reply.json["errors"][0]["detail"]
    assert server.get(f"/jobs/{job_id}").json["state"] == "scheduled"


def test_everything_must_be_said(server: Server) -> None:
    created(server, "whole", delay=60)
    reply = server.post("/jobs/cancel", {"everything": True, "dry_run": True})
    assert reply.status == 200
    assert reply.json["matched"] >= 1


@pytest.mark.parametrize(
    ("verb", "fields", "pointer"),
    [
        ("cancel", {"filter": {"queue": "no such"}}, "/filter/queue"),
        ("cancel", {"filter": {"owner": ""}}, "/filter/owner"),
        ("cancel", {"filter": {"state": "gone"}}, "/filter/state"),
        ("cancel", {"filter": {"state": "failed"}}, "/filter/state"),
        ("cancel", {"filter": {"state": "executing"}}, "/filter/state"),
        ("cancel", {"filter": {"due_before": "tomorrow"}}, "/filter/due_before"),
        ("cancel", {"filter": {"id": "a"}}, "/filter/id"),
        ("cancel", {"filter": {"queue": "q"}, "cursor": "nonsense"}, "/cursor"),
        ("cancel", {"filter": {"queue": "q"}, "limit": 0}, "/limit"),
        ("cancel", {"filter": {"queue": "q"}, "priority": 1}, "/priority"),
        ("run", {"filter": {"queue": "q"}, "running": True}, "/running"),
        ("retry", {"filter": {"state": "scheduled"}}, "/filter/state"),
        ("move", {"filter": {"queue": "q"}}, "/queue"),
        ("move", {"filter": {"queue": "q"}, "queue": "no such"}, "/queue"),
        ("reprioritise", {"filter": {"queue": "q"}}, "/priority"),
        ("reprioritise", {"filter": {"queue": "q"}, "priority": 10}, "/priority"),
    ],
)
def test_what_is_wrong_is_named(
    server: Server, verb: str, fields: dict[str, Any], pointer: str
) -> None:
    reply = server.post(f"/jobs/{verb}", fields)
    assert (reply.status, reply.pointer) == (422, pointer)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_no_job(server: Server, verb: str) -> None:
    assert server.get(f"/jobs/{verb}").status == 405
    assert server.post("/jobs", {"id": verb}).status == 422
