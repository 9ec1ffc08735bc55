"""Schedules: settings, coming runs, pausing, and the jobs and events that they make."""

from __future__ import annotations

from typing import Any

import pytest

from oncue import Scheduler
from tests.http.patience import until
from tests.http.server import Server

DEFAULTS: dict[str, Any] = {
    "cron": None,
    "every_seconds": None,
    "timezone": "UTC",
    "queue": "default",
    "payload": None,
    "owner": None,
    "emits": None,
    "catch_up": "once",
    "overlap": "allow",
    "paused": False,
}
SETTINGS: dict[str, Any] = {
    "cron": "30 9 * * MON-FRI",
    "every_seconds": None,
    "timezone": "Europe/Paris",
    "queue": "reports",
    "payload": {"report": [1, None]},
    "owner": "ada",
    "emits": None,
    "catch_up": "all",
    "overlap": "queue",
    "paused": True,
}
CRON = {"eventType": "TIME_BASED", "eventResourceId": "cron"}
MONTHLY = "0 0 1 * *"


def settings(schedule: Any) -> dict[str, Any]:
    return {name: schedule[name] for name in DEFAULTS}


def put(server: Server, name: str, **fields: Any) -> Any:
    reply = server.put(f"/schedules/{name}", fields)
    assert reply.status in (200, 201), reply.body
    return reply.json


# -- settings --------------------------------------------------------------------------------------


def test_a_new_schedule_is_answered_with_its_place_and_its_defaults(server: Server) -> None:
    reply = server.put("/schedules/new", {"cron": "  0 9  * * * "})
    assert (reply.status, reply.headers["location"]) == (201, "/schedules/new")
    assert settings(reply.json) == {**DEFAULTS, "cron": "0 9 * * *"}
    assert reply.json["next_at"].endswith("T09:00:00.000Z")
    assert (reply.json["last_at"], reply.json["last_job_id"]) == (None, None)
    assert server.get("/schedules/new").json == reply.json


def test_put_replaces_all_settings(server: Server) -> None:
    put(server, "replaced", every_seconds="PT15M")
    reply = server.put("/schedules/replaced", SETTINGS)
    assert (reply.status, settings(reply.json)) == (200, SETTINGS)
    assert "location" not in reply.headers
    reply = server.put("/schedules/replaced", {"every_seconds": 90.5})
    expected = {**DEFAULTS, "every_seconds": 90.5, "paused": True}
    assert (reply.status, settings(reply.json)) == (200, expected)
    assert reply.json["anchor_at"] == reply.json["updated_at"]


def test_the_same_settings_again_change_nothing(server: Server) -> None:
    first = put(server, "same", cron=MONTHLY, payload={"a": 1})
    reply = server.put("/schedules/same", {"cron": MONTHLY, "payload": {"a": 1}})
    assert (reply.status, reply.json) == (200, first)


def test_an_emission_is_told_as_events_have_it(server: Server) -> None:
    emits = {"eventType": "TIME_BASED_CRON", "eventResourceId": "cron"}
    assert put(server, "emits", cron=MONTHLY, emits=emits)["emits"] == CRON


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({}, "/cron"),
        ({"cron": MONTHLY, "every_seconds": 60}, "/cron"),
        ({"cron": "nonsense"}, "/cron"),
        ({"cron": "0 0 31 2 *"}, "/cron"),
        ({"cron": 5}, "/cron"),
        ({"cron": "@daily"}, "/cron"),
        ({"every_seconds": 0.5}, "/every_seconds"),
        ({"every_seconds": "15 minutes"}, "/every_seconds"),
        ({"every_seconds": True}, "/every_seconds"),
        ({"cron": MONTHLY, "timezone": "Mars/Olympus"}, "/timezone"),
        ({"cron": MONTHLY, "timezone": "../../etc/passwd"}, "/timezone"),
        ({"cron": MONTHLY, "timezone": None}, "/timezone"),
        ({"cron": MONTHLY, "queue": "a b"}, "/queue"),
        ({"cron": MONTHLY, "owner": ""}, "/owner"),
        ({"cron": MONTHLY, "payload": "\0"}, "/payload"),
        ({"cron": MONTHLY, "catch_up": "twice"}, "/catch_up"),
        ({"cron": MONTHLY, "overlap": "maybe"}, "/overlap"),
        ({"cron": MONTHLY, "overlap": "skip", "emits": CRON}, "/overlap"),
        ({"cron": MONTHLY, "paused": "no"}, "/paused"),
        ({"cron": MONTHLY, "emits": {}}, "/emits/eventType"),
        ({"cron": MONTHLY, "emits": {**CRON, "eventType": "NEWS"}}, "/emits/eventType"),
        ({"cron": MONTHLY, "emits": {**CRON, "eventResourceId": ""}}, "/emits/eventResourceId"),
        ({"cron": MONTHLY, "emits": {**CRON, "at": 1}}, "/emits/at"),
        ({"cron": MONTHLY, "colour": 1}, "/colour"),
        ({"cron": MONTHLY, "name": "other"}, "/name"),
        ({"cron": MONTHLY, "next_at": None}, "/next_at"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_and_stores_nothing(
    server: Server, fields: object, pointer: str
) -> None:
    reply = server.put("/schedules/wrong", fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert server.post("/schedules/wrong/preview", fields).pointer == pointer
    assert server.get("/schedules/wrong").status == 404


def test_a_payload_that_is_too_large_is_refused(server: Server) -> None:
    reply = server.put("/schedules/large", {"cron": MONTHLY, "payload": "x" * 300_000})
    assert (reply.status, reply.pointer) == (413, "/payload")


@pytest.mark.parametrize("name", ["%C3%BC", "a%2Fb", "-a", "a" * 81, "%00"])
def test_a_name_that_no_schedule_can_have_is_refused(server: Server, name: str) -> None:
    reply = server.put(f"/schedules/{name}", {"cron": MONTHLY})
    assert (reply.status, reply.pointer) == (422, "/name")
    assert server.get(f"/schedules/{name}").status == 404


def test_what_does_not_exist_is_not_found_whatever_is_asked_of_it(server: Server) -> None:
    for method, path in [
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/next"),
        ("GET", "/outcomes"),
        ("POST", "/pause"),
        ("POST", "/resume"),
    ]:
        reply = server.ask(method, f"/schedules/nowhere{path}")
        assert (reply.status, reply.json["type"]) == (404, "/problems/not-found"), path
        assert "nowhere" in reply.json["detail"]


def test_a_schedule_is_deleted_once(server: Server) -> None:
    put(server, "deleted", cron=MONTHLY)
    reply = server.delete("/schedules/deleted")
    assert (reply.status, reply.body) == (204, b"")
    assert server.delete("/schedules/deleted").status == 404


def test_schedules_are_listed_by_name_a_page_at_a_time(server: Server) -> None:
    for name in ("list.b", "list.a", "list.c"):
        put(server, name, cron=MONTHLY)
    first = server.get("/schedules?limit=2&cursor=list").json
    assert [one["name"] for one in first["items"]] == ["list.a", "list.b"]
    second = server.get(f"/schedules?limit=500&cursor={first['next_cursor']}").json
    assert second["items"][0] == server.get("/schedules/list.c").json
    assert second["next_cursor"] is None
    for query in ("limit=0", "limit=501", "cursor=%20", "colour=1"):
        assert server.get(f"/schedules?{query}").status == 422


# -- what is coming --------------------------------------------------------------------------------


def test_the_coming_runs_are_told_in_both_times_with_gaps_and_overlaps_marked(
    server: Server,
) -> None:
    put(server, "nightly", cron="30 2 * * *", timezone="Europe/Paris", paused=True)
    runs = server.get("/schedules/nightly/next?count=400").json["items"]
    assert len(runs) == 400
    gap = next(run for run in runs if run["mark"] == "gap")
    assert gap["at"][11:] == "01:00:00.000Z"
    assert gap["local"][11:] == "03:00:00.000+02:00"
    assert gap["note"] == "02:30 does not exist on this day: at the end of the gap"
    overlap = next(run for run in runs if run["mark"] == "overlap")
    assert overlap["local"][11:] == "02:30:00.000+02:00"
    assert "twice" in overlap["note"]
    ordinary = [run for run in runs if run["mark"] == "normal"]
    assert {run["note"] for run in ordinary} == {None}
    assert {run["local"][11:19] for run in ordinary} == {"02:30:00"}


def test_twenty_runs_are_told_unless_a_number_is_given(server: Server) -> None:
    put(server, "counted", cron=MONTHLY)
    assert len(server.get("/schedules/counted/next").json["items"]) == 20
    for count in ("0", "1001", "-1", "x", "1.0", ""):
        reply = server.get(f"/schedules/counted/next?count={count}")
        assert (reply.status, reply.pointer) == (422, "?count")


def test_a_preview_tells_what_an_edit_would_change_and_changes_nothing(server: Server) -> None:
    before = put(server, "edited", cron="0 9,17 * * *")
    found = server.post("/schedules/edited/preview?count=4", {"cron": "0 9,18 * * *"}).json
    assert {run["at"][11:13] for run in found["removed"]} == {"17"}
    assert {run["at"][11:13] for run in found["added"]} == {"18"}
    assert {run["at"][11:13] for run in found["kept"]} == {"09"}
    assert server.get("/schedules/edited").json == before
    fresh = server.post("/schedules/unborn/preview?count=3", {"every_seconds": 60}).json
    assert [len(fresh[name]) for name in ("removed", "added", "kept")] == [0, 3, 0]
    assert server.get("/schedules/unborn").status == 404


# -- what it makes ---------------------------------------------------------------------------------


def test_occurrences_become_jobs_that_name_their_schedule(server: Server) -> None:
    put(server, "often", every_seconds=1, queue="often", payload={"n": 1}, owner="ada")
    wish = {"wait_seconds": 20, "worker": "me"}
    [job] = server.post("/queues/often/claim", wish).json["items"]
    assert (job["schedule"], job["payload"], job["owner"]) == ("often", {"n": 1}, "ada")
    assert server.get(f"/jobs/{job['id']}").json["schedule"] == "often"
    outcomes = server.get("/schedules/often/outcomes").json
    assert outcomes["next_cursor"] is None
    made = {one["job_id"]: one for one in outcomes["items"]}[job["id"]]
    assert (made["fate"], made["at"], made["count"]) == ("created", job["due_at"], 1)
    server.delete("/schedules/often")


def test_a_pause_takes_away_what_is_not_due_until_it_is_resumed(server: Server) -> None:
    put(server, "halted", every_seconds=14, queue="halted")  # near enough to be made at once
    made = until(lambda: server.get("/jobs?queue=halted").json["items"])
    assert server.post("/schedules/halted/pause").json["paused"] is True
    assert server.get("/jobs?queue=halted").json["items"] == []
    outcomes = server.get("/schedules/halted/outcomes").json["items"]
    fates = sorted((outcome["at"], outcome["fate"]) for outcome in outcomes)
    assert fates == [(job["due_at"], "withdrawn") for job in made]
    assert server.post("/schedules/halted/resume", {}).json["paused"] is False
    until(lambda: server.get("/jobs?queue=halted").json["items"])
    server.delete("/schedules/halted")


def test_what_a_schedule_emits_fires_the_rules_of_its_store(server: Server) -> None:
    with Scheduler(server.store) as cue:
        cue.put_rule(
            "ticking",
            [{"type": "TIME_BASED", "resourceId": "tick", "lifeDuration": 0}],
            queue="ticked",
        )
    tick = {"eventType": "TIME_BASED", "eventResourceId": "tick"}
    put(server, "ticker", every_seconds=1, emits=tick)
    [job] = server.post("/queues/ticked/claim", {"wait_seconds": 20}).json["items"]

    def recorded() -> list[Any]:
        outcomes = server.get("/schedules/ticker/outcomes").json["items"]
        return [
            one for one in outcomes if one["at"].replace("Z", "000Z") == job["payload"]["instant"]
        ]

    [emitted] = until(recorded)  # the event comes first, the schedule goes on after it
    assert (emitted["fate"], emitted["job_id"]) == ("emitted", None)
    server.delete("/schedules/ticker")
