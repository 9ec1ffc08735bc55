"""Lists: filters, limits, cursors; and percent-encoding where names are free text."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from oncue.api.paging import FIRST_STEP
from tests.http.errand import created, taken, told
from tests.http.server import Server


def walked(server: Server, path: str) -> list[Any]:
    """Every item of a list, page by page."""
    items: list[Any] = []
    separator = "&" if "?" in path else "?"
    page = server.get(path).json
    while True:
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        page = server.get(f"{path}{separator}cursor={page['next_cursor']}").json


def test_jobs_are_listed_by_due_time_and_then_by_id(server: Server) -> None:
    for job_id, delay in (("l-c", 300), ("l-b", 100), ("l-a", 200)):
        created(server, "ordered", id=job_id, delay=delay)
    same = "2030-01-01T00:00:00Z"
    for job_id in ("l-z", "l-y", "l-x"):
        created(server, "ordered", id=job_id, due_at=same)
    ids = [job["id"] for job in server.get("/jobs?queue=ordered").json["items"]]
    assert ids == ["l-b", "l-a", "l-c", "l-x", "l-y", "l-z"]


def test_pages_follow_each_other_without_gap_or_repetition(server: Server) -> None:
    for number in range(7):
        created(server, "paged", id=f"p{number}", due_at="2030-01-01T00:00:00Z")
    first = server.get("/jobs?queue=paged&limit=3").json
    assert len(first["items"]) <= 3
    assert first["next_cursor"] is not None
    ids = [job["id"] for job in walked(server, "/jobs?queue=paged&limit=3")]
    assert ids == [f"p{number}" for number in range(7)]


def test_fifty_are_listed_unless_another_limit_is_asked_for(server: Server) -> None:
    for number in range(52):
        created(server, "fifty", delay=60 + number)
    assert len(server.get("/jobs?queue=fifty").json["items"]) == 50
    assert len(walked(server, "/jobs?queue=fifty")) == 52
    everything = server.get("/jobs?queue=fifty&limit=500").json
    assert (len(everything["items"]), everything["next_cursor"]) == (52, None)


def test_a_page_of_large_jobs_is_short(server: Server) -> None:
    large = json.dumps({"queue": "large", "payload": "x" * 200_000}).encode()
    sent = {"Content-Type": "application/x-ndjson"}
    batch = server.post("/jobs/batch", body=b"\n".join([large] * 100), headers=sent)
    assert batch.json["accepted"] == 100
    first = server.get("/jobs?queue=large&limit=500")
    assert len(first.json["items"]) == FIRST_STEP
    found = walked(server, "/jobs?queue=large&limit=500")
    assert len({job["id"] for job in found}) == len(found) == 100


def test_an_empty_list_is_a_list(server: Server) -> None:
    assert server.get("/jobs?queue=none-here").json == {"items": [], "next_cursor": None}


def test_queues_are_listed_by_name_and_page_by_page(server: Server) -> None:
    for name in ("zz.1", "zz.3", "zz.2"):
        created(server, name)
    names = [queue["name"] for queue in walked(server, "/queues?limit=2")]
    assert names == sorted(set(names))
    assert {"zz.1", "zz.2", "zz.3"} <= set(names)


def test_jobs_are_found_by_state(server: Server) -> None:
    waiting = created(server, "states", delay=60)
    created(server, "states")
    [executing] = taken(server, "states")
    told(server, executing, "start")
    created(server, "states")
    [dispatched] = taken(server, "states")
    found = {
        state: [job["id"] for job in server.get(f"/jobs?queue=states&state={state}").json["items"]]
        for state in ("scheduled", "dispatched", "executing", "succeeded", "failed", "cancelled")
    }
    assert found == {
        "scheduled": [waiting],
        "dispatched": [dispatched["id"]],
        "executing": [executing["id"]],
        "succeeded": [],
        "failed": [],
        "cancelled": [],
    }


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # one emoji, of three


@pytest.mark.parametrize("name", ["a/b", "50% & more", "ü+1 ?#", "<b>'\";--</b>", FAMILY])
def test_owners_and_keys_are_any_printable_text(server: Server, name: str) -> None:
    job_id = created(server, "labels", owner=name, key=name, delay=60)
    created(server, "labels", owner="somebody else", delay=60)
    for field in ("owner", "key"):
        items = server.get(f"/jobs?{field}={quote(name, safe='')}").json["items"]
        assert [job["id"] for job in items] == [job_id]
        assert items[0][field] == name


def test_a_due_range_includes_its_beginning_and_not_its_end(server: Server) -> None:
    for day in (1, 2, 3):
        created(server, "range", id=f"day-{day}", due_at=f"2031-01-0{day}T00:00:00Z")
    between = "due_after=2031-01-01T00:00:00Z&due_before=2031-01-03T00:00:00Z"
    items = server.get(f"/jobs?queue=range&{between}").json["items"]
    assert [job["id"] for job in items] == ["day-1", "day-2"]
    encoded = f"due_after={quote('2031-01-03T01:00:00+01:00')}"
    items = server.get(f"/jobs?queue=range&{encoded}").json["items"]
    assert [job["id"] for job in items] == ["day-3"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "?limit"),
        ("limit=501", "?limit"),
        ("limit=000000100999", "?limit"),
        ("limit=ten", "?limit"),
        ("limit=-1", "?limit"),
        ("limit=%D9%A1", "?limit"),
        ("limit=1&limit=2", "?limit"),
        ("cursor=", "?cursor"),
        ("cursor=nonsense", "?cursor"),
        ("cursor=%00", "?cursor"),
        ("cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTkueA", "?cursor"),
        ("state=done", "?state"),
        ("queue=%C3%BC", "?queue"),
        ("owner=", "?owner"),
        ("key=%00", "?key"),
        ("due_after=2031-01-01T00:00:00", "?due_after"),
        ("due_before=yesterday", "?due_before"),
        ("colour=red", "?colour"),
    ],
)
def test_a_query_that_is_wrong_is_named(server: Server, query: str, pointer: str) -> None:
    reply = server.get(f"/jobs?{query}")
    assert (reply.status, reply.pointer) == (422, pointer)


@pytest.mark.parametrize("path", ["/jobs", "/events", "/queues", "/schedules", "/rules"])
def test_what_is_no_cursor_is_told_in_the_same_way_everywhere(server: Server, path: str) -> None:
    reply = server.get(f"{path}?cursor=no+cursor")
    assert (reply.status, reply.pointer) == (422, "?cursor")
    assert "this is not a cursor" in reply.json["detail"]


@pytest.mark.parametrize(
    "path",
    [
        *("/jobs/x", "/jobs/x/explain", "/queues/x", "/tasks/x/y", "/livez", "/readyz"),
        *("/metrics", "/queues", "/tasks/x"),
    ],
)
def test_unknown_query_parameters_are_refused_everywhere(server: Server, path: str) -> None:
    reply = server.get(f"{path}?colour=red")
    assert (reply.status, reply.pointer) == (422, "?colour")
