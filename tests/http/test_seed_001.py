"""The scenario and the three configurations that this part of oncue was asked for, posted to the
endpoint with their own timestamps of 2021."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_seed_001 import CONFIGURATIONS, ONE, SCENARIO, THREE, TWO
from tests.http.happenings import place
from tests.http.patience import until
from tests.http.server import Server, running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With the three configurations put as they are written."""
    with running_server(tmp_path) as server:
        for configuration in CONFIGURATIONS:
            assert server.put(place(configuration["name"]), configuration).status == 201
        yield server


def post(server: Server, kind: str, at: str, resource: str) -> list[str]:
    """The rules that an event fires."""
    event = {"eventType": kind, "eventTimestamp": at, "eventResourceId": resource}
    return fired(answer(server, event))


def answer(server: Server, event: dict[str, str]) -> Any:
    reply = server.post("/events", event)
    assert reply.status == 201, reply.body
    [told] = reply.json["events"]
    return told


def fired(told: Any) -> list[str]:
    return [job["rule"] for job in told["jobs"]]


def test_the_scenario_fires_at_half_past_twelve_and_ten_past_one_and_not_at_half_past_one(
    server: Server,
) -> None:
    jobs: list[Any] = []
    for row in SCENARIO:
        told = answer(server, row["event"])
        mine = [one for one in told["decisions"] if one["rule"] == ONE]
        validated = [one["dependency"]["resourceId"] for one in mine]
        assert validated == [row["validated"]] * (row["validated"] is not None), row["received"]
        assert {one["decision"] for one in mine} <= {"ACCEPTED"}
        assert (ONE in fired(told)) is row["triggered"], row["received"]
        jobs += told["jobs"]
    assert [(job["rule"], job["instant"]) for job in jobs] == [
        (ONE, "2021-01-01T12:30:00.000000Z"),
        (ONE, "2021-01-01T13:10:00.000000Z"),
    ]
    lines = [f"job={job['jobId']}" for job in jobs]  # to trigger a job is to log it
    until(lambda: all(line in server.log for line in lines))


def test_the_scenario_sent_again_changes_nothing(server: Server) -> None:
    events = [row["event"] for row in SCENARIO]
    assert server.post("/events", events).status == 201
    assert server.post("/events", events).status == 200
    assert len(server.get("/jobs?queue=rules").json["items"]) == 2


def test_both_tables_of_a_day_let_every_cron_fire_until_the_first_has_expired(
    server: Server,
) -> None:
    post(server, "TABLE", "2021-01-01 13:00:00", "BIGQUERY_TABLE_NAME_1")
    assert post(server, "TIME_BASED", "2021-01-01 14:00:00", "cron") == []
    post(server, "TABLE", "2021-01-01 15:00:00", "BIGQUERY_TABLE_NAME_2")
    crons = {
        "2021-01-01 16:00:00": [TWO],
        "2021-01-02 00:00:00": [TWO],
        "2021-01-02 13:00:00": [TWO],
        "2021-01-02 13:00:01": [],
    }
    assert {at: post(server, "TIME_BASED", at, "cron") for at in crons} == crons


def test_every_event_of_the_fourth_table_fires_for_a_day_after_the_third(server: Server) -> None:
    post(server, "TABLE", "2021-01-01 13:00:00", "BIGQUERY_TABLE_NAME_3")
    fourths = {
        "2021-01-01 13:00:00": [THREE],
        "2021-01-01 20:00:00": [THREE],
        "2021-01-02 13:00:00": [THREE],
        "2021-01-02 13:00:01": [],
    }
    assert {at: post(server, "TABLE", at, "BIGQUERY_TABLE_NAME_4") for at in fourths} == fourths
