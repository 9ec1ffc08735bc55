"""Events over HTTP: how they are sent, answered and listed. `test_event_cases`: what they do."""

from __future__ import annotations

import re
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest

from oncue.wire.rules import MOST_EVENTS
from tests.http.happenings import Happenings, pages, stamp
from tests.http.patience import until
from tests.http.server import Server

_numbers = count(1)


@pytest.fixture
def board(server: Server) -> Happenings:
    return Happenings(server, f"e{next(_numbers)}").hourly()


def logged(board: Happenings) -> list[str]:
    """The ids of what the board's rule decided on, the last first."""
    return [one["eventId"] for one in pages(board.server, f"/events?rule={board.name}&limit=500")]


def test_an_event_is_answered_in_the_shape_that_is_promised(board: Happenings) -> None:
    board.post(board.file_at(0))
    reply = board.server.post("/events", board.cron_at(10, eventId=f"{board.name}-1"))
    assert reply.status == 201
    [job] = board.server.get(f"/jobs?queue={board.name}").json["items"]
    decided = {"rule": board.name, "dependency": board.cron, "decision": "ACCEPTED"}
    fired = {"rule": board.name, "jobId": job["id"], "instant": stamp(10)}
    assert reply.json == {
        "events": [
            {
                "eventId": f"{board.name}-1",
                "duplicate": False,
                "decisions": [{**decided, "jobId": job["id"]}],
                "jobs": [fired],
            }
        ]
    }


@pytest.mark.parametrize(
    ("sent", "understood"),
    [
        ("2021-01-01 11:59:59", "2021-01-01T11:59:59.000000Z"),
        ("2021-01-01 11:59:59.25", "2021-01-01T11:59:59.250000Z"),
        ("2021-01-01T11:59:59.123456Z", "2021-01-01T11:59:59.123456Z"),
        ("2021-01-01T11:59:59.1234569Z", "2021-01-01T11:59:59.123456Z"),
        ("2021-01-01T12:59:59+01:00", "2021-01-01T11:59:59.000000Z"),
    ],
)
def test_timestamps_carry_microseconds_in_and_out(
    board: Happenings, sent: str, understood: str
) -> None:
    board.rule(board.cron)
    [fired] = board.post({**board.cron_at(0), "eventTimestamp": sent})["jobs"]
    assert fired["instant"] == understood
    [event] = board.server.get(f"/events?rule={board.name}").json["items"]
    assert event["eventTimestamp"] == understood
    assert board.server.get(f"/rules/{board.name}").json["lastInstant"] == understood


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"eventType": "TOPIC"}, "/eventType"),
        ({"eventType": 7}, "/eventType"),
        ({"eventTimestamp": "2021-01-01T11:59:59"}, "/eventTimestamp"),
        ({"eventTimestamp": "2021-02-30 11:59:59"}, "/eventTimestamp"),
        ({"eventTimestamp": 1609502399}, "/eventTimestamp"),
        ({"eventTimestamp": "2099-01-01 00:00:00"}, "/eventTimestamp"),
        ({"eventResourceId": ""}, "/eventResourceId"),
        ({"eventResourceId": "/a/../b", "eventType": "FILE"}, "/eventResourceId"),
        ({"eventResourceId": "a" * 1025}, "/eventResourceId"),
        ({"eventId": ""}, "/eventId"),
        ({"eventId": "a\nb"}, "/eventId"),
        ({"eventResourceld": "cron"}, "/eventResourceld"),
    ],
    ids=str,
)
def test_what_is_wrong_with_an_event_is_named_also_in_a_list_and_nothing_is_stored(
    board: Happenings, change: dict[str, Any], pointer: str
) -> None:
    bad = board.cron_at(10) | change
    alone = board.server.post("/events", bad)
    assert (alone.status, alone.pointer) == (422, pointer)
    listed = board.server.post("/events", [board.file_at(0), bad, board.cron_at(20)])
    assert (listed.status, listed.pointer) == (422, f"/1{pointer}")
    assert logged(board) == []


@pytest.mark.parametrize("missing", ["eventType", "eventTimestamp", "eventResourceId"])
def test_a_missing_member_is_named(board: Happenings, missing: str) -> None:
    event = board.cron_at(10)
    del event[missing]
    reply = board.server.post("/events", [board.file_at(0), event])
    assert (reply.status, reply.pointer) == (422, f"/1/{missing}")
    assert logged(board) == []


def test_only_json_is_accepted(board: Happenings) -> None:
    server = board.server
    body = b'{"eventType": "FILE"}'
    for media_type in ("text/plain", "application/x-ndjson", "application/x-www-form-urlencoded"):
        reply = server.ask("POST", "/events", body=body, headers={"Content-Type": media_type})
        assert (reply.status, reply.headers["accept"]) == (415, "application/json")
    assert server.post("/events").pointer == "/eventType"


def test_a_list_is_applied_in_order(board: Happenings) -> None:
    events = [board.file_at(0), board.cron_at(10), board.file_at(5, "late"), board.cron_at(20)]
    reply = board.server.post("/events", events)
    assert reply.status == 201
    told = [(one["decisions"][0]["decision"], len(one["jobs"])) for one in reply.json["events"]]
    assert told == [("ACCEPTED", 0), ("ACCEPTED", 1), ("STALE", 0), ("ACCEPTED", 1)]


def test_200_says_that_all_were_duplicates(board: Happenings) -> None:
    events = [board.file_at(0), board.cron_at(10)]
    assert board.server.post("/events", events[:1] * 2).status == 201
    assert board.server.post("/events", events[:1] * 2).status == 200
    some = board.server.post("/events", events)
    assert some.status == 201
    assert [one["duplicate"] for one in some.json["events"]] == [True, False]
    assert board.server.post("/events", events).status == 200


def test_a_repeated_list_completes_what_is_missing(board: Happenings) -> None:
    """As after a crash between two transactions: part of it is stored."""
    events = [board.file_at(0), *(board.cron_at(n) for n in range(1, 60))]
    board.server.post("/events", events[:25])
    reply = board.server.post("/events", events)
    assert [one["duplicate"] for one in reply.json["events"]] == [True] * 25 + [False] * 35
    assert board.instants() == [stamp(n) for n in range(1, 60)]


def test_a_list_has_bounds_and_says_so(board: Happenings) -> None:
    server = board.server
    many = [board.cron_at(n) for n in range(MOST_EVENTS + 1)]
    for wrong in (many, []):
        reply = server.post("/events", wrong)
        assert reply.status == 422
        assert "send 1 to 1,000 events" in reply.json["detail"]
    assert logged(board) == []
    assert server.post("/events", many[:-1]).status == 201
    assert len(logged(board)) == MOST_EVENTS


def test_an_event_that_matches_nothing_is_stored_and_a_duplicate_next_time(
    board: Happenings,
) -> None:
    event = board.table_at(0, "nobody")
    assert board.post(event)["decisions"] == []
    assert board.post(event, status=200)["duplicate"] is True


# -- listing ---------------------------------------------------------------------------------------


def test_events_are_listed_with_their_decisions_the_last_first(board: Happenings) -> None:
    board.post_all(board.file_at(0), board.cron_at(10), board.file_at(5, "late"))
    board.post(board.cron_at(10), status=200)
    board.post(board.cron_at(10), status=200)
    late, cron, _ = board.server.get(f"/events?rule={board.name}").json["items"]
    assert late["decisions"][0]["decision"] == "STALE"
    first, repeated = cron["decisions"]
    assert (first["decision"], first["times"]) == ("ACCEPTED", 1)
    assert (repeated["decision"], repeated["times"]) == ("DUPLICATE", 2)
    assert first["jobId"] == repeated["jobId"] is not None
    for moment in (cron["receivedAt"], first["decidedAt"]):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", moment)


def test_events_are_filtered_by_rule_and_decision(board: Happenings) -> None:
    board.post_all(board.file_at(0), board.cron_at(10), board.file_at(5, "late"))

    def found(query: str) -> list[str]:
        items = pages(board.server, f"/events?limit=2&{query}")
        mine = [one for one in items if board.name in one["eventResourceId"]]
        return [one["eventResourceId"].rpartition(board.name)[2] for one in mine]

    rule = f"rule={quote(board.name)}"
    assert found(rule) == ["/late", ".cron", "/a"]
    assert found(f"{rule}&decision=ACCEPTED") == [".cron", "/a"]
    assert found("decision=STALE") == ["/late"]
    assert found("")[:3] == ["/late", ".cron", "/a"]


# -- what follows ----------------------------------------------------------------------------------


def test_a_fired_job_is_logged_unless_its_rule_names_another_queue(board: Happenings) -> None:
    server = board.server
    server.put(f"/rules/{board.name}", {"dependencies": [board.cron]})
    [fired] = board.post(board.cron_at(10))["jobs"]

    def state() -> bool:
        return bool(server.get(f"/jobs/{fired['jobId']}").json["state"] == "succeeded")

    until(state)
    until(lambda: f"job={fired['jobId']}" in server.log)
    assert server.get(f"/jobs/{fired['jobId']}").json["queue"] == "rules"


def test_fired_jobs_are_counted_among_those_created(board: Happenings) -> None:
    def created() -> float:
        text = board.server.get("/metrics").body.decode()
        [number] = re.findall(r"^oncue_jobs_created_total (\S+)$", text, re.MULTILINE)
        return float(number)

    before = created()
    board.post_all(board.file_at(0), board.cron_at(10), board.cron_at(20))
    assert created() == before + 2
