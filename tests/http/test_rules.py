"""Rules over HTTP: put, look, explain, forget."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oncue.core.rule import PAYLOAD_LIMIT_BYTES
from tests.http.happenings import Happenings, pages, place, stamp
from tests.http.server import Server, running_server

CRON = {"type": "TIME_BASED", "resourceId": "cron of the rules", "lifeDuration": 0}
FILE = {"type": "FILE", "resourceId": "/rules in/", "lifeDuration": 3600}
_numbers = count(1)


@pytest.fixture
def name() -> str:
    return f"rule {next(_numbers)}"


def test_a_rule_is_created_with_201_and_replaced_with_200(server: Server, name: str) -> None:
    fields = {"dependencies": [FILE, CRON], "queue": "loads", "payload": {"into": "a"}}
    created = server.put(place(name), fields)
    assert created.status == 201
    told = created.json
    times = {told.pop("createdAt"), told.pop("updatedAt")}
    assert told == {
        "name": name,
        "enabled": True,
        "lastInstant": None,
        "lastJobId": None,
        **fields,
    }
    assert len(times) == 1
    replaced = server.put(place(name), {"name": name, "dependencies": [CRON], "enabled": False})
    assert replaced.status == 200
    assert replaced.json["dependencies"] == [CRON]
    assert (replaced.json["enabled"], replaced.json["payload"]) == (False, None)
    assert replaced.json["queue"] == "rules"
    assert server.get(place(name)).json == replaced.json


def test_a_rule_may_be_posted_with_its_name(server: Server, name: str) -> None:
    fields = {"name": name, "dependencies": [FILE, CRON], "payload": {"into": "a"}}
    created = server.post("/rules", fields)
    assert (created.status, created.json["name"]) == (201, name)
    assert server.get(place(name)).json == created.json
    replaced = server.post("/rules", {"name": name, "dependencies": [CRON]})
    assert (replaced.status, replaced.json["dependencies"]) == (200, [CRON])
    nameless = server.post("/rules", {"dependencies": [CRON]})
    assert (nameless.status, nameless.pointer) == (422, "/name")


def test_other_spellings_are_understood_and_paths_are_normalised(server: Server, name: str) -> None:
    dependencies = [
        {"type": "TIME BASED", "resourceId": "a", "lifeDuration": "0"},
        {"type": "TIME_BASED_CRON", "resourceId": "b", "lifeDuration": "86400"},
        {"type": "FILE", "resourceId": "/in//x/./", "lifeDuration": 5},
        {"type": "FILE", "resourceId": "gs://bucket/dir/", "lifeDuration": 5},
    ]
    told = server.put(place(name), {"dependencies": dependencies}).json["dependencies"]
    assert [(one["type"], one["resourceId"], one["lifeDuration"]) for one in told] == [
        ("TIME_BASED", "a", 0),
        ("TIME_BASED", "b", 86_400),
        ("FILE", "/in/x/", 5),
        ("FILE", "gs://bucket/dir/", 5),
    ]


@pytest.mark.parametrize("name", ["a/b", "ü ñ", "100%", "?", "..", ".", "explain", "'; --", "<b>"])
def test_a_name_is_any_printable_text_percent_encoded(server: Server, name: str) -> None:
    encoded = "/rules/" + "".join(f"%{byte:02X}" for byte in name.encode())
    assert server.put(encoded, {"dependencies": [CRON]}).status == 201
    assert server.get(encoded).json["name"] == name
    assert server.get(f"{encoded}/explain").json["rule"] == name
    assert name in [rule["name"] for rule in pages(server, "/rules?limit=500")]
    assert server.delete(encoded).status == 204
    assert server.get(encoded).status == 404


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({}, "/dependencies"),
        ({"dependencies": []}, "/dependencies"),
        ({"dependencies": [CRON] * 51}, "/dependencies"),
        ({"dependencies": {}}, "/dependencies"),
        ({"dependencies": [CRON, 7]}, "/dependencies/1"),
        ({"dependencies": [CRON, FILE, {**CRON, "lifeDuration": 5}]}, "/dependencies/2"),
        ({"dependencies": [{**CRON, "lifeDuration": -1}]}, "/dependencies/0/lifeDuration"),
        ({"dependencies": [{**CRON, "lifeDuration": 1.5}]}, "/dependencies/0/lifeDuration"),
        ({"dependencies": [{**CRON, "lifeDuration": "1.5"}]}, "/dependencies/0/lifeDuration"),
        ({"dependencies": [{**CRON, "lifeDuration": True}]}, "/dependencies/0/lifeDuration"),
        ({"dependencies": [{**CRON, "lifeDuration": 10**10}]}, "/dependencies/0/lifeDuration"),
        ({"dependencies": [{**CRON, "type": "TOPIC"}]}, "/dependencies/0/type"),
        ({"dependencies": [{**CRON, "resourceId": ""}]}, "/dependencies/0/resourceId"),
        ({"dependencies": [{**FILE, "resourceId": "/a/../b"}]}, "/dependencies/0/resourceId"),
        ({"dependencies": [{**CRON, "colour": 1}]}, "/dependencies/0/colour"),
        ({"dependencies": [{"type": "FILE"}]}, "/dependencies/0/resourceId"),
        ({"dependencies": [CRON], "name": "another"}, "/name"),
        ({"dependencies": [CRON], "queue": "no queue"}, "/queue"),
        ({"dependencies": [CRON], "enabled": "yes"}, "/enabled"),
        ({"dependencies": [CRON], "payload": "\0"}, "/payload"),
        ({"dependencies": [CRON], "colour": 1}, "/colour"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_rule_is_named_and_nothing_is_stored(
    server: Server, name: str, fields: Any, pointer: str
) -> None:
    reply = server.put(place(name), fields)
    assert (reply.status, reply.pointer) == (422, pointer)
    assert server.get(place(name)).status == 404


def test_a_payload_beyond_the_limit_is_a_413(server: Server, name: str) -> None:
    fits = "a" * (PAYLOAD_LIMIT_BYTES - 2)
    assert server.put(place(name), {"dependencies": [CRON], "payload": fits}).status == 201
    reply = server.put(place(name), {"dependencies": [CRON], "payload": fits + "a"})
    assert (reply.status, reply.pointer) == (413, "/payload")


def test_a_payload_comes_back_as_it_was_sent(server: Server, name: str) -> None:
    payload = {"n": 2**63, "f": 0.1, "ü": [None, {}], "b": True}
    told = server.put(place(name), {"dependencies": [CRON], "payload": payload}).json
    assert json.dumps(told["payload"]) == json.dumps(payload)


def test_a_rule_that_is_not_there_is_not_found(server: Server) -> None:
    for reply in (
        server.get("/rules/nowhere"),
        server.delete("/rules/nowhere"),
        server.get("/rules/nowhere/explain"),
        server.get("/rules/%0A"),
        server.get("/events?rule=nowhere"),
    ):
        assert (reply.status, reply.json["type"]) == (404, "/problems/not-found")
    assert server.put("/rules/%0A", {"dependencies": [CRON]}).pointer == "/name"


def test_rules_are_listed_by_name_a_page_at_a_time(server: Server) -> None:
    names = ["z 1", "z 2", "z ü"]
    for one in reversed(names):
        server.put(place(one), {"dependencies": [CRON]})
    listed = [rule["name"] for rule in pages(server, "/rules?limit=1")]
    assert listed == sorted(listed)
    assert listed[-3:] == names
    last = server.get("/rules?limit=500").json
    assert last["next_cursor"] is None
    assert last["items"][-1] == server.get(place("z ü")).json


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/rules?limit=0", "?limit"),
        ("/rules?cursor=ü", "?cursor"),
        ("/rules?cursor=AA", "?cursor"),
        ("/rules?name=x", "?name"),
        ("/rules/x/explain?at=noon", "?at"),
        ("/rules/x/explain?at=2021-02-30T00:00:00Z", "?at"),
        ("/events?decision=MAYBE", "?decision"),
        ("/events?cursor=x", "?cursor"),
        ("/events?cursor=9999999999999999999", "?cursor"),
        ("/events?rule=%00", "?rule"),
        ("/events?limit=501", "?limit"),
    ],
)
def test_what_is_wrong_with_a_query_is_named(server: Server, path: str, pointer: str) -> None:
    reply = server.get(path)
    assert (reply.status, reply.pointer) == (422, pointer)


# -- explain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    [
        "2021-01-01T13:30:00Z",
        "2021-01-01T13:30:00.000000Z",
        "2021-01-01%2013:30:00",
        "2021-01-01+13:30:00",
        "2021-01-01T14:30:00%2B01:00",
        "2021-01-01T14:30:00+01:00",
    ],
)
def test_explain_says_which_event_would_fire_the_rule(server: Server, name: str, at: str) -> None:
    board = Happenings(server, name.replace(" ", "-")).hourly()
    board.post(board.file_at(44_090))
    told = server.get(f"{place(board.name, 'explain')}?at={at}").json
    file, cron = told["dependencies"]
    assert told["at"] == "2021-01-01T13:30:00.000000Z"
    assert (file["validity"], cron["validity"]) == ("EXPIRED", "NEVER_SEEN")
    assert file["event"]["eventResourceId"] == f"/{board.name}/a"
    assert file["validUntil"] == stamp(47_690)
    assert (told["met"], told["waitsFor"]) == (False, board.cron)
    assert (told["from"], told["until"]) == (stamp(44_090), stamp(47_690))
    assert told["sentence"] == (
        f"A TIME_BASED event `{board.name}.cron` stamped between 2021-01-01T12:14:50.000000Z and "
        "2021-01-01T13:14:50.000000Z would fire it."
    )


def test_explain_means_now_unless_it_is_told_otherwise(server: Server, name: str) -> None:
    server.put(place(name), {"dependencies": [CRON, FILE]})
    told = server.get(place(name, "explain")).json
    job = server.post("/jobs", {"delay": 3600}).json
    assert told["at"][:13] <= job["created_at"][:13]
    assert told["at"] > "2025"
    assert [one["validity"] for one in told["dependencies"]] == ["NEVER_SEEN"] * 2


def test_how_late_events_may_be_is_a_setting_of_the_server(tmp_path: Path) -> None:
    bounds = {"ONCUE_EVENTS_LATE_SECONDS": "0"}
    with running_server(tmp_path, **bounds) as server:
        server.put(place("r"), {"dependencies": [FILE, CRON]})
        event = {"eventType": "FILE", "eventResourceId": "/rules in/a"}
        told = [
            server.post("/events", {**event, "eventTimestamp": f"2021-01-01 {hour}:00:00"}).json
            for hour in ("12", "10")
        ]
    decisions = [one["events"][0]["decisions"][0]["decision"] for one in told]
    assert decisions == ["ACCEPTED", "TOO_LATE"]
