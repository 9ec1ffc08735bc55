"""Schedules that emit: rules run by themselves, because the clock sends the events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue.core.errors import InvalidInput
from oncue.core.moment import parse
from oncue.core.recurrence import Fate
from oncue.core.schedule import Emission, occurrence_event
from oncue.testing import FakeClock, HandDriven

FIXTURES = Path(__file__).parents[1] / "fixtures" / "seed_001"
ONE, TWO, _ = json.loads((FIXTURES / "configurations.json").read_text("utf-8"))
FOLDER = ONE["dependencies"][0]["resourceId"]
START = parse("2021-01-01T12:00:00Z")
CRON = {"eventType": "TIME_BASED", "eventResourceId": "cron"}


@pytest.fixture(params=["memory", "sqlite"])
def cue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HandDriven]:
    place = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'jobs.db'}"
    with HandDriven(place, clock=FakeClock(START)) as cue:
        yield cue


def put_rule(cue: HandDriven, configuration: Any) -> None:
    cue.put_rule(configuration["name"], configuration["dependencies"], queue="loads")


def happened(cue: HandDriven, kind: str, at: str, resource: str) -> None:
    event = {"eventType": kind, "eventTimestamp": f"2021-01-0{at}", "eventResourceId": resource}
    cue.publish(event)


def instants(cue: HandDriven) -> list[str]:
    """Of the jobs that rules have created."""
    return [f"{job.instant:%d %H:%M}" for job in cue.jobs(queue="loads")]


def test_the_first_configuration_runs_by_itself_for_an_hour_after_a_file(cue: HandDriven) -> None:
    put_rule(cue, ONE)
    ran: list[str] = []

    @cue.handler("loads")
    def run(job: Any) -> None:
        ran.append(f"{job.due_at:%H:%M}")

    cue.every("*/30 * * * *", name="half-hourly", emits=CRON)
    cue.advance(600)
    happened(cue, "FILE", "1 12:14:50", f"{FOLDER}a.csv")
    cue.advance(2 * 3600)
    assert ran == ["12:30", "13:00"]
    assert instants(cue) == ["01 12:30", "01 13:00"]


def test_the_second_configuration_runs_by_itself_while_both_tables_are_fresh(
    cue: HandDriven,
) -> None:
    put_rule(cue, TWO)
    cue.every("0 6,18 * * *", name="twice-a-day", emits=CRON)
    happened(cue, "TABLE", "1 13:00:00", "BIGQUERY_TABLE_NAME_1")
    cue.advance(8 * 3600)
    assert instants(cue) == []
    happened(cue, "TABLE", "1 20:00:00", "BIGQUERY_TABLE_NAME_2")
    cue.advance(2 * 86_400)
    assert instants(cue) == ["02 06:00"]


def test_what_was_emitted_is_recorded_and_no_job_of_the_schedule_is_made(cue: HandDriven) -> None:
    cue.every("0 * * * *", name="hourly", emits=CRON)
    cue.advance(2 * 3600)
    outcomes = cue.schedule_outcomes("hourly")
    assert [(one.fate, f"{one.at:%H:%M}", one.job_id) for one in outcomes] == [
        (Fate.EMITTED, "13:00", None),
        (Fate.EMITTED, "14:00", None),
    ]
    assert list(cue.jobs()) == []
    assert [f"{one.event.timestamp:%H:%M:%S}" for one in cue.events()] == ["14:00:00", "13:00:00"]


def test_an_event_that_was_published_before_a_crash_is_not_another_one(cue: HandDriven) -> None:
    put_rule(cue, ONE)
    happened(cue, "FILE", "1 12:14:50", f"{FOLDER}a.csv")
    schedule = cue.every("30 * * * *", name="hourly", emits=CRON)
    assert cue.engine.recurrer.publish is not None
    cue.clock.advance(1800)
    cue.engine.recurrer.publish(schedule, [cue.clock.now()])  # and died before it went on
    assert instants(cue) == ["01 12:30"]
    cue.run_due()
    assert instants(cue) == ["01 12:30"]
    assert [one.fate for one in cue.schedule_outcomes("hourly")] == [Fate.EMITTED]
    assert len([one for one in cue.events() if one.event.resource == "cron"]) == 1


def test_two_nodes_emit_one_event(cue: HandDriven) -> None:
    other = HandDriven(cue.store, clock=cue.clock)
    cue.every("0 * * * *", name="hourly", emits=CRON)
    for _ in range(3):
        cue.clock.advance(3600)
        other.run_due()
        cue.run_due()
    assert len(list(cue.events())) == 3
    assert len(cue.schedule_outcomes("hourly")) == 3


def test_what_is_due_is_emitted_by_the_old_settings_and_once(cue: HandDriven) -> None:
    schedule = cue.every("0 * * * *", name="hourly", emits=CRON)
    assert cue.engine.recurrer.publish is not None
    cue.clock.advance(3600)
    cue.engine.recurrer.publish(schedule, [cue.clock.now()])  # and died before it went on
    cue.every("0 * * * *", name="hourly", emits={**CRON, "eventResourceId": "tick"})
    cue.run_due()
    assert [one.event.resource for one in cue.events()] == ["cron"]
    cue.advance(3600)
    assert sorted(one.event.resource for one in cue.events()) == ["cron", "tick"]


def test_schedules_that_emit_the_same_at_the_same_moment_emit_one_event(cue: HandDriven) -> None:
    cue.every("0 * * * *", name="a", emits=CRON)
    cue.every("0 13 * * *", name="b", emits=CRON)
    cue.advance(3600)
    assert len(list(cue.events())) == 1
    assert [one.fate for one in cue.schedule_outcomes("b")] == [Fate.EMITTED]


def test_jobs_of_schedules_and_of_their_events_count_as_created(cue: HandDriven) -> None:
    put_rule(cue, ONE)
    happened(cue, "FILE", "1 12:14:50", f"{FOLDER}a.csv")
    cue.every("30 * * * *", name="hourly", emits=CRON)
    cue.every("0 * * * *", name="plain", queue="q")
    before = cue.telemetry.totals().counts["jobs_created"]
    cue.advance(3600)
    assert cue.telemetry.totals().counts["jobs_created"] - before == 2


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (("TIME_BASED_CRON", "cron"), ("TIME_BASED", "cron")),
        (("TIME BASED", "cron"), ("TIME_BASED", "cron")),
        (("FILE", "/in//a/./b/"), ("FILE", "/in/a/b")),
        (("TABLE", "sales/./x"), ("TABLE", "sales/./x")),
    ],
)
def test_an_emission_is_read_as_events_are(sent: tuple[str, str], kept: tuple[str, str]) -> None:
    emission = Emission(*sent)
    assert (emission.event_type, emission.resource_id) == kept


@pytest.mark.parametrize(
    ("kind", "resource", "pointer"),
    [
        ("CRON", "cron", "/emits/eventType"),
        (7, "cron", "/emits/eventType"),
        ("TABLE", "é" * 513, "/emits/eventResourceId"),
        ("TABLE", "\ud800", "/emits/eventResourceId"),
        ("FILE", "/in/../out", "/emits/eventResourceId"),
    ],
)
def test_what_no_event_may_have_no_schedule_emits(kind: Any, resource: str, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Emission(kind, resource)
    assert refused.value.pointer == pointer


def test_the_id_of_an_event_is_that_of_schedule_moment_and_fact(cue: HandDriven) -> None:
    a = cue.every("0 * * * *", name="a", emits=CRON)
    b = cue.every("0 * * * *", name="b", emits=CRON)
    assert occurrence_event(a, START) == occurrence_event(a, START)
    ids = {occurrence_event(one, at).id for one in (a, b) for at in (START, START + 1000)}
    assert len(ids) == 4
