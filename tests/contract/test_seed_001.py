"""The scenario and the three configurations that this part of oncue was asked for, with their own
timestamps of 2021, posted long afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oncue.clock import FakeClock
from oncue.core.publication import Published
from oncue.core.stamp import render
from oncue.ports.store import Store
from oncue.scheduler import Scheduler

FIXTURES = Path(__file__).parents[1] / "fixtures" / "seed_001"
SCENARIO = json.loads((FIXTURES / "scenario.json").read_text("utf-8"))
CONFIGURATIONS = json.loads((FIXTURES / "configurations.json").read_text("utf-8"))
ONE, TWO, THREE = (configuration["name"] for configuration in CONFIGURATIONS)


@pytest.fixture
def cue(store: Store, clock: FakeClock) -> Scheduler:
    cue = Scheduler(store, clock=clock)
    for configuration in CONFIGURATIONS:
        cue.put_rule(configuration["name"], configuration["dependencies"])
    return cue


def post(cue: Scheduler, kind: str, at: str, resource: str) -> Published:
    event = {"eventType": kind, "eventTimestamp": at, "eventResourceId": resource}
    [answer] = cue.publish(event)
    return answer


def fired(answer: Published) -> list[str]:
    return [job.rule for job in answer.jobs]


def validated(answer: Published, rule: str) -> str | None:
    mine = [one for one in answer.decisions if one.rule == rule and one.decision == "ACCEPTED"]
    return mine[0].dependency.resource if mine else None


def test_the_scenario_fires_at_half_past_twelve_and_ten_past_one_and_not_at_half_past_one(
    cue: Scheduler,
) -> None:
    for row in SCENARIO:
        [answer] = cue.publish(row["event"])
        assert validated(answer, ONE) == row["validated"], row["received"]
        assert (ONE in fired(answer)) is row["triggered"], row["received"]
    assert [job.payload["instant"] for job in cue.jobs(queue="rules") if job.rule == ONE] == [
        "2021-01-01T12:30:00.000000Z",
        "2021-01-01T13:10:00.000000Z",
    ]


@pytest.mark.parametrize("order", [SCENARIO, SCENARIO[::-1], SCENARIO[4:] + SCENARIO[:4]])
def test_the_scenario_fires_only_when_it_is_met_in_whatever_order_it_arrives(
    cue: Scheduler, order: list[Any]
) -> None:
    answers = cue.publish([row["event"] for row in order])
    instants = {render(job.instant)[11:16] for a in answers for job in a.jobs}
    assert instants
    assert instants <= {"12:30", "13:10"}
    assert all(answer.duplicate for answer in cue.publish([row["event"] for row in order]))


def test_both_tables_of_a_day_let_every_cron_fire_until_the_first_has_expired(
    cue: Scheduler,
) -> None:
    post(cue, "TABLE", "2021-01-01 13:00:00", "BIGQUERY_TABLE_NAME_1")
    assert fired(post(cue, "TIME_BASED", "2021-01-01 14:00:00", "cron")) == []
    post(cue, "TABLE", "2021-01-01 15:00:00", "BIGQUERY_TABLE_NAME_2")
    crons = {
        "2021-01-01 16:00:00": [TWO],
        "2021-01-02 00:00:00": [TWO],
        "2021-01-02 13:00:00": [TWO],
        "2021-01-02 13:00:01": [],
    }
    assert {at: fired(post(cue, "TIME_BASED", at, "cron")) for at in crons} == crons


def test_every_event_of_the_fourth_table_fires_for_a_day_after_the_third(cue: Scheduler) -> None:
    post(cue, "TABLE", "2021-01-01 13:00:00", "BIGQUERY_TABLE_NAME_3")
    fourths = {
        "2021-01-01 13:00:00": [THREE],
        "2021-01-01 20:00:00": [THREE],
        "2021-01-02 13:00:00": [THREE],
        "2021-01-02 13:00:01": [],
    }
    assert {at: fired(post(cue, "TABLE", at, "BIGQUERY_TABLE_NAME_4")) for at in fourths} == fourths
