"""Moments and durations, as they are sent and as they are answered."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from tests.http.errand import created, taken
from tests.http.server import Server


def at(text: str) -> datetime:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text), text
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("2030-01-02T03:04:05Z", "2030-01-02T03:04:05.000Z"),
        ("2030-01-02t03:04:05z", "2030-01-02T03:04:05.000Z"),
        ("2030-01-02T03:04:05.1Z", "2030-01-02T03:04:05.100Z"),
        ("2030-01-02T03:04:05.123Z", "2030-01-02T03:04:05.123Z"),
        ("2030-01-02T03:04:05.1230000Z", "2030-01-02T03:04:05.123Z"),
        ("2030-01-02T03:04:05.1230001Z", "2030-01-02T03:04:05.124Z"),
        ("2030-01-02T03:04:05.9999Z", "2030-01-02T03:04:06.000Z"),
        ("2030-01-02T03:04:05+01:00", "2030-01-02T02:04:05.000Z"),
        ("2030-01-01T23:04:05-05:30", "2030-01-02T04:34:05.000Z"),
        ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000Z"),
    ],
)
def test_a_moment_is_answered_in_utc_rounded_up(server: Server, sent: str, answered: str) -> None:
    reply = server.post("/jobs", {"queue": "moments", "due_at": sent, "expires_at": sent})
    assert reply.status == 201
    assert (reply.json["due_at"], reply.json["expires_at"]) == (answered, answered)
    changed = server.patch(f"/jobs/{created(server, 'moments', delay=9)}", {"due_at": sent})
    assert changed.json["due_at"] == answered


@pytest.mark.parametrize(
    "sent",
    [
        *("2030-01-02T03:04:05", "2030-01-02", "tomorrow", "", "1893553445", 1893553445, True, []),
        *("2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01T24:00:01Z"),
        *("2030-01-01T00:00:60Z", "2030-01-01T00:00:00+99:00", "2030-01-01T00:00Z"),
        *("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.9999Z", "10000-01-01T00:00:00Z"),
        *("2030-01-02T03:04:05Z\n", "２０３０-01-02T03:04:05Z"),
    ],
)
def test_what_names_no_moment_is_refused(server: Server, sent: object) -> None:
    for field in ("due_at", "expires_at"):
        reply = server.post("/jobs", {"queue": "no-moments", field: sent})
        assert (reply.status, reply.pointer) == (422, f"/{field}")
    job_id = created(server, "moments", delay=60)
    reply = server.patch(f"/jobs/{job_id}", {"due_at": sent})
    assert (reply.status, reply.pointer) == (422, "/due_at")
    assert server.get("/jobs?queue=no-moments").json["items"] == []


@pytest.mark.parametrize("sent", ["1969-07-20T20:17:40Z", "0001-01-01T00:00:00+14:00"])
def test_the_past_means_now(server: Server, sent: str) -> None:
    queue = f"past-{sent[:4]}"
    job = server.post("/jobs", {"queue": queue, "due_at": sent}).json
    assert job["due_at"] == job["created_at"]
    assert [one["id"] for one in taken(server, queue)] == [job["id"]]


def test_without_a_time_a_job_can_be_claimed_at_once(server: Server) -> None:
    job_id = created(server, "at-once")
    assert [job["id"] for job in taken(server, "at-once")] == [job_id]


def test_what_lies_ahead_cannot_be_claimed(server: Server) -> None:
    created(server, "ahead", delay=60)
    assert taken(server, "ahead", limit=10) == []


def test_a_century_is_the_horizon(server: Server) -> None:
    now = datetime.fromisoformat(server.post("/jobs", {"queue": "far"}).json["created_at"])
    within = (now + timedelta(days=99 * 365)).isoformat()
    beyond = (now + timedelta(days=101 * 366)).isoformat()
    assert server.post("/jobs", {"queue": "far", "due_at": within}).status == 201
    reply = server.post("/jobs", {"queue": "far", "due_at": beyond})
    assert (reply.status, reply.pointer) == (422, "/due_at")
    for delay in (101 * 366 * 86_400, 1e300, "P5300W"):
        reply = server.post("/jobs", {"queue": "far", "delay": delay})
        assert (reply.status, reply.pointer) == (422, "/delay")


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [(90, 90), (1.5, 1.5), (0.0001, 0.001), ("PT15M", 900), ("P1DT12H", 129_600), ("PT1.5S", 1.5)],
)
def test_a_delay_counts_from_now(server: Server, delay: object, seconds: float) -> None:
    job = server.post("/jobs", {"queue": "delays", "delay": delay}).json
    assert at(job["due_at"]) - at(job["created_at"]) == timedelta(seconds=seconds)


@pytest.mark.parametrize("delay", [-1, "15m", "PT", "P", "", "-PT1S", "P1Y", True, [], "PT1S "])
def test_what_is_no_duration_is_refused(server: Server, delay: object) -> None:
    reply = server.post("/jobs", {"delay": delay})
    assert (reply.status, reply.pointer) == (422, "/delay")


def test_a_time_and_a_delay_exclude_each_other(server: Server) -> None:
    reply = server.post("/jobs", {"delay": 1, "due_at": "2030-01-01T00:00:00Z"})
    assert (reply.status, reply.pointer) == (422, "/delay")
    job_id = created(server, "both", delay=60)
    reply = server.patch(f"/jobs/{job_id}", {"delay": 1, "due_at": "2030-01-01T00:00:00Z"})
    assert (reply.status, reply.pointer) == (422, "/delay")


def test_every_duration_may_be_iso_8601(server: Server) -> None:
    settings = {"lease_seconds": "PT2M", "timeout_seconds": "PT1H", "retention_seconds": "P1D"}
    queue = server.put("/queues/iso", settings).json
    assert {name: queue[name] for name in settings} == {
        "lease_seconds": 120,
        "timeout_seconds": 3600,
        "retention_seconds": 86_400,
    }
    job = server.post("/jobs", {"queue": "iso", "timeout_seconds": "PT30S"}).json
    assert job["timeout_seconds"] == 30
    [job] = taken(server, "iso", lease_seconds="PT5M", wait_seconds="PT0S")
    lease = at(job["lease_until"]) - at(job["updated_at"])
    assert lease == timedelta(minutes=5)
